/* Keys made from the namespace, as programs make them: they must not count as reserved. Each rank prints ok. */
#include <pmix.h>
#include <stdio.h>
int main(void)
{
    pmix_proc_t me, all, peer;
    pmix_value_t v, *got = NULL, *size = NULL;
    char key[PMIX_MAX_KEYLEN + 1];
    bool yes = true;
    pmix_info_t collect;
    if (PMIx_Init(&me, NULL, 0)) return 1;
    PMIX_PROC_LOAD(&all, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIx_Get(&all, PMIX_JOB_SIZE, NULL, 0, &size)) return 1;
    uint32_t next = (me.rank + 1) % size->data.uint32;
    snprintf(key, sizeof key, "%s-%u-own", me.nspace, me.rank);
    v.type = PMIX_UINT32;
    v.data.uint32 = 40 + me.rank;
    int stored = PMIx_Store_internal(&me, key, &v), put = PMIx_Put(PMIX_GLOBAL, key, &v), commit = PMIx_Commit();
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    int fence = PMIx_Fence(&all, 1, &collect, 1);
    PMIX_PROC_LOAD(&peer, me.nspace, next);
    snprintf(key, sizeof key, "%s-%u-own", me.nspace, next);
    int get = PMIx_Get(&peer, key, NULL, 0, &got);
    int good = !stored && !put && !commit && !fence && !get && got && got->data.uint32 == 40 + next;
    printf("rank %u: store %d put %d commit %d fence %d get %d: %s\n", me.rank, stored, put, commit, fence, get, good ? "ok" : "WRONG");
    PMIx_Finalize(NULL, 0);
    return !good;
}
