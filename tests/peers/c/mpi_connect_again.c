/* Ranks 0 and 1 connect by MPI_Comm_connect and accept three times over; Open MPI does not call PMIx_Disconnect in
 * between. Prints three times rc=0 for each of them. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    char port[MPI_MAX_PORT_NAME];
    int rank, rc = 0;
    MPI_Comm other;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
    for (int k = 0; k < 3; k++) {
        if (rank == 1) MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Bcast(port, MPI_MAX_PORT_NAME, MPI_CHAR, 1, MPI_COMM_WORLD);
        if (rank == 1) rc |= MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        else if (rank == 0) rc |= MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_SELF, &other);
        else continue;
        printf("%d: rank %d rc=%d\n", k, rank, rc);
        fflush(stdout);
        if (rc) break;
        MPI_Comm_disconnect(&other);
    }
    if (rc) MPI_Abort(MPI_COMM_WORLD, rc);
    MPI_Finalize();
    return rc;
}
