/* Where the processes of a node run, as the C library tells it: what was registered for each process, and what the library makes
 * of it and finds itself with hwloc. One line for each process, written by each of them. */
#include <pmix.h>
#include <pmix_server.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* declared by later headers only */
pmix_status_t PMIx_Get_relative_locality(const char *one, const char *other, pmix_locality_t *locality);
pmix_status_t PMIx_Load_topology(pmix_topology_t *topology);

static void fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    exit(3);
}

/* The text of a value; "NULL" for a NULL text, "-" for none. Released by nobody: it is needed to the end. */
static char *text(const pmix_proc_t *proc, const char *key)
{
    pmix_value_t *value = NULL;
    if (PMIX_SUCCESS != PMIx_Get(proc, key, NULL, 0, &value)) return "-";
    if (PMIX_STRING != value->type) fail(key, PMIX_ERR_BAD_PARAM);
    return NULL == value->data.string ? "NULL" : value->data.string;
}

/* With its source before it: this version of the library takes no other, though it writes none. */
static char *tagged(const char *locality)
{
    char *whole = malloc(strlen(locality) + 7);
    sprintf(whole, "hwloc:%s", locality);
    return whole;
}

int main(void)
{
    pmix_proc_t me, peer;
    pmix_value_t *value = NULL;
    pmix_topology_t topology;
    pmix_cpuset_t cpuset;
    pmix_status_t status;
    char *bound = NULL, *made = NULL;

    if (PMIX_SUCCESS != (status = PMIx_Init(&me, NULL, 0))) fail("init", status);
    PMIX_LOAD_PROCID(&peer, me.nspace, PMIX_RANK_WILDCARD);
    if (PMIX_SUCCESS != (status = PMIx_Get(&peer, PMIX_JOB_SIZE, NULL, 0, &value))) fail("size", status);
    const uint32_t size = value->data.uint32;

    PMIX_TOPOLOGY_CONSTRUCT(&topology);
    if (PMIX_SUCCESS != (status = PMIx_Load_topology(&topology))) fail("load topology", status);
    PMIX_CPUSET_CONSTRUCT(&cpuset);
    if (PMIX_SUCCESS != (status = PMIx_Get_cpuset(&cpuset, PMIX_CPUBIND_PROCESS))) fail("get cpuset", status);
    if (PMIX_SUCCESS != (status = PMIx_server_generate_cpuset_string(&cpuset, &bound))) fail("cpuset", status);
    if (PMIX_SUCCESS != (status = PMIx_server_generate_locality_string(&cpuset, &made))) fail("locality", status);

    const char *mine = text(&me, PMIX_LOCALITY_STRING);
    printf("self %s %s %s %s lcpus %s\n", bound, text(&me, PMIX_CPUSET), made, mine, text(&peer, PMIX_LOCAL_CPUSETS));
    for (peer.rank = 0; peer.rank < size; peer.rank++) {
        const char *its = text(&peer, PMIX_LOCALITY_STRING);
        pmix_locality_t shared = 0;
        if (strchr("N-", *mine) || strchr("N-", *its)) {
            printf("peer %u %s\n", peer.rank, its);
            continue;
        }
        status = PMIx_Get_relative_locality(tagged(mine), tagged(its), &shared);
        /* version 4.2.2 gives the answer, but not the status of success */
        if (PMIX_SUCCESS != status && 0 == shared) fail("relative locality", status);
        printf("peer %u %s %x\n", peer.rank, its, shared);
    }
    if (PMIX_SUCCESS != (status = PMIx_Finalize(NULL, 0))) fail("finalize", status);
    return 0;
}
