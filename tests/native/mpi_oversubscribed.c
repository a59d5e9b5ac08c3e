/* Small collectives of more ranks than processors: seconds if ranks spin while they wait, milliseconds if they yield. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int rank, one = 1, sum;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double t = MPI_Wtime();
    for (int i = 0; i < 300; i++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    t = MPI_Wtime() - t;
    if (rank == 0) printf("300 allreduce %.3f s\n", t);
    MPI_Finalize();
    return 0;
}
