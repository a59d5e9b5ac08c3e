/* What users of PMIx have reported: `pmix_reports CASE` ends with 0, or writes what should be so. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static pmix_proc_t me;

static pmix_proc_t rank(pmix_rank_t number) {
    pmix_proc_t proc;
    PMIX_LOAD_PROCID(&proc, me.nspace, number);
    return proc;
}

static int put(const char *key, pmix_data_type_t type, void *data, size_t size) {
    pmix_value_t value;
    memset(&value, 0, sizeof value);
    value.type = type;
    if (type == PMIX_STRING) {
        value.data.string = data;
    } else if (size > 0) {
        value.data.bo.bytes = data;
        value.data.bo.size = size;
    } else {
        value.data.ptr = data;
    }
    return PMIx_Put(PMIX_GLOBAL, key, &value);
}

static int fence(int collects) {
    pmix_info_t collect;
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, NULL, PMIX_BOOL);
    return PMIx_Fence(NULL, 0, &collect, collects ? 1 : 0);
}

static int get(const char *key) {
    pmix_proc_t zero = rank(0);
    pmix_value_t *value = NULL;
    pmix_info_t limit;
    int seconds = 5;
    PMIX_INFO_LOAD(&limit, PMIX_TIMEOUT, &seconds, PMIX_INT);
    return PMIx_Get(&zero, key, &limit, 1, &value);
}

/* What cannot be read in a commit is left out; the rest arrives, also later. */
static int odd_values(void) {
    int bad = 0;
    if (me.rank == 0) {
        char *nothing = calloc(1, 65536);
        bad |= put("good", PMIX_STRING, "v", 0) | put("", PMIX_STRING, "x", 0);
        bad |= put("packed", PMIX_COMPRESSED_STRING, "not compressed", 14);
        bad |= put("?pmix.qual.val:x", PMIX_STRING, "x", 0);
        bad |= put("attribute", PMIX_REGATTR, nothing, 0);
        bad |= PMIx_Commit();
    }
    bad |= fence(1);
    if (me.rank == 0) {
        bad |= put("later", PMIX_STRING, "w", 0) | PMIx_Commit();
    }
    bad |= fence(1);
    if (me.rank == 1) {
        bad |= get("good") | get("later");
    }
    return bad;
}

static int abort_one(void) {
    fence(0);
    if (me.rank == 0) {
        pmix_proc_t two = rank(2);
        PMIx_Abort(9, "you go", &two, 1);
    }
    pause();
    return 1;
}

static volatile int registered, late, others;

static void ready(pmix_status_t status, size_t number, void *data) {
    (void)status, (void)number, (void)data;
    registered = 1;
}

#define HANDLER(name, count)                                                                                              \
    static void name(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t *info, size_t n,            \
                     pmix_info_t *results, size_t n_results, pmix_event_notification_cbfunc_fn_t done, void *data) {      \
        (void)id, (void)source, (void)info, (void)n, (void)results, (void)n_results;                                     \
        count += status == -3501;                                                                                         \
        if (done) done(PMIX_SUCCESS, NULL, 0, NULL, NULL, data);                                                          \
    }
HANDLER(any, others)
HANDLER(mine, late)

static void listen_for(int *codes, int count, pmix_notification_fn_t handler) {
    registered = 0;
    PMIx_Register_event_handler(codes, count, NULL, 0, handler, ready, NULL);
    while (!registered) usleep(1000);
}

/* Who registers later gets what was kept, whatever other handlers have had. */
static int late_handler(int has_default) {
    int code = -3501, tries;
    if (has_default) listen_for(NULL, 0, any);
    fence(0);
    if (me.rank == 0) PMIx_Notify_event(code, &me, PMIX_RANGE_NAMESPACE, NULL, 0, NULL, NULL);
    for (tries = 0; has_default && !others && tries < 60000; tries++) usleep(1000);
    fence(0);
    listen_for(&code, 1, mine);
    for (tries = 0; !late && tries < 60000; tries++) usleep(1000);
    return late != 1;
}

static int aliases(size_t here) {
    pmix_proc_t all = rank(PMIX_RANK_WILDCARD), *peers = NULL;
    pmix_value_t *value = NULL;
    pmix_info_t node;
    size_t count = 0;
    PMIX_INFO_LOAD(&node, PMIX_NODE_INFO, NULL, PMIX_BOOL);
    int bad = PMIx_Get(&all, PMIX_HOSTNAME_ALIASES, &node, 1, &value);
    bad |= PMIx_Resolve_peers("localhost", me.nspace, &peers, &count);
    int tries, found = PMIX_ERR_NOT_FOUND;
    for (tries = 0; found != PMIX_SUCCESS && tries < 60000; tries++) {
        /* the host tells it after the start */
        found = PMIx_Get(&me, PMIX_PROC_PID, NULL, 0, &value);
        if (found != PMIX_SUCCESS) usleep(1000);
    }
    return bad | found | (count != here) | (value->data.pid != getpid());
}

static int group_id(void) {
    pmix_proc_t both[2] = {rank(0), rank(1)};
    pmix_info_t number, *results = NULL;
    size_t count;
    char id[300];
    PMIX_INFO_LOAD(&number, PMIX_GROUP_ASSIGN_CONTEXT_ID, NULL, PMIX_BOOL);
    snprintf(id, sizeof id, "%s.grp", me.nspace);
    return PMIx_Group_construct(id, both, 2, &number, 1, &results, &count);
}

static int got(const pmix_proc_t *of, const char *key, const char *group, size_t expected) {
    pmix_info_t info;
    pmix_value_t *value = NULL;
    int status;
    if (group) {
        PMIX_INFO_LOAD(&info, "of.group", group, PMIX_STRING);
        info.flags |= PMIX_INFO_QUALIFIER;
    } else {
        int seconds = 5;
        PMIX_INFO_LOAD(&info, PMIX_TIMEOUT, &seconds, PMIX_INT);
    }
    status = PMIx_Get(of, key, &info, 1, &value);
    if (status == PMIX_SUCCESS && value->type == PMIX_SIZE && value->data.size == expected) return 0;
    fprintf(stderr, "rank %u: %s of %s: status %d\n", me.rank, key, group ? group : "none", status);
    return 1;
}

/* Several values under one key, each with a qualifier; and a reserved key that the process alone can give. */
static int qualified(int collects) {
    pmix_proc_t other = rank(1 - me.rank);
    pmix_value_t value;
    size_t number = 100 * me.rank;
    int bad = 0;
    const char *groups[] = {"one", "two"};
    for (int i = 0; i < 2; i++, number++) {
        pmix_data_array_t *array;
        PMIX_DATA_ARRAY_CREATE(array, 2, PMIX_INFO);
        pmix_info_t *infos = array->array;
        PMIX_INFO_LOAD(&infos[0], "id", &number, PMIX_SIZE);
        PMIX_INFO_LOAD(&infos[1], "of.group", groups[i], PMIX_STRING);
        infos[1].flags |= PMIX_INFO_QUALIFIER;
        value.type = PMIX_DATA_ARRAY;
        value.data.darray = array;
        bad |= PMIx_Put(PMIX_GLOBAL, PMIX_QUALIFIED_VALUE, &value);
    }
    value.type = PMIX_SIZE;
    value.data.size = number;
    bad |= PMIx_Put(PMIX_GLOBAL, "id", &value);
    bad |= PMIx_Put(PMIX_GLOBAL, "pmix.own.id", &value);
    bad |= PMIx_Commit() | fence(collects);
    bad |= got(&other, "id", NULL, 100 * other.rank + 2);
    bad |= got(&other, "id", "one", 100 * other.rank);
    bad |= got(&other, "id", "two", 100 * other.rank + 1);
    bad |= got(&other, "pmix.own.id", NULL, 100 * other.rank + 2);
    return bad;
}

/* A child gets a name that no group has, on whichever node that is. */
static int child_name(void) {
    char id[300], expected[300];
    pmix_info_t *results = NULL, by_node;
    size_t count;
    int bad = 0;
    snprintf(id, sizeof id, "%s.1", me.nspace);
    snprintf(expected, sizeof expected, "%s.2", me.nspace);
    if (me.rank == 1) bad = PMIx_Group_construct(id, &me, 1, NULL, 0, &results, &count);
    fence(0);
    if (me.rank == 0) {
        char *words[] = {"true", NULL};
        pmix_nspace_t child;
        pmix_app_t app;
        PMIX_APP_CONSTRUCT(&app);
        app.cmd = strdup("true");
        app.argv = words;
        app.maxprocs = 2;
        PMIX_INFO_LOAD(&by_node, PMIX_MAPBY, "node", PMIX_STRING);
        bad = PMIx_Spawn(&by_node, 1, &app, 1, child);
        bad |= strcmp(child, expected) != 0;
    }
    return bad;
}

static int child_fails(void) {
    if (me.rank == 0) {
        char *words[] = {"sh", "-c", "exit 3", NULL};
        int code = PMIX_EVENT_JOB_END;
        pmix_nspace_t child;
        pmix_info_t told;
        pmix_app_t app;
        listen_for(&code, 1, any);
        PMIX_APP_CONSTRUCT(&app);
        app.cmd = strdup("sh");
        app.argv = words;
        app.maxprocs = 1;
        PMIX_INFO_LOAD(&told, PMIX_NOTIFY_COMPLETION, NULL, PMIX_BOOL);
        if (PMIx_Spawn(&told, 1, &app, 1, child) != PMIX_SUCCESS) return 1;
    }
    /* longer than others have after a failure */
    sleep(3);
    fence(0);
    printf("alive\n");
    return 0;
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    int bad = 1;
    if (PMIx_Init(&me, NULL, 0) != PMIX_SUCCESS) return 1;
    if (!strcmp(what, "odd-values")) bad = odd_values();
    if (!strcmp(what, "abort-one")) bad = abort_one();
    if (!strcmp(what, "late-handler")) bad = late_handler(1);
    if (!strcmp(what, "late-handler-alone")) bad = late_handler(0);
    if (!strcmp(what, "aliases")) bad = aliases(atoi(argv[2]));
    if (!strcmp(what, "group-id")) bad = group_id();
    if (!strcmp(what, "child-name")) bad = child_name();
    if (!strcmp(what, "qualified")) bad = qualified(1);
    if (!strcmp(what, "qualified-direct")) bad = qualified(0);
    if (!strcmp(what, "child-fails")) bad = child_fails();
    if (bad) fprintf(stderr, "rank %u: %s fails: %d\n", me.rank, what, bad);
    fence(0);
    PMIx_Finalize(NULL, 0);
    return bad != 0;
}
