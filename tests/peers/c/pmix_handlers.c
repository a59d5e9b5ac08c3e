/* Rank 0 has a default handler, and registers and ends others; then rank 1 tells of an event that only the default handler
 * is for. By the argument: "one" ends one of two handlers for a code, "again" ends the default handler many times and
 * registers it anew. One line "heard <n>". */
#include <pmix.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define OWN (PMIX_EXTERNAL_ERR_BASE - 1)
#define OF_ALL (PMIX_EXTERNAL_ERR_BASE - 5)

static pmix_proc_t me;
/* set by the library's own thread */
static volatile int heard = 0;

static void on_default(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    if (OF_ALL == code) heard++;
    if (NULL != done) done(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

static void on_own(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                   pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    if (NULL != done) done(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);
}

static pmix_status_t add(pmix_status_t *codes, size_t count, pmix_info_t *info, pmix_notification_fn_t handler)
{
    pmix_status_t number = PMIx_Register_event_handler(codes, count, info, NULL == info ? 0 : 1, handler, NULL, NULL);
    if (0 > number) printf("FAIL register %d\n", number);
    return number;
}

static void end(pmix_status_t number)
{
    pmix_status_t status = PMIx_Deregister_event_handler(number, NULL, NULL);
    if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) printf("FAIL deregister %d\n", status);
}

int main(int argc, char **argv)
{
    pmix_status_t own = OWN, number;
    pmix_info_t info;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (2 > argc || PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    if (0 == me.rank) {
        number = add(NULL, 0, NULL, on_default);
        if (0 == strcmp(argv[1], "one")) {
            add(&own, 1, NULL, on_own);
            end(add(&own, 1, NULL, on_own));
        } else if (0 == strcmp(argv[1], "again")) {
            for (int i = 0; i < 1100 && 0 <= number; i++) {
                end(number);
                number = add(NULL, 0, NULL, on_default);
            }
        } else if (0 == strcmp(argv[1], "filtered")) {
            add(&own, 1, NULL, on_own);
            PMIX_INFO_LOAD(&info, PMIX_EVENT_AFFECTED_PROC, &me, PMIX_PROC);
            for (int i = 0; i < 1100 && 0 <= number; i++)
                if (0 <= (number = add(&own, 1, &info, on_own))) end(number);
            PMIX_INFO_DESTRUCT(&info);
        }
    }
    PMIx_Fence(NULL, 0, NULL, 0);
    if (1 == me.rank) {
        pmix_status_t status = PMIx_Notify_event(OF_ALL, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL);
        if (PMIX_SUCCESS != status && PMIX_OPERATION_SUCCEEDED != status) printf("FAIL notify %d\n", status);
    } else {
        for (int tries = 0; 0 == heard && tries < 10000; tries++) usleep(1000);
        printf("heard %d\n", heard);
    }
    PMIx_Fence(NULL, 0, NULL, 0);
    return PMIX_SUCCESS == PMIx_Finalize(NULL, 0) ? 0 : 1;
}
