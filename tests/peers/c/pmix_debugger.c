/* A debugger: a tool that starts two processes which stop in init, has a daemon started for them, and releases them.
 *
 *     pmix_debugger URI PROGRAM ARGUMENT */
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 64

/* set by the library's own thread */
static volatile int registered = 0, ready = 0, ended = 0;
/* those of jobs that others have debugged before are told, too */
static pmix_proc_t waiting[MOST];

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    if (PMIX_READY_FOR_DEBUG == code && ready < MOST) {
        PMIX_LOAD_PROCID(&waiting[ready], source->nspace, source->rank);
        __sync_fetch_and_add(&ready, 1);
    }
    if (PMIX_EVENT_JOB_END == code) ended++;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_registered(pmix_status_t status, size_t id, void *data)
{
    registered = 1;
}

static void wait_for(const volatile int *number, int least)
{
    while (*number < least) usleep(1000);
}

/* Until so many processes of a job wait. */
static void wait_for_all(const pmix_nspace_t job, int least)
{
    int found = 0;
    for (int i = 0; found < least; i++) {
        wait_for(&ready, i + 1);
        if (0 != strcmp(waiting[i].nspace, job)) continue;
        printf("rank %u waits in init\n", waiting[i].rank);
        found++;
    }
}

static pmix_status_t start(const char *program, const char *argument, int count, pmix_info_t *info, size_t ninfo,
                           pmix_nspace_t job)
{
    pmix_app_t app;
    pmix_status_t status;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup(program);
    app.maxprocs = count;
    PMIX_ARGV_APPEND(status, app.argv, program);
    if (NULL != argument) PMIX_ARGV_APPEND(status, app.argv, argument);
    if (PMIX_SUCCESS != status) return status;
    for (size_t i = 0; i < ninfo; i++) PMIX_INFO_REQUIRED(&info[i]);
    return PMIx_Spawn(info, ninfo, &app, 1, job);
}

int main(int argc, char **argv)
{
    pmix_proc_t me, target;
    pmix_info_t info[4];
    pmix_status_t status, codes[2] = {PMIX_READY_FOR_DEBUG, PMIX_EVENT_JOB_END};
    pmix_nspace_t job, daemons;
    pmix_data_array_t range = {.type = PMIX_PROC, .size = 1, .array = &target};
    const bool yes = true;
    const uint16_t one = 1;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4) return 2;
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_URI, argv[1], PMIX_STRING);
    if (PMIX_SUCCESS != (status = PMIx_tool_init(&me, info, 1))) return fail("tool init", status);
    PMIx_Register_event_handler(codes, 2, NULL, 0, on_event, on_registered, NULL);
    wait_for(&registered, 1);

    PMIX_INFO_LOAD(&info[0], PMIX_DEBUG_STOP_IN_INIT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
    if (PMIX_SUCCESS != (status = start(argv[2], argv[3], 2, info, 2, job))) return fail("spawn", status);
    wait_for_all(job, 2);

    PMIX_LOAD_PROCID(&target, job, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info[0], PMIX_DEBUGGER_DAEMONS, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_DEBUG_TARGET, &target, PMIX_PROC);
    PMIX_INFO_LOAD(&info[2], PMIX_DEBUG_DAEMONS_PER_NODE, &one, PMIX_UINT16);
    PMIX_INFO_LOAD(&info[3], PMIX_NOTIFY_COMPLETION, &yes, PMIX_BOOL);
    if (PMIX_SUCCESS != (status = start("true", NULL, 1, info, 4, daemons))) return fail("daemons", status);
    wait_for(&ended, 1);
    printf("the daemon %s has looked\n", daemons);

    PMIX_INFO_LOAD(&info[0], PMIX_EVENT_CUSTOM_RANGE, &range, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    status = PMIx_Notify_event(PMIX_DEBUGGER_RELEASE, &me, PMIX_RANGE_CUSTOM, info, 2, NULL, NULL);
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) return fail("release", status);
    wait_for(&ended, 2);
    printf("%s is released and has ended\n", job);
    if (PMIX_SUCCESS != (status = PMIx_tool_finalize())) return fail("finalize", status);
    printf("left\n");
    return 0;
}
