/* Calls each operation of a client once and says how it went: one line "<rank> OP <operation> <status>" each, the
 * status as a number. What is refused is no failure here: whoever runs the program judges. Run it with two ranks or
 * more. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
/* set by the library's own thread */
static volatile int arrived = 0, answered = 0;
static volatile pmix_status_t answer;
static volatile size_t registration;

static void say(const char *operation, pmix_status_t status)
{
    printf("%u OP %s %d\n", me.rank, operation, status);
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    for (size_t i = 0; i < count; i++)
        if (0 == strcmp(info[i].key, "ops.value") && PMIX_INT32 == info[i].value.type) arrived = info[i].value.data.int32;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    answer = status;
    registration = id;
    answered = 1;
}

static void on_answer(pmix_status_t status, void *data)
{
    answer = status;
    answered = 1;
}

static void wait_for(const volatile int *flag)
{
    while (!*flag) usleep(1000);
}

static void fence(void)
{
    say("fence", PMIx_Fence(NULL, 0, NULL, 0));
}

static void events(void)
{
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 5;
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_EVENT_HDLR_NAME, "ops", PMIX_STRING);
    PMIx_Register_event_handler(&code, 1, &info, 1, on_event, on_registration, NULL);
    wait_for(&answered);
    say("register-events", answer);
    fence();
    if (0 == me.rank) {
        int32_t value = 42;
        PMIX_INFO_LOAD(&info, "ops.value", &value, PMIX_INT32);
        say("notify", PMIx_Notify_event(code, &me, PMIX_RANGE_LOCAL, &info, 1, NULL, NULL));
    }
    wait_for(&arrived);
    printf("%u event with value %d\n", me.rank, arrived);
    fence();
    answered = 0;
    PMIx_Deregister_event_handler(registration, on_answer, NULL);
    wait_for(&answered);
    say("deregister-events", answer);
}

static void query(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    status = PMIx_Query_info(&query, 1, &results, &count);
    say("query", status);
    for (size_t i = 0; PMIX_SUCCESS == status && i < count; i++)
        if (PMIX_STRING == results[i].value.type)
            printf("%u namespaces %s\n", me.rank, strstr(results[i].value.data.string, me.nspace) ? "with mine" : "without mine");
}

static void log_lines(void)
{
    pmix_info_t data[2], info;
    const bool yes = true;
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_STDOUT, "logged to standard output\n", PMIX_STRING);
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_STDERR, "logged to standard error\n", PMIX_STRING);
    PMIX_INFO_LOAD(&info, PMIX_LOG_GENERATE_TIMESTAMP, &yes, PMIX_BOOL);
    say("log", PMIx_Log(data, 2, &info, 1));
}

static void requests_to_the_host(void)
{
    pmix_info_t info[2], *results = NULL;
    size_t count = 0;
    const bool yes = true;
    const uint32_t seconds = 5;
    const uint32_t minute = 60;
    const uint64_t slots = 1;
    pmix_info_t *others = NULL;
    size_t n, other_count = 0;
    pmix_byte_object_t credential;
    pmix_status_t status;

    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_TIME, &minute, PMIX_UINT32);
    PMIX_INFO_LOAD(&info[1], PMIX_ALLOC_NUM_CPUS, &slots, PMIX_UINT64);
    say("allocate", PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 2, &results, &count));
    for (n = 0; n < count; n++) {
        if (PMIX_CHECK_KEY(&results[n], PMIX_ALLOC_ID)) {
            PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_ID, results[n].value.data.string, PMIX_STRING);
            say("release", PMIx_Allocation_request(PMIX_ALLOC_RELEASE, info, 1, &others, &other_count));
        }
    }

    PMIX_INFO_LOAD(&info[0], PMIX_REGISTER_CLEANUP, "/nonexistent/file", PMIX_STRING);
    say("register-cleanup", PMIx_Job_control(&me, 1, info, 1, &results, &count));
    PMIX_INFO_LOAD(&info[0], PMIX_JOB_CTRL_RESUME, &yes, PMIX_BOOL);
    say("job-control", PMIx_Job_control(&me, 1, info, 1, &results, &count));

    PMIX_INFO_LOAD(&info[0], PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&info[1], PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
    say("monitor", PMIx_Process_monitor(&info[0], PMIX_MONITOR_HEARTBEAT_ALERT, &info[1], 1, &results, &count));
    PMIx_Heartbeat();

    status = PMIx_Get_credential(NULL, 0, &credential);
    say("get-credential", status);
    if (PMIX_SUCCESS != status) {
        credential.bytes = (char *) "nonsense";
        credential.size = 8;
    }
    say("validate-credential", PMIx_Validate_credential(&credential, NULL, 0, &results, &count));
}

static void collectives(const pmix_proc_t *job)
{
    pmix_info_t info, *results = NULL;
    size_t count = 0;
    const bool yes = true;
    pmix_status_t status;

    fence();
    say("connect", PMIx_Connect(job, 1, NULL, 0));
    say("disconnect", PMIx_Disconnect(job, 1, NULL, 0));
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    status = PMIx_Group_construct("ops-group", job, 1, &info, 1, &results, &count);
    say("group-construct", status);
    for (size_t i = 0; PMIX_SUCCESS == status && i < count; i++)
        if (0 == strcmp(results[i].key, PMIX_GROUP_CONTEXT_ID)) printf("%u group has a context id\n", me.rank);
    say("group-destruct", PMIx_Group_destruct("ops-group", NULL, 0));
}

static void resolve(void)
{
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    char *nodes = NULL;
    say("resolve-peers", PMIx_Resolve_peers(NULL, me.nspace, &procs, &count));
    printf("%u peers %zu\n", me.rank, count);
    say("resolve-nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
    printf("%u nodes %s\n", me.rank, NULL == nodes ? "" : nodes);
}

static void spawn(void)
{
    pmix_app_t app;
    char nspace[PMIX_MAX_NSLEN + 1];
    pmix_status_t status;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("sh");
    PMIX_ARGV_APPEND(status, app.argv, "sh");
    PMIX_ARGV_APPEND(status, app.argv, "-c");
    PMIX_ARGV_APPEND(status, app.argv, "echo spawned with OPS=$OPS");
    PMIX_ARGV_APPEND(status, app.env, "OPS=1");
    app.maxprocs = 1;
    status = PMIx_Spawn(NULL, 0, &app, 1, nspace);
    say("spawn", status);
}

int main(int argc, char **argv)
{
    pmix_proc_t job;
    setvbuf(stdout, NULL, _IOLBF, 0);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    say("init", status);
    if (PMIX_SUCCESS != status) return 1;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    events();
    query();
    log_lines();
    requests_to_the_host();
    collectives(&job);
    resolve();
    fence();
    if (0 == me.rank) spawn();
    fence();
    say("finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
