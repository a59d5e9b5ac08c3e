/* An MPI program that does what its arguments say:
 *   hello [SIZE]          says who it is, and fails unless there are so many
 *   barrier-without RANK  this rank stays away, the others enter a barrier
 *   abort CODE            rank 0 aborts with this code, the others wait for it in a barrier
 * First each rank names the files in which it shares memory with others, and the directory of its server. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void say_files(void)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");

    const char *server = getenv("PMIX_SERVER_TMPDIR");
    if (NULL != server) printf("uses %s\n", server);
    while (NULL != maps && NULL != fgets(line, sizeof line, maps)) {
        const char *path = strchr(line, '/');
        const int is_shared = NULL != path && (NULL != strstr(path, "_segment.") || path == strstr(path, "/dev/shm/"));
        if (!is_shared || 0 == strcmp(path, last)) continue;
        printf("uses %s", path);
        strcpy(last, path);
    }
    if (NULL != maps) fclose(maps);
}

int main(int argc, char **argv)
{
    int rank, size;
    const char *act = argc > 1 ? argv[1] : "hello";
    const int number = argc > 2 ? atoi(argv[2]) : 0;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    // each line in one piece: MPICH's launcher mixes the pieces of several ranks
    static char line[BUFSIZ];
    setvbuf(stdout, line, _IOLBF, sizeof line);
    say_files();
    MPI_Barrier(MPI_COMM_WORLD);
    if (0 == strcmp(act, "hello")) {
        printf("hello from rank %d of %d\n", rank, size);
        if (0 != number && size != number) MPI_Abort(MPI_COMM_WORLD, 1);
    } else if (0 == strcmp(act, "abort")) {
        if (0 == rank) MPI_Abort(MPI_COMM_WORLD, number);
        MPI_Barrier(MPI_COMM_WORLD);
    } else if (0 == strcmp(act, "barrier-without")) {
        if (rank == number) {
            printf("staying away\n");
            for (;;) pause();
        }
        printf("entering the barrier\n");
        MPI_Barrier(MPI_COMM_WORLD);
        printf("left the barrier\n");
    }
    MPI_Finalize();
    return 0;
}
