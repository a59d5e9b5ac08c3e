/* What every MPI program does: hello, ring, allreduce, exchange of 8 MB, alltoall, split by colour, split by shared
 * memory. With an argument it fails unless there are so many ranks: a process that takes itself for the only one would
 * pass all of these. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    int rank, size, i, bad = 0, len, prov, flag, *uni;
    char host[MPI_MAX_PROCESSOR_NAME], ver[MPI_MAX_LIBRARY_VERSION_STRING];
    MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &prov);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &len);
    if (0 == rank) {
        MPI_Get_library_version(ver, &len);
        printf("library: %.60s\n", ver);
        MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &uni, &flag);
        printf("universe size: %d\n", flag ? *uni : -1);
    }
    printf("hello from rank %d of %d on %s\n", rank, size, host);

    if (argc > 1 && size != atoi(argv[1])) bad++;
    int tok = 0; /* ring */
    if (size > 1) {
        if (0 == rank) {
            tok = 1;
            MPI_Send(&tok, 1, MPI_INT, 1, 7, MPI_COMM_WORLD);
            MPI_Recv(&tok, 1, MPI_INT, size - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            if (tok != size) bad++;
        } else {
            MPI_Recv(&tok, 1, MPI_INT, rank - 1, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            tok++;
            MPI_Send(&tok, 1, MPI_INT, (rank + 1) % size, 7, MPI_COMM_WORLD);
        }
    }
    long me = rank + 1, sum = 0;
    MPI_Allreduce(&me, &sum, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
    if (sum != (long) size * (size + 1) / 2) bad++;

    int n = 1 << 20;
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
    for (i = 0; i < n; i++) a[i] = rank + i * 1e-3;
    MPI_Sendrecv(a, n, MPI_DOUBLE, (rank + 1) % size, 9, b, n, MPI_DOUBLE,
                 (rank + size - 1) % size, 9, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (b[n - 1] != ((rank + size - 1) % size) + (n - 1) * 1e-3) bad++;

    int *s = malloc(size * sizeof *s), *r = malloc(size * sizeof *r);
    for (i = 0; i < size; i++) s[i] = rank * 100 + i;
    MPI_Alltoall(s, 1, MPI_INT, r, 1, MPI_INT, MPI_COMM_WORLD);
    for (i = 0; i < size; i++) if (r[i] != i * 100 + rank) bad++;

    MPI_Comm sub, shm;
    MPI_Comm_split(MPI_COMM_WORLD, rank & 1, rank, &sub);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &shm);
    int ns;
    MPI_Comm_size(shm, &ns);
    if (0 == rank) printf("ranks sharing memory with rank 0: %d\n", ns);
    MPI_Comm_free(&sub);
    MPI_Comm_free(&shm);
    MPI_Barrier(MPI_COMM_WORLD);
    int allbad;
    MPI_Allreduce(&bad, &allbad, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (0 == rank) printf("%s: ring token %d, allreduce %ld, bad %d\n", allbad ? "FAIL" : "PASS", tok, sum, allbad);
    MPI_Finalize();
    return allbad != 0;
}
