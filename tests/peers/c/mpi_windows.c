/* One-sided communication: each rank puts its number into the window of the next one, adds to a sum at rank 0, and reads
 * that of the one before, with fences and with locks. Then gathers of different lengths and a scan. One line, by rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

int main(int argc, char **argv)
{
    int rank, size, bad = 0, all, i;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc > 1 && size != atoi(argv[1])) bad++;

    int *cells = calloc(64, sizeof *cells), me = rank + 1, next = (rank + 1) % size, before = (rank + size - 1) % size, got = -1;
    MPI_Win window;
    MPI_Win_create(cells, 64 * sizeof *cells, sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
    MPI_Win_fence(0, window);
    MPI_Put(&me, 1, MPI_INT, next, 0, 1, MPI_INT, window);
    MPI_Win_fence(0, window);
    MPI_Accumulate(&me, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window);
    MPI_Win_fence(MPI_MODE_NOSUCCEED, window);
    if (cells[0] != before + 1) bad++;
    if (0 == rank && cells[1] != size * (size + 1) / 2) bad++;
    MPI_Win_lock(MPI_LOCK_SHARED, before, 0, window);
    MPI_Get(&got, 1, MPI_INT, before, 0, 1, MPI_INT, window);
    MPI_Win_unlock(before, window);
    if (got != (before + size - 1) % size + 1) bad++;
    MPI_Win_free(&window);

    int *counts = malloc(size * sizeof *counts), *places = malloc(size * sizeof *places), total = 0;
    for (i = 0; i < size; i++) {
        counts[i] = i + 1;
        places[i] = total;
        total += i + 1;
    }
    int *mine = malloc((rank + 1) * sizeof *mine), *gathered = malloc(total * sizeof *gathered);
    for (i = 0; i <= rank; i++) mine[i] = rank;
    MPI_Allgatherv(mine, rank + 1, MPI_INT, gathered, counts, places, MPI_INT, MPI_COMM_WORLD);
    for (i = 0; i < size; i++) if (gathered[places[i]] != i) bad++;
    int scanned = 0;
    MPI_Scan(&me, &scanned, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (scanned != me * (me + 1) / 2) bad++;

    MPI_Reduce(&bad, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (0 == rank) printf("%s\n", all ? "FAIL" : "PASS");
    MPI_Finalize();
    return bad != 0;
}
