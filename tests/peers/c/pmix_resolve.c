/* Says where the processes of its job are, as the server knows it: the nodes of the job, those of all jobs, and the
 * processes on each of the job's nodes. One line a question, with rank and status. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void)
{
    pmix_proc_t me, *procs;
    char *nodes = NULL, *all = NULL;
    size_t count;
    pmix_status_t status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (PMIX_SUCCESS != (status = PMIx_Init(&me, NULL, 0))) return 3;
    status = PMIx_Resolve_nodes(me.nspace, &nodes);
    printf("%u nodes %d %s\n", me.rank, status, NULL == nodes ? "" : nodes);
    status = PMIx_Resolve_nodes(NULL, &all);
    printf("%u nodes of all %d %s\n", me.rank, status, NULL == all ? "" : all);
    for (char *node = strtok(nodes, ","); NULL != node; node = strtok(NULL, ",")) {
        procs = NULL;
        count = 0;
        status = PMIx_Resolve_peers(node, me.nspace, &procs, &count);
        printf("%u peers on %s %d", me.rank, node, status);
        for (size_t i = 0; i < count; i++) printf(" %u", procs[i].rank);
        printf("\n");
    }
    return PMIX_SUCCESS == PMIx_Finalize(NULL, 0) ? 0 : 3;
}
