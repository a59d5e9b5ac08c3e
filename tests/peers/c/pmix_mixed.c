/* A process that shares its server with processes of another kind. Does what its arguments say, one after the other, and
 * says so:
 *
 *     publish KEY TEXT | lookup KEY       a lookup waits until it is published
 *     listen CODE | hear                  hear waits for the event
 *     notify CODE TEXT                    to all processes of the session
 *     connect PROCS | disconnect PROCS    as in job:0,other:*
 *     put NUMBER                          as value of key "k", and commits it
 *     get PROC | refresh PROC             the value of key "k", refresh past what the process holds
 *     resolve NAMESPACE                   the processes of that name on this node, and the nodes
 *     table NAMESPACE                     the processes of that name by a query
 *     signal PROCS | abort PROCS          10 to the processes; status 7
 *     mail ADDRESS                        logs a mail, and then to a channel that nobody has
 *     fence NAMESPACE                     with all clones of this process
 *     size NAMESPACE                      how many ranks that job has, without asking its processes
 *
 * Where a namespace is due, @ stands for the text that was looked up last. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 8
#define TEXT "mixed.text"

static pmix_proc_t me;
static char text[PMIX_MAX_NSLEN + 1];
/* set by the library's own thread */
static volatile int registered = 0, heard = 0;
static volatile pmix_status_t answer;

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    for (size_t i = 0; i < count; i++)
        if (0 == strcmp(info[i].key, TEXT) && PMIX_STRING == info[i].value.type)
            printf("heard %s of %s:%u as %d\n", info[i].value.data.string, source->nspace, source->rank, code);
    heard = 1;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    answer = status;
    registered = 1;
}

static void wait_for(const volatile int *flag)
{
    while (!*flag) usleep(1000);
}

/* A namespace as it is named. */
static const char *named(const char *name)
{
    return 0 == strcmp(name, "@") ? text : name;
}

static pmix_status_t publish(const char *key, const char *text)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, key, text, PMIX_STRING);
    return PMIx_Publish(&info, 1);
}

static pmix_status_t lookup(const char *key)
{
    pmix_pdata_t data;
    pmix_info_t info;
    pmix_status_t status;
    const bool yes = true;
    PMIX_PDATA_CONSTRUCT(&data);
    PMIX_LOAD_KEY(data.key, key);
    PMIX_INFO_LOAD(&info, PMIX_WAIT, &yes, PMIX_BOOL);
    if (PMIX_SUCCESS != (status = PMIx_Lookup(&data, 1, &info, 1))) return status;
    if (PMIX_STRING != data.value.type) return PMIX_ERR_TYPE_MISMATCH;
    strncpy(text, data.value.data.string, PMIX_MAX_NSLEN);
    printf("found %s of %s:%u\n", data.value.data.string, data.proc.nspace, data.proc.rank);
    return PMIX_SUCCESS;
}

static pmix_status_t listen(pmix_status_t code)
{
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registration, NULL);
    wait_for(&registered);
    if (PMIX_SUCCESS == answer) printf("listening\n");
    return answer;
}

static pmix_status_t notify(pmix_status_t code, const char *text)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, TEXT, text, PMIX_STRING);
    const pmix_status_t status = PMIx_Notify_event(code, &me, PMIX_RANGE_SESSION, &info, 1, NULL, NULL);
    return PMIX_OPERATION_SUCCEEDED == status ? PMIX_SUCCESS : status;
}

static size_t parse(char *names, pmix_proc_t *procs)
{
    size_t count = 0;
    for (char *name = strtok(names, ","); NULL != name && count < MOST; name = strtok(NULL, ",")) {
        char *rank = strrchr(name, ':');
        *rank++ = '\0';
        PMIX_LOAD_PROCID(&procs[count], named(name), '*' == *rank ? PMIX_RANK_WILDCARD : (pmix_rank_t) atoi(rank));
        count++;
    }
    return count;
}

static pmix_status_t get(char *name, bool refresh)
{
    pmix_proc_t proc;
    pmix_value_t *value = NULL;
    pmix_info_t info;
    pmix_status_t status;
    parse(name, &proc);
    PMIX_INFO_LOAD(&info, PMIX_GET_REFRESH_CACHE, &refresh, PMIX_BOOL);
    if (PMIX_SUCCESS != (status = PMIx_Get(&proc, "k", &info, refresh ? 1 : 0, &value))) return status;
    printf("got %u\n", value->data.uint32);
    PMIX_VALUE_RELEASE(value);
    return PMIX_SUCCESS;
}

static pmix_status_t resolve(const char *nspace)
{
    pmix_proc_t *procs = NULL;
    size_t count = 0;
    char *nodes = NULL;
    pmix_status_t status = PMIx_Resolve_peers(NULL, named(nspace), &procs, &count);
    if (PMIX_SUCCESS == status) status = PMIx_Resolve_nodes(named(nspace), &nodes);
    if (PMIX_SUCCESS != status) return status;
    printf("peers");
    for (size_t i = 0; i < count; i++) printf(" %s:%u", procs[i].nspace, procs[i].rank);
    printf(" on %s\n", nodes);
    PMIX_PROC_FREE(procs, count);
    free(nodes);
    return PMIX_SUCCESS;
}

static pmix_status_t table(const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_PROC_TABLE);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, named(nspace), PMIX_STRING);
    if (PMIX_SUCCESS != (status = PMIx_Query_info(&query, 1, &results, &count))) return status;
    /* an array of the results of one query, or these alone */
    pmix_info_t *found = results;
    size_t most = count;
    if (1 == count && PMIX_DATA_ARRAY == results[0].value.type && PMIX_INFO == results[0].value.data.darray->type) {
        found = results[0].value.data.darray->array;
        most = results[0].value.data.darray->size;
    }
    for (size_t i = 0; i < most; i++) {
        if (0 != strcmp(found[i].key, PMIX_QUERY_PROC_TABLE)) continue;
        pmix_data_array_t *rows = found[i].value.data.darray;
        printf("table");
        for (size_t row = 0; row < rows->size; row++) {
            pmix_proc_t *proc = &((pmix_proc_info_t *) rows->array)[row].proc;
            printf(" %s:%u", proc->nspace, proc->rank);
        }
        printf("\n");
    }
    PMIX_INFO_FREE(results, count);
    return PMIX_SUCCESS;
}

static pmix_status_t send_signal(char *names)
{
    pmix_proc_t procs[MOST];
    pmix_info_t info;
    const int number = 10;
    PMIX_INFO_LOAD(&info, PMIX_JOB_CTRL_SIGNAL, &number, PMIX_INT);
    return PMIx_Job_control(procs, parse(names, procs), &info, 1, NULL, NULL);
}

static pmix_status_t abort_all(char *names)
{
    pmix_proc_t procs[MOST];
    return PMIx_Abort(7, "enough", procs, parse(names, procs));
}

static pmix_status_t mail(const char *address)
{
    pmix_info_t parts[3], data[2], directive;
    pmix_data_array_t array = {.type = PMIX_INFO, .size = 3, .array = parts};
    pmix_status_t status;
    const bool yes = true;
    PMIX_INFO_LOAD(&parts[0], PMIX_LOG_EMAIL_ADDR, address, PMIX_STRING);
    PMIX_INFO_LOAD(&parts[1], PMIX_LOG_EMAIL_SUBJECT, "from C", PMIX_STRING);
    PMIX_INFO_LOAD(&parts[2], PMIX_LOG_EMAIL_MSG, "text", PMIX_STRING);
    PMIX_INFO_LOAD(&data[0], PMIX_LOG_EMAIL, &array, PMIX_DATA_ARRAY);
    PMIX_INFO_LOAD(&data[1], PMIX_LOG_JOB_RECORD, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&directive, PMIX_LOG_GENERATE_TIMESTAMP, &yes, PMIX_BOOL);
    status = PMIx_Log(data, 1, &directive, 1);
    printf("mailed %d\n", status);
    status = PMIx_Log(data, 2, NULL, 0);
    printf("and more %d\n", status);
    return PMIX_SUCCESS;
}

static pmix_status_t put(const char *number)
{
    pmix_value_t value;
    uint32_t what = (uint32_t) atoi(number);
    pmix_status_t status;
    PMIX_VALUE_LOAD(&value, &what, PMIX_UINT32);
    status = PMIx_Put(PMIX_LOCAL, "k", &value);
    return PMIX_SUCCESS == status ? PMIx_Commit() : status;
}

static pmix_status_t size(const char *nspace)
{
    pmix_proc_t job;
    pmix_value_t *value = NULL;
    pmix_info_t info;
    pmix_status_t status;
    const bool yes = true;
    PMIX_LOAD_PROCID(&job, nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_OPTIONAL, &yes, PMIX_BOOL);
    if (PMIX_SUCCESS != (status = PMIx_Get(&job, PMIX_JOB_SIZE, &info, 1, &value))) return status;
    printf("size of %s is %u\n", nspace, value->data.uint32);
    PMIX_VALUE_RELEASE(value);
    return PMIX_SUCCESS;
}

static pmix_status_t fence(const char *procs)
{
    pmix_proc_t all;
    pmix_info_t info;
    bool yes = true;
    PMIX_LOAD_PROCID(&all, procs, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&info, PMIX_ALL_CLONES_PARTICIPATE, &yes, PMIX_BOOL);
    const pmix_status_t status = PMIx_Fence(&all, 1, &info, 1);
    if (PMIX_SUCCESS == status) printf("fenced with all clones\n");
    return status;
}

int main(int argc, char **argv)
{
    pmix_proc_t procs[MOST];
    pmix_status_t status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (PMIX_SUCCESS != (status = PMIx_Init(&me, NULL, 0))) return fail("init", status);
    for (int i = 1; i < argc; i++) {
        const char *act = argv[i];
        if (0 == strcmp(act, "hear")) {
            wait_for(&heard);
            continue;
        }
        if (++i == argc) return fail(act, PMIX_ERR_BAD_PARAM);
        if (0 == strcmp(act, "publish") && i + 1 < argc) {
            status = publish(argv[i], argv[i + 1]);
            i++;
        } else if (0 == strcmp(act, "notify") && i + 1 < argc) {
            status = notify(atoi(argv[i]), argv[i + 1]);
            i++;
        } else if (0 == strcmp(act, "lookup")) {
            status = lookup(argv[i]);
        } else if (0 == strcmp(act, "listen")) {
            status = listen(atoi(argv[i]));
        } else if (0 == strcmp(act, "connect")) {
            status = PMIx_Connect(procs, parse(argv[i], procs), NULL, 0);
        } else if (0 == strcmp(act, "disconnect")) {
            status = PMIx_Disconnect(procs, parse(argv[i], procs), NULL, 0);
        } else if (0 == strcmp(act, "get") || 0 == strcmp(act, "refresh")) {
            status = get(argv[i], 'r' == *act);
        } else if (0 == strcmp(act, "resolve")) {
            status = resolve(argv[i]);
        } else if (0 == strcmp(act, "table")) {
            status = table(argv[i]);
        } else if (0 == strcmp(act, "signal")) {
            status = send_signal(argv[i]);
        } else if (0 == strcmp(act, "abort")) {
            status = abort_all(argv[i]);
        } else if (0 == strcmp(act, "mail")) {
            status = mail(argv[i]);
        } else if (0 == strcmp(act, "put")) {
            status = put(argv[i]);
        } else if (0 == strcmp(act, "fence")) {
            status = fence(argv[i]);
        } else if (0 == strcmp(act, "size")) {
            status = size(argv[i]);
        } else {
            status = PMIX_ERR_BAD_PARAM;
        }
        if (PMIX_SUCCESS != status) return fail(act, status);
    }
    if (PMIX_SUCCESS != (status = PMIx_Finalize(NULL, 0))) return fail("finalize", status);
    printf("left\n");
    return 0;
}
