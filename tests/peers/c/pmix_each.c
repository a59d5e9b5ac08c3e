/* Calls each function of a client of the Standard and says how it went, by rank 0: "TRY <function>" before, "CALL <function>
 * <status>" behind it, the status as a number. What is refused is no failure here. A group of functions a run, as the
 * argument says, so that one that never answers hides no other. Run it with two ranks. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* not in the headers of each version: a weak function that a library does not have is NULL */
extern pmix_status_t PMIx_Session_control(uint32_t session, const pmix_info_t directives[], size_t count,
                                          pmix_info_cbfunc_t done, void *data) __attribute__((weak));

/* another answer than any status: the call succeeded, and what it gave is not what it should be */
#define WRONG 99999
#define GROUP "each-group"

static pmix_proc_t me, other, job;
/* set by the library's own thread */
static volatile int answered = 0, heard = 0, joined = 0;
static volatile pmix_status_t answer;
static volatile size_t number;
static char spawned[PMIX_MAX_NSLEN + 1];

static void try(const char *function)
{
    if (0 == me.rank) printf("TRY %s\n", function);
}

static void said(const char *function, pmix_status_t status)
{
    if (0 == me.rank) printf("CALL %s %d\n", function, status);
}

#define say(function, call) (try(function), said(function, call))

static void begin(void)
{
    answered = 0;
}

static void end(pmix_status_t status)
{
    answer = status;
    answered = 1;
}

static void wait_for(const volatile int *flag)
{
    while (!*flag) usleep(1000);
}

/* Of a call that answers later. */
static void said_later(const char *function, pmix_status_t status)
{
    if (PMIX_SUCCESS == status) {
        wait_for(&answered);
        status = answer;
    }
    said(function, PMIX_OPERATION_SUCCEEDED == status ? PMIX_SUCCESS : status);
}

#define say_later(function, call) (try(function), said_later(function, call))

static void on_op(pmix_status_t status, void *data)
{
    end(status);
}

static void on_number(pmix_status_t status, size_t id, void *data)
{
    number = id;
    end(status);
}

static void on_info(pmix_status_t status, pmix_info_t *info, size_t count, void *data, pmix_release_cbfunc_t release,
                    void *release_data)
{
    if (NULL != release) release(release_data);
    end(status);
}

static void on_value(pmix_status_t status, pmix_value_t *value, void *data)
{
    end(PMIX_SUCCESS == status && 7 != value->data.int32 ? WRONG : status);
}

static void on_lookup(pmix_status_t status, pmix_pdata_t found[], size_t count, void *data)
{
    end(PMIX_SUCCESS == status && (1 != count || 7 != found[0].value.data.int32) ? WRONG : status);
}

static void on_spawn(pmix_status_t status, pmix_nspace_t nspace, void *data)
{
    end(status);
}

static void on_credential(pmix_status_t status, pmix_byte_object_t *credential, pmix_info_t info[], size_t count, void *data)
{
    end(status);
}

static void on_validation(pmix_status_t status, pmix_info_t info[], size_t count, void *data)
{
    end(status);
}

static void on_distances(pmix_status_t status, pmix_device_distance_t *distances, size_t count, void *data,
                         pmix_release_cbfunc_t release, void *release_data)
{
    if (NULL != release) release(release_data);
    end(status);
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    heard = 1;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void fence(void)
{
    PMIx_Fence(NULL, 0, NULL, 0);
}

static void data(void)
{
    pmix_value_t value, *found = NULL;
    pmix_info_t info;
    pmix_status_t status;
    const bool yes = true;
    char *nodes = NULL;
    pmix_proc_t *peers = NULL;
    size_t count = 0;
    int32_t seven = 7;
    PMIX_VALUE_LOAD(&value, &seven, PMIX_INT32);
    say("PMIx_Put", PMIx_Put(PMIX_GLOBAL, "each", &value));
    say("PMIx_Store_internal", PMIx_Store_internal(&me, "each.own", &value));
    say("PMIx_Commit", PMIx_Commit());
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    say("PMIx_Fence", PMIx_Fence(NULL, 0, &info, 1));
    begin();
    say_later("PMIx_Fence_nb", PMIx_Fence_nb(NULL, 0, NULL, 0, on_op, NULL));
    status = PMIx_Get(&other, "each", NULL, 0, &found);
    say("PMIx_Get", PMIX_SUCCESS == status && 7 != found->data.int32 ? WRONG : status);
    begin();
    say_later("PMIx_Get_nb", PMIx_Get_nb(&other, "each", NULL, 0, on_value, NULL));
    status = PMIx_Resolve_peers(NULL, me.nspace, &peers, &count);
    say("PMIx_Resolve_peers", PMIX_SUCCESS == status && 2 != count ? WRONG : status);
    say("PMIx_Resolve_nodes", PMIx_Resolve_nodes(me.nspace, &nodes));
    fence();
}

static void publish(void)
{
    pmix_info_t info;
    pmix_pdata_t found;
    pmix_status_t status;
    int32_t seven = 7;
    char *first[] = {"each.first", NULL}, *second[] = {"each.second", NULL};
    if (0 == me.rank) {
        PMIX_INFO_LOAD(&info, first[0], &seven, PMIX_INT32);
        say("PMIx_Publish", PMIx_Publish(&info, 1));
        PMIX_INFO_LOAD(&info, second[0], &seven, PMIX_INT32);
        begin();
        say_later("PMIx_Publish_nb", PMIx_Publish_nb(&info, 1, on_op, NULL));
        PMIX_PDATA_CONSTRUCT(&found);
        PMIX_LOAD_KEY(found.key, first[0]);
        status = PMIx_Lookup(&found, 1, NULL, 0);
        say("PMIx_Lookup", PMIX_SUCCESS == status && 7 != found.value.data.int32 ? WRONG : status);
        begin();
        say_later("PMIx_Lookup_nb", PMIx_Lookup_nb(second, NULL, 0, on_lookup, NULL));
        say("PMIx_Unpublish", PMIx_Unpublish(first, NULL, 0));
        begin();
        say_later("PMIx_Unpublish_nb", PMIx_Unpublish_nb(second, NULL, 0, on_op, NULL));
    }
    fence();
}

static void query(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    if (PMIX_SUCCESS != status) return;
    say("PMIx_Query_info", PMIx_Query_info(&query, 1, &results, &count));
    begin();
    say_later("PMIx_Query_info_nb", PMIx_Query_info_nb(&query, 1, on_info, NULL));
}

static void events(void)
{
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 5, status;
    begin();
    status = PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_number, NULL);
    say_later("PMIx_Register_event_handler", status);
    fence();
    if (0 == me.rank) {
        begin();
        status = PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, NULL, 0, on_op, NULL);
        say_later("PMIx_Notify_event", status);
    }
    wait_for(&heard);
    fence();
    begin();
    say_later("PMIx_Deregister_event_handler", PMIx_Deregister_event_handler(number, on_op, NULL));
}

static void connects(void)
{
    say("PMIx_Connect", PMIx_Connect(&job, 1, NULL, 0));
    say("PMIx_Disconnect", PMIx_Disconnect(&job, 1, NULL, 0));
    begin();
    say_later("PMIx_Connect_nb", PMIx_Connect_nb(&job, 1, NULL, 0, on_op, NULL));
    begin();
    say_later("PMIx_Disconnect_nb", PMIx_Disconnect_nb(&job, 1, NULL, 0, on_op, NULL));
}

static void groups(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_proc_t both[2] = {me, other};
    both[0].rank = 0;
    both[1].rank = 1;
    say("PMIx_Group_construct", PMIx_Group_construct(GROUP, both, 2, NULL, 0, &results, &count));
    say("PMIx_Group_destruct", PMIx_Group_destruct(GROUP, NULL, 0));
    begin();
    say_later("PMIx_Group_construct_nb", PMIx_Group_construct_nb(GROUP "-nb", both, 2, NULL, 0, on_info, NULL));
    begin();
    say_later("PMIx_Group_destruct_nb", PMIx_Group_destruct_nb(GROUP "-nb", NULL, 0, on_op, NULL));
}

static void leave(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_proc_t both[2] = {me, other};
    both[0].rank = 0;
    both[1].rank = 1;
    PMIx_Group_construct(GROUP "-leave", both, 2, NULL, 0, &results, &count);
    say("PMIx_Group_leave", PMIx_Group_leave(GROUP "-leave", NULL, 0));
}

static void leave_later(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_proc_t both[2] = {me, other};
    both[0].rank = 0;
    both[1].rank = 1;
    PMIx_Group_construct(GROUP "-leave", both, 2, NULL, 0, &results, &count);
    begin();
    say_later("PMIx_Group_leave_nb", PMIx_Group_leave_nb(GROUP "-leave", NULL, 0, on_op, NULL));
}

static void on_joined(pmix_status_t status, pmix_info_t *info, size_t count, void *data, pmix_release_cbfunc_t release,
                      void *release_data)
{
    if (NULL != release) release(release_data);
    joined = 1;
}

/* Who is invited accepts: within a handler only the non-blocking form can be called. */
static void on_invitation(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                          pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    pmix_status_t status;
    status = PMIx_Group_join_nb(GROUP "-invited", source, PMIX_GROUP_ACCEPT, NULL, 0, on_joined, NULL);
    printf("TRY PMIx_Group_join_nb\nCALL PMIx_Group_join_nb %d\n", status);
    heard = 1;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void invitation(int is_later)
{
    pmix_status_t code = PMIX_GROUP_INVITED;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_proc_t both[2] = {me, other};
    both[0].rank = 0;
    both[1].rank = 1;
    if (1 == me.rank) {
        begin();
        PMIx_Register_event_handler(&code, 1, NULL, 0, on_invitation, on_number, NULL);
        wait_for(&answered);
    }
    fence();
    if (0 == me.rank && is_later) {
        begin();
        say_later("PMIx_Group_invite_nb", PMIx_Group_invite_nb(GROUP "-invited", both, 2, NULL, 0, on_info, NULL));
    } else if (0 == me.rank) {
        say("PMIx_Group_invite", PMIx_Group_invite(GROUP "-invited", both, 2, NULL, 0, &results, &count));
    } else {
        wait_for(&heard);
    }
    fence();
}

static void invite(void)
{
    invitation(0);
}

static void invite_later(void)
{
    invitation(1);
}

/* Joins a group to which nobody has invited. */
static void join(void)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    if (0 == me.rank)
        say("PMIx_Group_join", PMIx_Group_join(GROUP "-none", &other, PMIX_GROUP_ACCEPT, NULL, 0, &results, &count));
    fence();
}

static void spawn(void)
{
    pmix_app_t app;
    pmix_status_t status;
    PMIX_APP_CONSTRUCT(&app);
    app.cmd = strdup("true");
    PMIX_ARGV_APPEND(status, app.argv, "true");
    if (PMIX_SUCCESS != status) return;
    app.maxprocs = 1;
    if (0 == me.rank) {
        say("PMIx_Spawn", PMIx_Spawn(NULL, 0, &app, 1, spawned));
        begin();
        say_later("PMIx_Spawn_nb", PMIx_Spawn_nb(NULL, 0, &app, 1, on_spawn, NULL));
    }
    fence();
}

/* Ends the job. */
static void aborts(void)
{
    fence();
    if (0 == me.rank) say("PMIx_Abort", PMIx_Abort(3, "each", &job, 1));
    sleep(20);
}

static void allocations(void)
{
    pmix_info_t info[2], release, *results = NULL, *none = NULL;
    size_t count = 0, nothing = 0;
    const uint64_t one = 1;
    const uint32_t minute = 60;
    if (0 != me.rank) return;
    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_NUM_CPUS, &one, PMIX_UINT64);
    PMIX_INFO_LOAD(&info[1], PMIX_ALLOC_TIME, &minute, PMIX_UINT32);
    say("PMIx_Allocation_request", PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 2, &results, &count));
    for (size_t at = 0; at < count; at++) {
        if (!PMIX_CHECK_KEY(&results[at], PMIX_ALLOC_ID)) continue;
        PMIX_INFO_LOAD(&release, PMIX_ALLOC_ID, results[at].value.data.string, PMIX_STRING);
        PMIx_Allocation_request(PMIX_ALLOC_RELEASE, &release, 1, &none, &nothing);
    }
    begin();
    say_later("PMIx_Allocation_request_nb", PMIx_Allocation_request_nb(PMIX_ALLOC_NEW, info, 2, on_info, NULL));
}

static void sessions(void)
{
    if (0 != me.rank || NULL == PMIx_Session_control) return;
    begin();
    say_later("PMIx_Session_control", PMIx_Session_control(1, NULL, 0, on_info, NULL));
}

static void control(void)
{
    pmix_info_t info, *results = NULL;
    size_t count = 0;
    const bool yes = true;
    if (0 != me.rank) return;
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_RESUME, &yes, PMIX_BOOL);
    say("PMIx_Job_control", PMIx_Job_control(&me, 1, &info, 1, &results, &count));
    begin();
    say_later("PMIx_Job_control_nb", PMIx_Job_control_nb(&me, 1, &info, 1, on_info, NULL));
}

static void monitors(void)
{
    pmix_info_t what, how, *results = NULL;
    size_t count = 0;
    const bool yes = true;
    const uint32_t seconds = 600;
    if (0 != me.rank) return;
    PMIX_INFO_LOAD(&what, PMIX_MONITOR_HEARTBEAT, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&how, PMIX_MONITOR_HEARTBEAT_TIME, &seconds, PMIX_UINT32);
    say("PMIx_Process_monitor", PMIx_Process_monitor(&what, PMIX_MONITOR_HEARTBEAT_ALERT, &how, 1, &results, &count));
    begin();
    say_later("PMIx_Process_monitor_nb",
              PMIx_Process_monitor_nb(&what, PMIX_MONITOR_HEARTBEAT_ALERT, &how, 1, on_info, NULL));
    PMIx_Heartbeat();
    say("PMIx_Heartbeat", PMIX_SUCCESS);
}

static void logs(void)
{
    pmix_info_t info;
    if (0 != me.rank) return;
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "logged\n", PMIX_STRING);
    say("PMIx_Log", PMIx_Log(&info, 1, NULL, 0));
    begin();
    say_later("PMIx_Log_nb", PMIx_Log_nb(&info, 1, NULL, 0, on_op, NULL));
}

static void credentials(void)
{
    pmix_byte_object_t credential;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    if (0 != me.rank) return;
    status = PMIx_Get_credential(NULL, 0, &credential);
    say("PMIx_Get_credential", status);
    if (PMIX_SUCCESS != status) {
        credential.bytes = "nonsense";
        credential.size = 8;
    }
    begin();
    say_later("PMIx_Get_credential_nb", PMIx_Get_credential_nb(NULL, 0, on_credential, NULL));
    say("PMIx_Validate_credential", PMIx_Validate_credential(&credential, NULL, 0, &results, &count));
    begin();
    say_later("PMIx_Validate_credential_nb", PMIx_Validate_credential_nb(&credential, NULL, 0, on_validation, NULL));
}

static void fabric(void)
{
    pmix_fabric_t fabric;
    if (0 != me.rank) return;
    PMIX_FABRIC_CONSTRUCT(&fabric);
    say("PMIx_Fabric_register", PMIx_Fabric_register(&fabric, NULL, 0));
    say("PMIx_Fabric_update", PMIx_Fabric_update(&fabric));
    say("PMIx_Fabric_deregister", PMIx_Fabric_deregister(&fabric));
}

static void fabric_later(void)
{
    pmix_fabric_t fabric;
    if (0 != me.rank) return;
    PMIX_FABRIC_CONSTRUCT(&fabric);
    begin();
    say_later("PMIx_Fabric_register_nb", PMIx_Fabric_register_nb(&fabric, NULL, 0, on_op, NULL));
    begin();
    say_later("PMIx_Fabric_update_nb", PMIx_Fabric_update_nb(&fabric, on_op, NULL));
    begin();
    say_later("PMIx_Fabric_deregister_nb", PMIx_Fabric_deregister_nb(&fabric, on_op, NULL));
}

static void hardware(void)
{
    pmix_topology_t topology;
    pmix_cpuset_t cpuset;
    pmix_device_distance_t *distances = NULL;
    size_t count = 0;
    pmix_locality_t locality;
    PMIX_TOPOLOGY_CONSTRUCT(&topology);
    PMIX_CPUSET_CONSTRUCT(&cpuset);
    say("PMIx_Load_topology", PMIx_Load_topology(&topology));
    say("PMIx_Get_cpuset", PMIx_Get_cpuset(&cpuset, PMIX_CPUBIND_PROCESS));
    say("PMIx_Compute_distances", PMIx_Compute_distances(&topology, &cpuset, NULL, 0, &distances, &count));
    begin();
    say_later("PMIx_Compute_distances_nb",
              PMIx_Compute_distances_nb(&topology, &cpuset, NULL, 0, on_distances, NULL));
    say("PMIx_Get_relative_locality", PMIx_Get_relative_locality("hwloc:SK0:CR0", "hwloc:SK0:CR1", &locality));
}

static void parse(void)
{
    pmix_cpuset_t cpuset;
    PMIX_CPUSET_CONSTRUCT(&cpuset);
    say("PMIx_Parse_cpuset_string", PMIx_Parse_cpuset_string("hwloc:0-1", &cpuset));
}

static void nothing(void)
{
    say("PMIx_Initialized", PMIx_Initialized() ? PMIX_SUCCESS : WRONG);
    say("PMIx_Get_version", NULL == PMIx_Get_version() ? WRONG : PMIX_SUCCESS);
    PMIx_Progress();
    say("PMIx_Progress", PMIX_SUCCESS);
}

static const struct {
    const char *name;
    void (*run)(void);
} groups_of_functions[] = {
    {"nothing", nothing}, {"data", data}, {"publish", publish}, {"query", query}, {"events", events},
    {"connect", connects}, {"group", groups}, {"leave", leave}, {"leave-later", leave_later}, {"invite", invite},
    {"invite-later", invite_later}, {"join", join}, {"spawn", spawn}, {"abort", aborts}, {"allocate", allocations},
    {"session", sessions}, {"control", control}, {"monitor", monitors}, {"log", logs}, {"credential", credentials},
    {"fabric", fabric}, {"fabric-later", fabric_later}, {"hardware", hardware}, {"parse", parse},
};

int main(int argc, char **argv)
{
    const size_t count = sizeof groups_of_functions / sizeof groups_of_functions[0];
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2) {
        for (size_t at = 0; at < count; at++) puts(groups_of_functions[at].name);
        return 0;
    }
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    say("PMIx_Init", status);
    if (PMIX_SUCCESS != status) return 1;
    other = me;
    other.rank = 1 - me.rank;
    PMIX_LOAD_PROCID(&job, me.nspace, PMIX_RANK_WILDCARD);
    for (size_t at = 0; at < count; at++)
        if (0 == strcmp(groups_of_functions[at].name, argv[1])) groups_of_functions[at].run();
    say("PMIx_Finalize", PMIx_Finalize(NULL, 0));
    return 0;
}
