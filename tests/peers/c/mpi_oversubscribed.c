/* Whether ranks give their processor up while they wait, as Open MPI has decided in its init. */
#include <mpi.h>
#include <stdio.h>
int main(int argc, char **argv)
{
    int provided, number, count, yields = 0; /* Open MPI 5 sets a byte of it */
    MPI_T_cvar_handle handle;
    MPI_Init(&argc, &argv);
    MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
    if (MPI_SUCCESS != MPI_T_cvar_get_index("mpi_yield_when_idle", &number)) return 1;
    if (MPI_SUCCESS != MPI_T_cvar_handle_alloc(number, NULL, &handle, &count) || 1 != count) return 2;
    if (MPI_SUCCESS != MPI_T_cvar_read(handle, &yields)) return 3;
    printf("%s\n", yields ? "yields" : "spins");
    MPI_T_cvar_handle_free(&handle);
    MPI_T_finalize();
    MPI_Finalize();
    return 0;
}
