/* A process that makes groups with processes of another kind. Does what its arguments say, one after the other, and says
 * so:
 *
 *     construct ID PROCS                  as in job:0,other:*
 *     bootstrap ID LEADERS PROCS          leads with others; PROCS, or -, are those it adds
 *     added ID                            is added by leaders
 *     invite ID PROCS                     leads a group of those that accept
 *     listen ID                           will hear of an invitation to the group
 *     join ID | decline ID                waits for the invitation and answers it
 *     fence ID | leave ID | destruct ID   of a group */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MOST 8
/* newer than both libraries */
#define BOOTSTRAP "pmix.grp.btstrp"

static pmix_proc_t me;

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

/* Reads processes from text, which it changes. */
static size_t read_procs(char *text, pmix_proc_t procs[MOST])
{
    size_t count = 0;
    for (char *word = strtok(text, ","); NULL != word && count < MOST; word = strtok(NULL, ",")) {
        char *rank = strrchr(word, ':');
        *rank++ = '\0';
        PMIX_LOAD_PROCID(&procs[count], word, '*' == *rank ? PMIX_RANK_WILDCARD : (pmix_rank_t) atoi(rank));
        count++;
    }
    return count;
}

static pmix_status_t make(const char *id, const pmix_proc_t *procs, size_t count, pmix_info_t *info, size_t ninfo)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    pmix_status_t status = PMIx_Group_construct(id, procs, count, info, ninfo, &results, &nresults);
    printf("made %s: %d\n", id, status);
    for (size_t i = 0; i < nresults; i++) {
        if (0 == strcmp(results[i].key, PMIX_GROUP_CONTEXT_ID)) printf("number\n");
        if (0 == strcmp(results[i].key, PMIX_GROUP_MEMBERSHIP) && PMIX_DATA_ARRAY == results[i].value.type) {
            const pmix_data_array_t *members = results[i].value.data.darray;
            printf("members");
            for (size_t at = 0; at < members->size; at++)
                printf(" %s:%u", ((pmix_proc_t *) members->array)[at].nspace, ((pmix_proc_t *) members->array)[at].rank);
            printf("\n");
        }
    }
    if (NULL != results) PMIX_INFO_FREE(results, nresults);
    return PMIX_SUCCESS;
}

static pmix_status_t bootstrap(const char *id, size_t leaders, char *added)
{
    pmix_info_t info[3];
    pmix_data_array_t array;
    pmix_proc_t procs[MOST];
    size_t count = 2;
    bool yes = true;
    PMIX_INFO_LOAD(&info[0], BOOTSTRAP, &leaders, PMIX_SIZE);
    PMIX_INFO_LOAD(&info[1], PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    if (0 != strcmp(added, "-")) {
        array.type = PMIX_PROC;
        array.array = procs;
        array.size = read_procs(added, procs);
        PMIX_INFO_LOAD(&info[2], PMIX_GROUP_ADD_MEMBERS, &array, PMIX_DATA_ARRAY);
        count = 3;
    }
    return make(id, &me, 1, info, count);
}

/* set by the library's own thread */
static volatile int registered = 0, invited = 0;
static pmix_proc_t leader;
static const char *awaited = "";

static void on_registration(pmix_status_t status, size_t id, void *data)
{
    registered = PMIX_SUCCESS == status ? 1 : -1;
}

static void on_invitation(size_t id, pmix_status_t code, const pmix_proc_t *source, pmix_info_t *info, size_t count,
                          pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t done, void *data)
{
    for (size_t i = 0; i < count; i++) {
        if (0 != strcmp(info[i].key, PMIX_GROUP_ID) || 0 != strcmp(info[i].value.data.string, awaited)) continue;
        leader = *source;
        invited = 1;
    }
    if (NULL != done) done(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, data);
}

static pmix_status_t listen_for(const char *id)
{
    pmix_status_t code = PMIX_GROUP_INVITED;
    awaited = id;
    PMIx_Register_event_handler(&code, 1, NULL, 0, on_invitation, on_registration, NULL);
    while (0 == registered) usleep(1000);
    return 1 == registered ? PMIX_SUCCESS : PMIX_ERROR;
}

static pmix_status_t invite(const char *id, char *text)
{
    pmix_proc_t procs[MOST];
    pmix_info_t *results = NULL;
    size_t nresults = 0, count = read_procs(text, procs);
    return PMIx_Group_invite(id, procs, count, NULL, 0, &results, &nresults);
}

static pmix_status_t answer(const char *id, pmix_group_opt_t how)
{
    pmix_info_t *results = NULL;
    size_t nresults = 0;
    while (!invited) usleep(1000);
    printf("invited by %s:%u\n", leader.nspace, leader.rank);
    return PMIx_Group_join(id, &leader, how, NULL, 0, &results, &nresults);
}

static pmix_status_t fence(const char *id)
{
    pmix_proc_t all;
    PMIX_LOAD_PROCID(&all, id, PMIX_RANK_WILDCARD);
    return PMIx_Fence(&all, 1, NULL, 0);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    pmix_status_t status = PMIx_Init(&me, NULL, 0);
    if (PMIX_SUCCESS != status) return fail("init", status);
    for (int at = 1; at < argc; at++) {
        const char *act = argv[at];
        const char *id = argv[++at];
        if (0 == strcmp(act, "construct")) {
            pmix_proc_t procs[MOST];
            size_t count = read_procs(argv[++at], procs);
            status = make(id, procs, count, NULL, 0);
        } else if (0 == strcmp(act, "bootstrap")) {
            size_t leaders = strtoul(argv[++at], NULL, 10);
            status = bootstrap(id, leaders, argv[++at]);
        } else if (0 == strcmp(act, "added")) {
            status = make(id, NULL, 0, NULL, 0);
        } else if (0 == strcmp(act, "invite")) {
            status = invite(id, argv[++at]);
        } else if (0 == strcmp(act, "listen")) {
            status = listen_for(id);
        } else if (0 == strcmp(act, "join")) {
            status = answer(id, PMIX_GROUP_ACCEPT);
        } else if (0 == strcmp(act, "decline")) {
            status = answer(id, PMIX_GROUP_DECLINE);
        } else if (0 == strcmp(act, "fence")) {
            status = fence(id);
        } else if (0 == strcmp(act, "leave")) {
            status = PMIx_Group_leave(id, NULL, 0);
        } else if (0 == strcmp(act, "destruct")) {
            status = PMIx_Group_destruct(id, NULL, 0);
        } else {
            return fail(act, PMIX_ERR_BAD_PARAM);
        }
        if (PMIX_SUCCESS != status) return fail(act, status);
        printf("%s done\n", act);
    }
    if (PMIX_SUCCESS != (status = PMIx_Finalize(NULL, 0))) return fail("finalize", status);
    printf("left\n");
    return 0;
}
