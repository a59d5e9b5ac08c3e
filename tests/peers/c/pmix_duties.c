/* What a host owes its processes, as the C library tells it: of the process, of its node, of its application. One line, and
 * with an argument beyond the first, waits until its input ends. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *nspace;

static void show(const char *name, pmix_status_t status, const pmix_value_t *value)
{
    printf(" %s=", name);
    if (PMIX_SUCCESS != status) printf("-");
    else if (PMIX_UINT16 == value->type) printf("%u", value->data.uint16);
    else if (PMIX_UINT32 == value->type) printf("%u", value->data.uint32);
    else if (PMIX_BOOL == value->type) printf("%s", value->data.flag ? "true" : "false");
    else if (PMIX_STRING == value->type) printf("%s", value->data.string);
    else if (PMIX_PROC == value->type) printf("%s.%u", value->data.proc->nspace, value->data.proc->rank);
    else if (PMIX_DATA_ARRAY == value->type && PMIX_PROC == value->data.darray->type) {
        const pmix_proc_t *procs = value->data.darray->array;
        for (size_t i = 0; i < value->data.darray->size; i++)
            printf("%s%s.%u", i ? "," : "", procs[i].nspace, procs[i].rank);
    } else printf("type %u", value->type);
}

/* A value of a process, or with a directive of its node or application. */
static void get(const char *name, const char *key, pmix_rank_t rank, const char *of)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    pmix_info_t info;
    bool yes = true;
    PMIX_LOAD_PROCID(&proc, nspace, rank);
    if (NULL != of) PMIX_INFO_LOAD(&info, of, &yes, PMIX_BOOL);
    const pmix_status_t status = PMIx_Get(&proc, key, of ? &info : NULL, of ? 1 : 0, &value);
    show(name, status, value);
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    if (PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    nspace = me.nspace;
    printf("rank=%u", me.rank);
    get("node_rank", PMIX_NODE_RANK, me.rank, NULL);
    get("reincarnation", PMIX_REINCARNATION, me.rank, NULL);
    get("procdir", PMIX_PROCDIR, me.rank, NULL);
    get("parent", PMIX_PARENT_ID, me.rank, NULL);
    get("spawned", PMIX_SPAWNED, me.rank, NULL);
    get("node_size", PMIX_NODE_SIZE, PMIX_RANK_WILDCARD, PMIX_NODE_INFO);
    get("local_procs", PMIX_LOCAL_PROCS, PMIX_RANK_WILDCARD, PMIX_NODE_INFO);
    get("local_size", PMIX_LOCAL_SIZE, PMIX_RANK_WILDCARD, NULL);
    get("local_peers", PMIX_LOCAL_PEERS, PMIX_RANK_WILDCARD, NULL);
    get("local_cpusets", PMIX_LOCAL_CPUSETS, PMIX_RANK_WILDCARD, NULL);
    get("argv", PMIX_APP_ARGV, PMIX_RANK_WILDCARD, PMIX_APP_INFO);
    get("wdir", PMIX_WDIR, PMIX_RANK_WILDCARD, PMIX_APP_INFO);
    get("max", PMIX_MAX_PROCS, PMIX_RANK_WILDCARD, PMIX_APP_INFO);
    get("network", "test.network", PMIX_RANK_WILDCARD, NULL);
    printf(" variable=%s\n", argc > 1 && getenv(argv[1]) ? getenv(argv[1]) : "-");
    fflush(stdout);
    if (argc > 2) while (EOF != getchar()) {}
    return PMIX_SUCCESS != PMIx_Finalize(NULL, 0);
}
