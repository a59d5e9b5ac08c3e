/* Calls each function of a tool of the Standard and says how it went: "TRY <function>" before, "CALL <function> <status>"
 * behind it, the status as a number. A group of functions a run, so that one that never answers hides no other.
 *
 *     pmix_each_tool GROUP PID-OF-THE-SERVER JOB */
#include <pmix_tool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* not in the headers of each version: a weak function that a library does not have is NULL */
extern bool PMIx_tool_is_connected(void) __attribute__((weak));
extern pmix_status_t PMIx_tool_connect_to_server(pmix_proc_t *proc, pmix_info_t info[], size_t count)
    __attribute__((weak));

/* another answer than any status: the call succeeded, and what it gave is not what it should be */
#define WRONG 99999

static pmix_proc_t me, server, job;
static pmix_info_t how;
/* set by the library's own thread */
static volatile int answered = 0;
static volatile pmix_status_t answer;
static volatile size_t number;

static void said(const char *function, pmix_status_t status)
{
    printf("CALL %s %d\n", function, PMIX_OPERATION_SUCCEEDED == status ? PMIX_SUCCESS : status);
}

#define say(function, call) (printf("TRY %s\n", function), said(function, call))

static void said_later(const char *function, pmix_status_t status)
{
    if (PMIX_SUCCESS == status) {
        while (!answered) usleep(1000);
        status = answer;
    }
    said(function, status);
}

#define say_later(function, call) (printf("TRY %s\n", function), answered = 0, said_later(function, call))

static void on_op(pmix_status_t status, void *data)
{
    answer = status;
    answered = 1;
}

static void on_number(pmix_status_t status, size_t id, void *data)
{
    number = id;
    on_op(status, data);
}

static void on_output(size_t id, pmix_iof_channel_t channel, pmix_proc_t *source, pmix_byte_object_t *data,
                      pmix_info_t *info, size_t count)
{
}

static void servers(void)
{
    pmix_proc_t *found = NULL;
    size_t count = 0;
    pmix_status_t status;
    if (NULL != PMIx_tool_is_connected)
        say("PMIx_tool_is_connected", PMIx_tool_is_connected() ? PMIX_SUCCESS : WRONG);
    status = PMIx_tool_get_servers(&found, &count);
    if (PMIX_SUCCESS == status && 0 < count) server = found[0];
    say("PMIx_tool_get_servers", PMIX_SUCCESS == status && 1 != count ? WRONG : status);
}

static void attach(void)
{
    pmix_proc_t myself, to;
    say("PMIx_tool_attach_to_server", PMIx_tool_attach_to_server(&myself, &to, &how, 1));
}

static void connect_again(void)
{
    pmix_proc_t myself;
    if (NULL != PMIx_tool_connect_to_server)
        say("PMIx_tool_connect_to_server", PMIx_tool_connect_to_server(&myself, &how, 1));
}

static void set(void)
{
    say("PMIx_tool_set_server", PMIx_tool_set_server(&server, NULL, 0));
}

static void disconnect(void)
{
    say("PMIx_tool_disconnect", PMIx_tool_disconnect(&server));
}

static void iof(void)
{
    pmix_byte_object_t line = {.bytes = "line\n", .size = 5};
    pmix_proc_t first = job;
    first.rank = 0;
    say_later("PMIx_IOF_pull",
              PMIx_IOF_pull(&job, 1, NULL, 0, PMIX_FWD_STDOUT_CHANNEL, on_output, on_number, NULL));
    say_later("PMIx_IOF_push", PMIx_IOF_push(&first, 1, &line, NULL, 0, on_op, NULL));
    say_later("PMIx_IOF_deregister", PMIx_IOF_deregister(number, NULL, 0, on_op, NULL));
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc < 4) {
        puts("servers\nattach\nconnect\nset\ndisconnect\niof");
        return 0;
    }
    const pid_t pid = atoi(argv[2]);
    PMIX_INFO_LOAD(&how, PMIX_SERVER_PIDINFO, &pid, PMIX_PID);
    PMIX_LOAD_PROCID(&job, argv[3], PMIX_RANK_WILDCARD);
    printf("TRY PMIx_tool_init\n");
    pmix_status_t status = PMIx_tool_init(&me, &how, 1);
    said("PMIx_tool_init", status);
    if (PMIX_SUCCESS != status) return 1;
    const char *name = argv[1];
    if (0 == strcmp(name, "servers")) servers();
    if (0 == strcmp(name, "attach")) attach();
    if (0 == strcmp(name, "connect")) connect_again();
    if (0 == strcmp(name, "set") || 0 == strcmp(name, "disconnect")) {
        pmix_proc_t *found = NULL;
        size_t count = 0;
        if (PMIX_SUCCESS == PMIx_tool_get_servers(&found, &count) && 0 < count) server = found[0];
        if (0 == strcmp(name, "set")) {
            set();
        } else {
            disconnect();
            /* the library waits for the server that it has left */
            _exit(0);
        }
    }
    if (0 == strcmp(name, "iof")) iof();
    say("PMIx_tool_finalize", PMIx_tool_finalize());
    return 0;
}
