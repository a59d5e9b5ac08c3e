/* Rank 0 tells of an event before the others listen; they get it from what the server has kept, through a chain of
 * two handlers that ends with the first, and never twice. One line "<rank> chain <names> value <n>" a rank. */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;
static char chain[64];
/* set by the library's own thread */
static volatile int value = 0, calls = 0, answered = 0;
static volatile pmix_status_t answer;

static void on_event(const char *name, pmix_info_t *info, size_t count, pmix_status_t outcome,
                     pmix_event_notification_cbfunc_fn_t done, void *data)
{
    strcat(chain, name);
    for (size_t i = 0; i < count; i++)
        if (0 == strcmp(info[i].key, "events.value") && PMIX_INT32 == info[i].value.type)
            value = info[i].value.data.int32;
    calls++;
    if (NULL != done) done(outcome, NULL, 0, NULL, NULL, data);
}

static void on_single(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                      pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    on_event("single", info, count, PMIX_EVENT_ACTION_COMPLETE, done, data);
}

static void on_default(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    on_event("default", info, count, PMIX_EVENT_ACTION_COMPLETE, done, data);
}

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    answer = status;
    answered = 1;
}

static void listen_for(pmix_status_t *codes, size_t count, pmix_notification_fn_t handler)
{
    answered = 0;
    PMIx_Register_event_handler(codes, count, NULL, 0, handler, on_registration, NULL);
    while (!answered) usleep(1000);
    if (PMIX_SUCCESS != answer) printf("%u FAIL register %d\n", me.rank, answer);
}

static void wait_for(int wanted)
{
    for (int tries = 0; calls < wanted && tries < 10000; tries++) usleep(1000);
}

static void tell(pmix_status_t code, int number)
{
    pmix_info_t info[2];
    bool yes = true;
    PMIX_INFO_LOAD(&info[0], "events.value", &number, PMIX_INT32);
    PMIX_INFO_LOAD(&info[1], PMIX_EVENT_NON_DEFAULT, &yes, PMIX_BOOL);
    pmix_status_t status = PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, info, 2, NULL, NULL);
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status)
        printf("%u FAIL notify %d\n", me.rank, status);
}

int main(void)
{
    pmix_status_t code = PMIX_EXTERNAL_ERR_BASE - 7;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    if (0 == me.rank) tell(code, 41);
    PMIx_Fence(NULL, 0, NULL, 0);
    if (0 != me.rank) {
        listen_for(NULL, 0, on_default);
        listen_for(&code, 1, on_single);
        wait_for(1);
        printf("%u kept %d in %d calls\n", me.rank, value, calls);
    }
    PMIx_Fence(NULL, 0, NULL, 0);
    if (0 == me.rank) tell(code, 42);
    if (0 != me.rank) {
        wait_for(2);
        printf("%u chain %s value %d\n", me.rank, chain, value);
    }
    PMIx_Fence(NULL, 0, NULL, 0);
    return PMIX_SUCCESS == PMIx_Finalize(NULL, 0) ? 0 : 1;
}
