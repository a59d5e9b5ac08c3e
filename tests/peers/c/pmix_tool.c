/* A tool: attaches to a server, shows its jobs and the processes of one, reads their output and gives them input.
 *
 * Of job - it shows nothing, and forwards nothing.
 *
 *     pmix_tool JOB [uri URI | file FILE | pid PID | nspace NAMESPACE | system - | first -] */
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* set by the library's own thread */
static volatile int heard = 0, answered = 0;
static volatile pmix_status_t answer;

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *data,
                      pmix_info_t *info, size_t count)
{
    if (NULL == data || 0 == data->size) return;
    printf("output of %s:%u on %d: %.*s", source->nspace, source->rank, channel, (int) data->size, data->bytes);
    heard = 1;
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

static pmix_status_t attach(int argc, char **argv, pmix_proc_t *me)
{
    pmix_info_t info;
    if (argc < 4) return PMIx_tool_init(me, NULL, 0);
    const pid_t pid = atoi(argv[3]);
    if (0 == strcmp(argv[2], "uri")) PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, argv[3], PMIX_STRING);
    if (0 == strcmp(argv[2], "file")) PMIX_INFO_LOAD(&info, PMIX_TOOL_ATTACHMENT_FILE, argv[3], PMIX_STRING);
    if (0 == strcmp(argv[2], "pid")) PMIX_INFO_LOAD(&info, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    if (0 == strcmp(argv[2], "nspace")) PMIX_INFO_LOAD(&info, PMIX_SERVER_NSPACE, argv[3], PMIX_STRING);
    if (0 == strcmp(argv[2], "system")) PMIX_INFO_LOAD(&info, PMIX_CONNECT_TO_SYSTEM, NULL, PMIX_BOOL);
    if (0 == strcmp(argv[2], "first")) PMIX_INFO_LOAD(&info, PMIX_CONNECT_SYSTEM_FIRST, NULL, PMIX_BOOL);
    return PMIx_tool_init(me, &info, 1);
}

static pmix_status_t namespaces(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    if (PMIX_SUCCESS != (status = PMIx_Query_info(&query, 1, &results, &count))) return status;
    if (1 != count || PMIX_STRING != results[0].value.type) return PMIX_ERR_TYPE_MISMATCH;
    printf("namespaces %s\n", results[0].value.data.string);
    return PMIX_SUCCESS;
}

/* as the text on tools does: who is here, and then what each of them is */
static pmix_status_t local_processes(const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_LOCAL_PROCS);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    if (PMIX_SUCCESS != (status = PMIx_Query_info(&query, 1, &results, &count))) return status;
    if (1 != count || PMIX_DATA_ARRAY != results[0].value.type) return PMIX_ERR_TYPE_MISMATCH;
    const pmix_data_array_t *procs = results[0].value.data.darray;
    if (PMIX_PROC != procs->type) return PMIX_ERR_TYPE_MISMATCH;
    for (size_t i = 0; i < procs->size; i++) {
        const pmix_proc_t *proc = (const pmix_proc_t *) procs->array + i;
        printf("local %s:%u\n", proc->nspace, proc->rank);
    }
    return PMIX_SUCCESS;
}

static pmix_status_t processes(const char *nspace)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_PROC_TABLE);
    PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
    PMIX_INFO_LOAD(&query.qualifiers[0], PMIX_NSPACE, nspace, PMIX_STRING);
    if (PMIX_SUCCESS != (status = PMIx_Query_info(&query, 1, &results, &count))) return status;
    if (1 != count || PMIX_DATA_ARRAY != results[0].value.type) return PMIX_ERR_TYPE_MISMATCH;
    const pmix_data_array_t *table = results[0].value.data.darray;
    const pmix_proc_info_t *rows = table->array;
    for (size_t i = 0; i < table->size; i++)
        printf("process %s:%u pid %d on %s is %s: %s\n", rows[i].proc.nspace, rows[i].proc.rank, (int) rows[i].pid,
               rows[i].hostname, PMIx_Proc_state_string(rows[i].state), rows[i].executable_name);
    return PMIX_SUCCESS;
}

static pmix_status_t forward(const char *nspace)
{
    pmix_proc_t job;
    pmix_status_t status;
    char line[] = "a line\n";
    pmix_byte_object_t input = {.bytes = line, .size = strlen(line)};
    PMIX_LOAD_PROCID(&job, nspace, PMIX_RANK_WILDCARD);
    const int pulled = PMIx_IOF_pull(&job, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, NULL, NULL);
    if (pulled < 0) return pulled;
    if (PMIX_SUCCESS != (status = PMIx_IOF_push(&job, 1, &input, NULL, 0, on_answer, NULL))) return status;
    wait_for(&answered);
    printf("pushed: %d\n", answer);
    wait_for(&heard);
    /* without a callback the library of release 4.2.2 waits for something that it has freed */
    answered = 0;
    if (PMIX_SUCCESS != (status = PMIx_IOF_deregister(pulled, NULL, 0, on_answer, NULL))) return status;
    wait_for(&answered);
    return answer;
}

/* one that knows its server by its address alone sends no time with it */
static pmix_status_t logs(void)
{
    pmix_info_t data, directive;
    const bool once = true;
    PMIX_INFO_LOAD(&data, PMIX_LOG_STDERR, "a tool logs\n", PMIX_STRING);
    PMIX_INFO_LOAD(&directive, PMIX_LOG_ONCE, &once, PMIX_BOOL);
    return PMIx_Log(&data, 1, &directive, 1);
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_status_t status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 2) return 2;
    if (PMIX_SUCCESS != (status = attach(argc, argv, &me))) return fail("tool init", status);
    printf("attached as %s:%u\n", me.nspace, me.rank);
    if (PMIX_SUCCESS != (status = namespaces())) return fail("namespaces", status);
    if (0 != strcmp(argv[1], "-")) {
        if (PMIX_SUCCESS != (status = local_processes(argv[1]))) return fail("local processes", status);
        if (PMIX_SUCCESS != (status = processes(argv[1]))) return fail("processes", status);
        if (PMIX_SUCCESS != (status = forward(argv[1]))) return fail("forwarding", status);
        printf("log: %d\n", logs());
    }
    if (PMIX_SUCCESS != (status = PMIx_tool_finalize())) return fail("finalize", status);
    printf("left\n");
    return 0;
}
