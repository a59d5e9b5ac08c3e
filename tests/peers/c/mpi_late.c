/* An MPI program in which rank 3 does not enter a barrier, and the others do. Rank 3 does what the argument says instead:
 *   sleep   it sleeps
 *   stop    it stops itself
 *   spin    it computes
 * It is compiled with lines, and the functions are not inlined: they are what is looked for. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static volatile unsigned long turns;

__attribute__((noinline)) static void compute(const char *how)
{
    if (0 == strcmp(how, "stop")) raise(SIGSTOP);
    if (0 == strcmp(how, "spin")) for (;;) turns++;
    for (;;) usleep(100000);
}

int main(int argc, char **argv)
{
    int rank;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    setvbuf(stdout, NULL, _IOLBF, 0);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d is here\n", rank);
    if (3 == rank) compute(argv[1]);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
