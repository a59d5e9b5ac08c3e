/* A tool with two servers: attaches to both, chooses between them, and leaves them.
 *
 *     pmix_tool_servers FIRST_URI SECOND_URI */
#include <pmix_tool.h>
#include <stdio.h>
#include <string.h>

static int failures = 0;

static void expect(const char *what, pmix_status_t due, pmix_status_t status)
{
    if (due == status) return;
    fprintf(stderr, "%s: %s instead of %s\n", what, PMIx_Error_string(status), PMIx_Error_string(due));
    failures++;
}

/* the jobs of the server to which calls go */
static void namespaces(const char *when)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_NAMESPACES);
    status = PMIx_Query_info(&query, 1, &results, &count);
    if (PMIX_SUCCESS == status && 1 == count && PMIX_STRING == results[0].value.type)
        printf("%s: namespaces %s\n", when, results[0].value.data.string);
    else
        printf("%s: no namespaces, %s\n", when, PMIx_Error_string(status));
}

static void servers(const char *when)
{
    pmix_proc_t *all = NULL;
    size_t count = 0;
    expect(when, PMIX_SUCCESS, PMIx_tool_get_servers(&all, &count));
    printf("%s: servers", when);
    for (size_t i = 0; i < count; i++) printf(" %s:%u", all[i].nspace, all[i].rank);
    printf("\n");
}

static pmix_status_t attach(const char *uri, pmix_proc_t *me, pmix_proc_t *server)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, uri, PMIX_STRING);
    return PMIx_tool_attach_to_server(me, server, &info, 1);
}

int main(int argc, char **argv)
{
    pmix_proc_t me, again, first, second, nobody;
    pmix_info_t info, wait[2];
    bool yes = true;
    int limit = 1;
    pmix_proc_t *all = NULL;
    size_t count = 0;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3) return 2;
    PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, argv[1], PMIX_STRING);
    expect("init", PMIX_SUCCESS, PMIx_tool_init(&me, &info, 1));
    printf("attached as %s:%u\n", me.nspace, me.rank);
    expect("get_servers", PMIX_SUCCESS, PMIx_tool_get_servers(&all, &count));
    if (1 != count) return 3;
    first = all[0];
    servers("one");
    namespaces("one");

    expect("attach", PMIX_SUCCESS, attach(argv[2], &again, &second));
    printf("again as %s:%u at %s:%u\n", again.nspace, again.rank, second.nspace, second.rank);
    servers("two");
    namespaces("two");

    PMIX_INFO_LOAD(&wait[0], PMIX_WAIT_FOR_CONNECTION, &yes, PMIX_BOOL);
    PMIX_INFO_LOAD(&wait[1], PMIX_TIMEOUT, &limit, PMIX_INT);
    expect("set_server", PMIX_SUCCESS, PMIx_tool_set_server(&second, wait, 2));
    servers("second");
    namespaces("second");
    PMIX_LOAD_PROCID(&nobody, "nobody", 0);
    expect("set_server to nobody", PMIX_ERR_UNREACH, PMIx_tool_set_server(&nobody, NULL, 0));
    expect("set_server back", PMIX_SUCCESS, PMIx_tool_set_server(&first, NULL, 0));
    namespaces("first");

    expect("disconnect", PMIX_SUCCESS, PMIx_tool_disconnect(&second));
    servers("left");
    namespaces("left");
    expect("finalize", PMIX_SUCCESS, PMIx_tool_finalize());
    printf("done\n");
    return failures;
}
