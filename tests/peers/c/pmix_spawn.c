/* Starts a child job of one process and, with "stay", waits for its own end by others; with "leave" it finalizes.
 * Arguments: stay or leave, then the program of the child with its arguments. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_app_t app;
    char nspace[PMIX_MAX_NSLEN + 1];
    pmix_status_t status;

    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 3 || PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(argv[2]);
    for (int i = 2; i < argc; i++) PMIX_ARGV_APPEND(status, app.argv, argv[i]);
    app.maxprocs = 1;
    status = PMIx_Spawn(NULL, 0, &app, 1, nspace);
    if (PMIX_SUCCESS != status) {
        fprintf(stderr, "spawn: %s\n", PMIx_Error_string(status));
        return 2;
    }
    printf("child %s of %s\n", nspace, me.nspace);
    while (0 == strcmp(argv[1], "stay")) pause();
    return PMIX_SUCCESS != PMIx_Finalize(NULL, 0);
}
