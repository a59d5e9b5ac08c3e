/* A process of a job in which one rank stays away from a fence of all: pmix_fence_without RANK sleep|spin|stop */
#include <pmix.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pmix_proc_t me;
    volatile unsigned long turns = 0;

    if (argc < 3 || PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    if (me.rank == (pmix_rank_t) atoi(argv[1])) {
        if (0 == strcmp(argv[2], "spin")) for (;;) turns++;
        if (0 == strcmp(argv[2], "stop")) raise(SIGSTOP);
        for (;;) pause();
    }
    if (PMIX_SUCCESS != PMIx_Fence(NULL, 0, NULL, 0)) return 1;
    PMIx_Finalize(NULL, 0);
    return 0;
}
