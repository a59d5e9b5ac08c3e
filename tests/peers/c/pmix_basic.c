/* A process of a job, as the C library sees it: init, job data, put in each scope, commit, fence with data, get of
 * every peer's values, publish, lookup and unpublish, finalize.
 * One line a step, "OK" or "FAIL"; exits with 1 if a check failed. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static int failed = 0;

static void check(int holds, const char *what, pmix_status_t status)
{
    printf("%u %s %s (%s)\n", me.rank, holds ? "OK" : "FAIL", what, PMIx_Error_string(status));
    failed += !holds;
}

/* What the launcher must have said about a process or a job, and its type. */
static void check_type(const pmix_proc_t *proc, const char *key, pmix_data_type_t type)
{
    pmix_value_t *value = NULL;
    pmix_status_t status = PMIx_Get(proc, key, NULL, 0, &value);
    check(PMIX_SUCCESS == status && NULL != value && value->type == type, key, status);
    if (NULL != value) PMIX_VALUE_RELEASE(value);
}

static void put(pmix_scope_t scope, const char *key, const void *data, pmix_data_type_t type)
{
    pmix_value_t value;
    PMIX_VALUE_LOAD(&value, data, type);
    pmix_status_t status = PMIx_Put(scope, key, &value);
    PMIX_VALUE_DESTRUCT(&value);
    check(PMIX_SUCCESS == status, "put", status);
}

static void fence(bool with_data)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &with_data, PMIX_BOOL);
    pmix_status_t status = PMIx_Fence(NULL, 0, &info, 1);
    check(PMIX_SUCCESS == status, with_data ? "fence with data" : "fence", status);
}

/* set by the library's own thread */
static volatile int found_late = 0;

static void on_lookup(pmix_status_t status, pmix_pdata_t found[], size_t count, void *data)
{
    check(PMIX_SUCCESS == status && 1 == count && PMIX_STRING == found[0].value.type
              && 0 == strcmp(found[0].value.data.string, "tcp://nowhere:1"),
          "lookup that waited", status);
    found_late = 1;
}

static void publish_and_look_up(void)
{
    pmix_status_t status;
    pmix_info_t info;
    pmix_pdata_t found;
    const bool yes = true;
    char *keys[] = {"basic-port", NULL};

    /* the fence behind it tells that the lookup has arrived, and has nothing to find yet */
    PMIX_INFO_LOAD(&info, PMIX_WAIT, &yes, PMIX_BOOL);
    status = PMIx_Lookup_nb(keys, &info, 1, on_lookup, NULL);
    check(PMIX_SUCCESS == status, "lookup", status);
    fence(false);
    check(!found_late, "lookup waits", PMIX_SUCCESS);
    fence(false);
    if (0 == me.rank) {
        PMIX_INFO_LOAD(&info, keys[0], "tcp://nowhere:1", PMIX_STRING);
        status = PMIx_Publish(&info, 1);
        check(PMIX_SUCCESS == status, "publish", status);
    }
    while (!found_late) usleep(1000);
    fence(false);
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, keys[0]);
    status = PMIx_Lookup(&found, 1, NULL, 0);
    check(PMIX_SUCCESS == status && PMIX_STRING == found.value.type && 0 == found.proc.rank
              && 0 == strcmp(found.value.data.string, "tcp://nowhere:1"),
          "lookup of what is there", status);
    PMIX_PDATA_DESTRUCT(&found);
    fence(false);
    if (0 == me.rank) {
        status = PMIx_Unpublish(keys, NULL, 0);
        check(PMIX_SUCCESS == status, "unpublish", status);
    }
    fence(false);
    PMIX_PDATA_CONSTRUCT(&found);
    PMIX_LOAD_KEY(found.key, keys[0]);
    status = PMIx_Lookup(&found, 1, NULL, 0);
    check(PMIX_ERR_NOT_FOUND == status, "lookup of what is gone", status);
}

int main(void)
{
    const int64_t local = -1234567890123LL;
    const double remote = 3.25;
    const bool yes = true;
    uint32_t size = 0;
    char key[64], text[64];
    pmix_proc_t job, peer;
    pmix_value_t *value = NULL;
    pmix_info_t info;

    setvbuf(stdout, NULL, _IOLBF, 0);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    check(PMIX_SUCCESS == status, "init", status);
    if (PMIX_SUCCESS != status) return 1;

    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    status = PMIx_Get(&job, PMIX_JOB_SIZE, NULL, 0, &value);
    check(PMIX_SUCCESS == status && PMIX_UINT32 == value->type, "job size", status);
    if (PMIX_SUCCESS != status) return 1;
    size = value->data.uint32;
    PMIX_VALUE_RELEASE(value);
    check_type(&job, PMIX_UNIV_SIZE, PMIX_UINT32);
    check_type(&job, PMIX_NUM_NODES, PMIX_UINT32);
    check_type(&job, PMIX_LOCAL_SIZE, PMIX_UINT32);
    check_type(&job, PMIX_LOCAL_PEERS, PMIX_STRING);
    check_type(&job, PMIX_NODE_LIST, PMIX_STRING);
    check_type(&job, PMIX_JOBID, PMIX_STRING);
    check_type(&me, PMIX_LOCAL_RANK, PMIX_UINT16);
    check_type(&me, PMIX_NODE_RANK, PMIX_UINT16);
    check_type(&me, PMIX_GLOBAL_RANK, PMIX_PROC_RANK);
    check_type(&me, PMIX_APPNUM, PMIX_UINT32);
    check_type(&me, PMIX_NODEID, PMIX_UINT32);
    check_type(&me, PMIX_HOSTNAME, PMIX_STRING);

    snprintf(key, sizeof key, "basic-%u", me.rank);
    snprintf(text, sizeof text, "value from %u", me.rank);
    put(PMIX_GLOBAL, key, text, PMIX_STRING);
    put(PMIX_LOCAL, "basic-local", &local, PMIX_INT64);
    put(PMIX_REMOTE, "basic-remote", &remote, PMIX_DOUBLE);
    status = PMIx_Commit();
    check(PMIX_SUCCESS == status, "commit", status);
    fence(true);

    PMIX_LOAD_NSPACE(peer.nspace, me.nspace);
    for (peer.rank = 0; peer.rank < size; peer.rank++) {
        snprintf(key, sizeof key, "basic-%u", peer.rank);
        snprintf(text, sizeof text, "value from %u", peer.rank);
        value = NULL;
        status = PMIx_Get(&peer, key, NULL, 0, &value);
        check(PMIX_SUCCESS == status && PMIX_STRING == value->type && 0 == strcmp(value->data.string, text),
              "get of a peer's value", status);
        if (NULL != value) PMIX_VALUE_RELEASE(value);
    }
    peer.rank = (me.rank + 1) % size;
    value = NULL;
    status = PMIx_Get(&peer, "basic-local", NULL, 0, &value);
    check(PMIX_SUCCESS == status && PMIX_INT64 == value->type && local == value->data.int64,
          "get of a local value", status);
    if (NULL != value) PMIX_VALUE_RELEASE(value);

    publish_and_look_up();

    /* what is not there fails at once if asked for so; nobody hangs */
    PMIX_INFO_LOAD(&info, PMIX_IMMEDIATE, &yes, PMIX_BOOL);
    value = NULL;
    status = PMIx_Get(&peer, "no-such-key", &info, 1, &value);
    check(PMIX_SUCCESS != status, "get of an absent key", status);

    status = PMIx_Finalize(NULL, 0);
    check(PMIX_SUCCESS == status, "finalize", status);
    printf("%u done, %d checks failed\n", me.rank, failed);
    return 0 != failed;
}
