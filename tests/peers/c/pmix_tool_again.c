/* A tool that attaches to its server more than once, as programs do that do not know what another part of them has done.
 *
 *     pmix_tool_again URI ACT...
 *
 * Does what the acts say, one after the other, and says so:
 *
 *     listen        registers for the event
 *     attach        attaches to the server again
 *     primary       the same, as the primary server
 *     set           makes the server the primary one
 *     query         asks for the namespaces
 *     servers       lists the servers
 *     hear          waits for the event, which came as often as it says
 *     disconnect    leaves the server */
#include <pmix_tool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define CODE (PMIX_EXTERNAL_ERR_BASE - 7)

static pmix_proc_t me, server;
/* set by the library's own thread */
static volatile int heard = 0, answered = 0;
static volatile pmix_status_t answer;

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    heard++;
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    answer = status;
    answered = 1;
}

static pmix_status_t listen_for(void)
{
    pmix_status_t code = CODE;
    answered = 0;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registration, NULL);
    while (!answered) usleep(1000);
    return answer;
}

static pmix_status_t attach(const char *uri, bool primary)
{
    pmix_info_t info[2];
    pmix_proc_t again, to;
    PMIX_INFO_LOAD(&info[0], PMIX_SERVER_URI, uri, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_PRIMARY_SERVER, &primary, PMIX_BOOL);
    pmix_status_t status = PMIx_tool_attach_to_server(&again, &to, info, 2);
    if (PMIX_SUCCESS == status && (!PMIX_CHECK_PROCID(&me, &again) || !PMIX_CHECK_PROCID(&server, &to)))
        printf("now %s:%u at %s:%u\n", again.nspace, again.rank, to.nspace, to.rank);
    return status;
}

static pmix_status_t query(void)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    status = PMIx_Query_info(&query, 1, &results, &count);
    if (PMIX_SUCCESS == status && 1 == count) printf("namespaces %s\n", results[0].value.data.string);
    return status;
}

static pmix_status_t servers(void)
{
    pmix_proc_t *all = NULL;
    size_t count = 0;
    pmix_status_t status = PMIx_tool_get_servers(&all, &count);
    if (PMIX_SUCCESS != status || 0 == count) return PMIX_SUCCESS == status ? PMIX_ERR_NOT_FOUND : status;
    server = all[0];
    for (size_t i = 0; i < count; i++)
        if (!PMIX_CHECK_PROCID(&server, &all[i])) return PMIX_ERR_BAD_PARAM;
    return PMIX_SUCCESS;
}

static pmix_status_t hear(void)
{
    while (!heard) usleep(1000);
    /* what has come twice is there by the time that the server has answered */
    pmix_status_t status = query();
    printf("heard %d\n", heard);
    return status;
}

int main(int argc, char **argv)
{
    pmix_info_t info;
    setvbuf(stdout, NULL, _IOLBF, 0);
    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, argv[1], PMIX_STRING);
    pmix_status_t status = PMIx_tool_init(&me, &info, 1);
    printf("init: %d\n", status);
    if (PMIX_SUCCESS != status || PMIX_SUCCESS != servers()) return 1;
    printf("attached as %s:%u\n", me.nspace, me.rank);
    for (int at = 2; at < argc; at++) {
        const char *act = argv[at];
        status = PMIX_ERR_NOT_SUPPORTED;
        if (0 == strcmp(act, "listen")) status = listen_for();
        if (0 == strcmp(act, "attach")) status = attach(argv[1], false);
        if (0 == strcmp(act, "primary")) status = attach(argv[1], true);
        if (0 == strcmp(act, "set")) status = PMIx_tool_set_server(&server, NULL, 0);
        if (0 == strcmp(act, "query")) status = query();
        if (0 == strcmp(act, "servers")) status = servers();
        if (0 == strcmp(act, "hear")) status = hear();
        if (0 == strcmp(act, "disconnect")) status = PMIx_tool_disconnect(&server);
        printf("%s: %d\n", act, status);
    }
    printf("finalize: %d\n", PMIx_tool_finalize());
    return 0;
}
