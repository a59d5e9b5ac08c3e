/* A process of a job in which rank 0 is no C program. All put a text, enter a fence and get the texts of all; then rank 0
 * notifies the others of an event, and rank 1 does so. Says "beside N" when all of it was right. Servers differ in what they
 * make of ranges: the events are for this node, where all ranks are, or, with an argument, for all ranks by name. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CODE (-3483)
#define KEY "beside.text"

static pmix_proc_t me;
/* set by the library's own thread */
static volatile int registered = 0, of_rank_0 = 0, of_rank_1 = 0;
static volatile pmix_status_t answer;

static void check(const char *what, pmix_status_t status)
{
    if (PMIX_SUCCESS == status || PMIX_OPERATION_SUCCEEDED == status) return;
    printf("rank %u: %s: %s\n", me.rank, what, PMIx_Error_string(status));
    exit(3);
}

static void on_event(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    if (CODE == code && 0 == source->rank) of_rank_0 = 1;
    if (CODE == code && 1 == source->rank) of_rank_1 = 1;
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

static void fence(bool collect)
{
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    check("fence", PMIx_Fence(NULL, 0, &info, 1));
}

int main(int argc, char **argv)
{
    pmix_proc_t other;
    pmix_info_t range;
    pmix_value_t value, *found = NULL;
    pmix_status_t code = CODE;
    char text[64];
    setvbuf(stdout, NULL, _IOLBF, 0);
    check("init", PMIx_Init(&me, NULL, 0));
    snprintf(text, sizeof(text), "text of %u", me.rank);
    PMIX_VALUE_LOAD(&value, text, PMIX_STRING);
    check("put", PMIx_Put(PMIX_GLOBAL, KEY, &value));
    check("commit", PMIx_Commit());
    fence(true);

    PMIX_LOAD_PROCID(&other, me.nspace, PMIX_RANK_WILDCARD);
    check("get of the size", PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &found));
    const uint32_t size = found->data.uint32;
    for (uint32_t rank = 0; rank < size; rank++) {
        PMIX_LOAD_PROCID(&other, me.nspace, rank);
        check("get", PMIx_Get(&other, KEY, NULL, 0, &found));
        snprintf(text, sizeof(text), "text of %u", rank);
        if (PMIX_STRING != found->type || 0 != strcmp(text, found->data.string))
            check("value", PMIX_ERR_DATA_VALUE_NOT_FOUND);
        PMIX_VALUE_RELEASE(found);
    }

    PMIx_Register_event_handler(&code, 1, NULL, 0, on_event, on_registration, NULL);
    wait_for(&registered);
    check("registration", answer);
    fence(false);
    wait_for(&of_rank_0);
    PMIX_LOAD_PROCID(&other, me.nspace, PMIX_RANK_WILDCARD);
    PMIX_INFO_LOAD(&range, PMIX_EVENT_CUSTOM_RANGE, &other, PMIX_PROC);
    if (1 == me.rank && 1 == argc)
        check("notify", PMIx_Notify_event(CODE, &me, PMIX_RANGE_LOCAL, NULL, 0, NULL, NULL));
    else if (1 == me.rank)
        check("notify", PMIx_Notify_event(CODE, &me, PMIX_RANGE_CUSTOM, &range, 1, NULL, NULL));
    wait_for(&of_rank_1);
    fence(false);
    check("finalize", PMIx_Finalize(NULL, 0));
    printf("beside %u\n", me.rank);
    return 0;
}
