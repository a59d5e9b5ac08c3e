/* Starts two copies of itself with MPI_Comm_spawn, merges both jobs into one communicator, adds up over it, and
 * parts again. One line a rank, with PASS if the sum is right. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
    MPI_Comm parent, between, all;
    int rank, size, mine, sum;

    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    const int is_child = MPI_COMM_NULL != parent;
    if (is_child) {
        between = parent;
    } else {
        MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &between, MPI_ERRCODES_IGNORE);
    }
    MPI_Intercomm_merge(between, is_child, &all);
    MPI_Comm_rank(all, &rank);
    MPI_Comm_size(all, &size);
    mine = rank + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, all);
    printf("%s %d of %d merged: sum %d %s\n", is_child ? "child" : "parent", rank, size, sum,
           size * (size + 1) / 2 == sum ? "PASS" : "FAIL");
    MPI_Comm_disconnect(&between);
    MPI_Comm_free(&all);
    MPI_Finalize();
    return 0;
}
