/* Publishes a name, looks it up on all ranks, and takes it back: then nobody finds it. One line, by rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, bad = 0, all;
    char port[MPI_MAX_PORT_NAME] = "a-port#0$of-nobody$", found[MPI_MAX_PORT_NAME] = "";

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    if (MPI_SUCCESS == MPI_Lookup_name("ocean", MPI_INFO_NULL, found)) bad++;
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == rank && MPI_SUCCESS != MPI_Publish_name("ocean", MPI_INFO_NULL, port)) bad++;
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    if (MPI_SUCCESS != MPI_Lookup_name("ocean", MPI_INFO_NULL, found) || 0 != strcmp(port, found)) bad++;
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == rank && MPI_SUCCESS != MPI_Unpublish_name("ocean", MPI_INFO_NULL, port)) bad++;
    MPI_Barrier(MPI_COMM_WORLD);
    if (MPI_SUCCESS == MPI_Lookup_name("ocean", MPI_INFO_NULL, found)) bad++;
    MPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (0 == rank) printf("%s\n", all ? "FAIL" : "PASS");
    MPI_Finalize();
    return bad != 0;
}
