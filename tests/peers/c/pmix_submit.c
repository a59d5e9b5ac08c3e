/* Starts a job at a server that stays, as prun does, which not every installation of PRRTE has; ends as the job does.
 *
 *     pmix_submit URI RANKS PROGRAM ARGUMENTS...
 *
 * With SUBMIT_RECOVERABLE in the environment, the loss of a process does not end the others. SUBMIT_MAPBY says how ranks are
 * mapped; without it, there may be more than slots. */
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 1024

/* set by the library's own thread: jobs that have ended, also those of others, and how */
static char jobs[MOST][PMIX_MAX_NSLEN + 1];
static int codes[MOST];
static volatile int ended = 0, registered = 0;

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

static void on_end(size_t id, pmix_status_t event, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    if (PMIX_ERR_LOST_CONNECTION == event) _exit(4);
    for (size_t i = 0; i < count && ended < MOST; i++) {
        if (0 == strcmp(info[i].key, PMIX_JOB_TERM_STATUS)) codes[ended] = info[i].value.data.status;
        if (0 == strcmp(info[i].key, PMIX_EVENT_AFFECTED_PROC))
            strncpy(jobs[ended], info[i].value.data.proc->nspace, PMIX_MAX_NSLEN);
    }
    if (ended < MOST) ended++;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    registered = 1;
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_info_t info[5];
    pmix_app_t app;
    pmix_status_t status, ends[2] = {PMIX_EVENT_JOB_END, PMIX_ERR_LOST_CONNECTION};
    char child[PMIX_MAX_NSLEN + 1], where[4096];
    const bool yes = true;
    extern char **environ;
    if (argc < 4) return 2;
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_URI, argv[1], PMIX_STRING);
    if (PMIX_SUCCESS != (status = PMIx_tool_init(&me, info, 1))) return fail("init", status);
    PMIx_Register_event_handler(ends, 2, NULL, 0, on_end, on_registration, NULL);
    while (!registered) usleep(1000);

    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(argv[3]);
    app.maxprocs = atoi(argv[2]);
    app.cwd = strdup(NULL == getcwd(where, sizeof(where)) ? "/" : where);
    for (int i = 3; i < argc; i++) PMIX_ARGV_APPEND(status, app.argv, argv[i]);
    for (char **variable = environ; NULL != *variable; variable++)
        if (0 != strncmp(*variable, "PMIX_", 5)) PMIX_ARGV_APPEND(status, app.env, *variable);
    const char *mapby = getenv("SUBMIT_MAPBY");
    PMIX_INFO_LOAD(&info[0], PMIX_MAPBY, NULL == mapby ? "slot:oversubscribe" : mapby, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[2], PMIX_FWD_STDOUT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[3], PMIX_FWD_STDERR, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[4], PMIX_JOB_RECOVERABLE, &yes, PMIX_BOOL);
    const size_t count = NULL == getenv("SUBMIT_RECOVERABLE") ? 4 : 5;
    if (PMIX_SUCCESS != (status = PMIx_Spawn(info, count, &app, 1, child))) return fail("spawn", status);
    for (int i = 0;; i++) {
        while (ended <= i) usleep(1000);
        if (0 != strcmp(jobs[i], child)) continue;
        PMIx_tool_finalize();
        return 0 == codes[i] ? 0 : 1;
    }
}
