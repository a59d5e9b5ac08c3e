/* A process that shares its job with processes of another kind: what `pmix-test-rank put-commit-get 1` does, with the
 * same key and text. The argument is a named pipe; opening it, which waits for a writer, comes before the fence. */
#include <fcntl.h>
#include <pmix.h>
#include <stdio.h>
#include <string.h>

#define KEY "key-0"

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

int main(int argc, char **argv)
{
    pmix_proc_t me, peer;
    pmix_value_t mine, *value = NULL;
    pmix_info_t info;
    pmix_status_t status;
    const bool yes = true;
    char text[PMIX_MAX_NSLEN + 32];

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (PMIX_SUCCESS != (status = PMIx_Init(&me, NULL, 0))) return fail("init", status);
    printf("%s:%u connected to its server\n", me.nspace, me.rank);
    snprintf(text, sizeof text, "%s:%u 0", me.nspace, me.rank);
    PMIX_VALUE_LOAD(&mine, text, PMIX_STRING);
    if (PMIX_SUCCESS != (status = PMIx_Put(PMIX_GLOBAL, KEY, &mine))) return fail("put", status);
    if (PMIX_SUCCESS != (status = PMIx_Commit())) return fail("commit", status);
    if (argc > 1 && open(argv[1], O_RDONLY) < 0) return fail(argv[1], PMIX_ERR_NOT_FOUND);
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    if (PMIX_SUCCESS != (status = PMIx_Fence(NULL, 0, &info, 1))) return fail("fence", status);

    PMIX_LOAD_PROCID(&peer, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIX_SUCCESS != (status = PMIx_Get(&peer, PMIX_JOB_SIZE, NULL, 0, &value))) return fail("size", status);
    const uint32_t size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    for (peer.rank = 0; peer.rank < size; peer.rank++) {
        value = NULL;
        if (PMIX_SUCCESS != (status = PMIx_Get(&peer, KEY, NULL, 0, &value))) return fail("get", status);
        snprintf(text, sizeof text, "%s:%u 0", me.nspace, peer.rank);
        if (PMIX_STRING != value->type || 0 != strcmp(value->data.string, text)) return fail(text, PMIX_ERROR);
        PMIX_VALUE_RELEASE(value);
    }
    printf("read %u values\n", size);
    if (PMIX_SUCCESS != (status = PMIx_Finalize(NULL, 0))) return fail("finalize", status);
    return 0;
}
