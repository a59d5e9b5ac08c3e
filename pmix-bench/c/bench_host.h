/* The host of server_bench.c: a host module whose operations complete at once, and a
 * way to wait for callbacks of the library. */
#ifndef BENCH_HOST_H
#define BENCH_HOST_H

#include "bench_common.h"
#include <pmix.h>
#include <pmix_server.h>
#include <pthread.h>

#define PPN_REMOTE 64 /* ranks of each node that is not this one */
#define PUBTAB     65536

/* ---- waiting for a callback ---- */
typedef struct {
    pthread_mutex_t mu;
    pthread_cond_t cv;
    bool done;
    pmix_status_t st;
} waiter_t;
static void w_init(waiter_t *w)
{
    pthread_mutex_init(&w->mu, NULL);
    pthread_cond_init(&w->cv, NULL);
    w->done = false;
    w->st = PMIX_SUCCESS;
}
static void w_wake(pmix_status_t st, void *cbdata)
{
    waiter_t *w = cbdata;
    pthread_mutex_lock(&w->mu);
    w->done = true;
    w->st = st;
    pthread_cond_signal(&w->cv);
    pthread_mutex_unlock(&w->mu);
}
static pmix_status_t w_wait(waiter_t *w)
{
    pthread_mutex_lock(&w->mu);
    while (!w->done) {
        pthread_cond_wait(&w->cv, &w->mu);
    }
    pthread_mutex_unlock(&w->mu);
    return w->st;
}
static void die(const char *what, pmix_status_t rc)
{
    fprintf(stderr, "server_bench: %s: %s\n", what, PMIx_Error_string(rc));
    exit(1);
}

/* ---- host module: every operation completes at once, in the callback ---- */
static struct {
    long connected, finalized, fence, fence_bytes, dmodex, pub, look, unpub, conn, disc, query, ev;
} calls;

typedef struct pubent {
    struct pubent *next;
    pmix_proc_t proc;
    char key[PMIX_MAX_KEYLEN + 1];
    pmix_value_t val;
} pubent_t;
static pubent_t *pubtab[PUBTAB];
static uint32_t hkey(const char *k)
{
    uint32_t h = 2166136261u;
    for (; *k; k++) {
        h = (h ^ (uint8_t) *k) * 16777619u;
    }
    return h % PUBTAB;
}

static pmix_status_t h_connected(const pmix_proc_t *p, void *o, pmix_info_t info[], size_t ni,
                                 pmix_op_cbfunc_t cb, void *cd)
{
    (void) p, (void) o, (void) info, (void) ni, (void) cb, (void) cd;
    calls.connected++;
    return PMIX_OPERATION_SUCCEEDED;
}
static pmix_status_t h_finalized(const pmix_proc_t *p, void *o, pmix_op_cbfunc_t cb, void *cd)
{
    (void) p, (void) o, (void) cb, (void) cd;
    calls.finalized++;
    return PMIX_OPERATION_SUCCEEDED;
}
static pmix_status_t h_abort(const pmix_proc_t *p, void *o, int st, const char msg[],
                             pmix_proc_t procs[], size_t np, pmix_op_cbfunc_t cb, void *cd)
{
    (void) o, (void) procs, (void) np;
    fprintf(stderr, "server_bench: abort by rank %u: %d %s\n", p->rank, st, msg ? msg : "");
    cb(PMIX_SUCCESS, cd);
    return PMIX_SUCCESS;
}
static void free_cb(void *p)
{
    free(p);
}
static pmix_status_t h_fence(const pmix_proc_t procs[], size_t np, const pmix_info_t info[],
                             size_t ni, char *data, size_t nd, pmix_modex_cbfunc_t cb, void *cd)
{
    (void) procs, (void) np, (void) info, (void) ni;
    calls.fence++;
    calls.fence_bytes += (long) nd;
    /* a one-node "allgather": what came up goes down again */
    cb(PMIX_SUCCESS, data, nd, cd, free_cb, data);
    return PMIX_SUCCESS;
}
static pmix_status_t h_dmodex(const pmix_proc_t *p, const pmix_info_t info[], size_t ni,
                              pmix_modex_cbfunc_t cb, void *cd)
{
    (void) p, (void) info, (void) ni;
    calls.dmodex++;
    cb(PMIX_ERR_NOT_FOUND, NULL, 0, cd, NULL, NULL);
    return PMIX_SUCCESS;
}
static pmix_status_t h_publish(const pmix_proc_t *p, const pmix_info_t info[], size_t ni,
                               pmix_op_cbfunc_t cb, void *cd)
{
    (void) cb, (void) cd;
    calls.pub++;
    for (size_t i = 0; i < ni; i++) {
        if (0 == strncmp(info[i].key, "pmix.", 5)) {
            continue; /* a directive, not data */
        }
        uint32_t h = hkey(info[i].key);
        for (pubent_t *q = pubtab[h]; q; q = q->next) {
            if (0 == strcmp(q->key, info[i].key)) {
                return PMIX_ERR_DUPLICATE_KEY;
            }
        }
        pubent_t *e = calloc(1, sizeof *e);
        e->proc = *p;
        PMIX_LOAD_KEY(e->key, info[i].key);
        PMIx_Value_xfer(&e->val, &info[i].value);
        e->next = pubtab[h];
        pubtab[h] = e;
    }
    return PMIX_OPERATION_SUCCEEDED;
}
static pmix_status_t h_lookup(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                              size_t ni, pmix_lookup_cbfunc_t cb, void *cd)
{
    (void) p, (void) info, (void) ni;
    size_t nk = 0, found = 0;
    calls.look++;
    while (keys[nk]) {
        nk++;
    }
    pmix_pdata_t *pd = calloc(nk ? nk : 1, sizeof *pd);
    for (size_t i = 0; i < nk; i++) {
        for (pubent_t *q = pubtab[hkey(keys[i])]; q; q = q->next) {
            if (0 == strcmp(q->key, keys[i])) {
                pd[found].proc = q->proc;
                PMIX_LOAD_KEY(pd[found].key, q->key);
                pd[found].value = q->val; /* borrowed: the library packs it before it returns */
                found++;
                break;
            }
        }
    }
    cb(found == nk ? PMIX_SUCCESS : (found ? PMIX_ERR_PARTIAL_SUCCESS : PMIX_ERR_NOT_FOUND), pd,
       found, cd);
    free(pd);
    return PMIX_SUCCESS;
}
static pmix_status_t h_unpublish(const pmix_proc_t *p, char **keys, const pmix_info_t info[],
                                 size_t ni, pmix_op_cbfunc_t cb, void *cd)
{
    (void) p, (void) info, (void) ni, (void) cb, (void) cd;
    calls.unpub++;
    for (size_t i = 0; keys && keys[i]; i++) {
        for (pubent_t **q = &pubtab[hkey(keys[i])]; *q; q = &(*q)->next) {
            if (0 == strcmp((*q)->key, keys[i])) {
                pubent_t *e = *q;
                *q = e->next;
                PMIX_VALUE_DESTRUCT(&e->val);
                free(e);
                break;
            }
        }
    }
    return PMIX_OPERATION_SUCCEEDED;
}
static pmix_status_t h_connect(const pmix_proc_t procs[], size_t np, const pmix_info_t info[],
                               size_t ni, pmix_op_cbfunc_t cb, void *cd)
{
    (void) procs, (void) np, (void) info, (void) ni;
    calls.conn++;
    cb(PMIX_SUCCESS, cd);
    return PMIX_SUCCESS;
}
static pmix_status_t h_disconnect(const pmix_proc_t procs[], size_t np, const pmix_info_t info[],
                                  size_t ni, pmix_op_cbfunc_t cb, void *cd)
{
    (void) procs, (void) np, (void) info, (void) ni;
    calls.disc++;
    cb(PMIX_SUCCESS, cd);
    return PMIX_SUCCESS;
}
static pmix_status_t h_regev(pmix_status_t *codes, size_t nc, const pmix_info_t info[], size_t ni,
                             pmix_op_cbfunc_t cb, void *cd)
{
    (void) codes, (void) nc, (void) info, (void) ni, (void) cb, (void) cd;
    return PMIX_OPERATION_SUCCEEDED;
}
static pmix_status_t h_deregev(pmix_status_t *codes, size_t nc, pmix_op_cbfunc_t cb, void *cd)
{
    (void) codes, (void) nc, (void) cb, (void) cd;
    return PMIX_OPERATION_SUCCEEDED;
}
static pmix_status_t h_notify(pmix_status_t code, const pmix_proc_t *src, pmix_data_range_t range,
                              pmix_info_t info[], size_t ni, pmix_op_cbfunc_t cb, void *cd)
{
    (void) code, (void) src, (void) range, (void) info, (void) ni, (void) cb, (void) cd;
    calls.ev++; /* nobody outside this node to tell */
    return PMIX_OPERATION_SUCCEEDED;
}

/* answers are built once and lent to the library for every reply */
static pmix_info_t *ptable(long p)
{
    static struct {
        long p;
        pmix_info_t *i;
    } memo[8];
    char b[64];
    for (int k = 0; k < 8; k++) {
        if (memo[k].p == p) {
            return memo[k].i;
        }
        if (0 == memo[k].p) {
            pmix_data_array_t *a;
            PMIX_INFO_CREATE(memo[k].i, 1);
            PMIX_LOAD_KEY(memo[k].i->key, PMIX_QUERY_PROC_TABLE);
            PMIX_DATA_ARRAY_CREATE(a, (size_t) p, PMIX_PROC_INFO);
            memo[k].i->value.type = PMIX_DATA_ARRAY;
            memo[k].i->value.data.darray = a;
            pmix_proc_info_t *t = a->array;
            for (long r = 0; r < p; r++) {
                PMIX_LOAD_PROCID(&t[r].proc, "bench-table", (pmix_rank_t) r);
                snprintf(b, sizeof b, "node%05ld", r / PPN_REMOTE);
                t[r].hostname = strdup(b);
                t[r].executable_name = strdup("bench_application");
                t[r].pid = (pid_t) (1000 + r);
                t[r].exit_code = 0;
                t[r].state = PMIX_PROC_STATE_RUNNING;
            }
            memo[k].p = p;
            return memo[k].i;
        }
    }
    return NULL;
}
static pmix_status_t h_query(pmix_proc_t *p, pmix_query_t *q, size_t nq, pmix_info_cbfunc_t cb,
                             void *cd)
{
    static pmix_info_t *ns;
    (void) p;
    calls.query++;
    if (1 == nq && q[0].keys && q[0].keys[0]) {
        if (0 == strcmp(q[0].keys[0], PMIX_QUERY_NAMESPACES)) {
            if (NULL == ns) {
                PMIX_INFO_CREATE(ns, 1);
                PMIX_INFO_LOAD(ns, PMIX_QUERY_NAMESPACES, "bench-0,bench-table", PMIX_STRING);
            }
            cb(PMIX_SUCCESS, ns, 1, cd, NULL, NULL);
            return PMIX_SUCCESS;
        }
        if (0 == strcmp(q[0].keys[0], PMIX_QUERY_PROC_TABLE)) {
            long sz = 0;
            for (size_t i = 0; i < q[0].nqual; i++) {
                if (PMIX_CHECK_KEY(&q[0].qualifiers[i], PMIX_NSPACE)) {
                    sz = atol(q[0].qualifiers[i].value.data.string + strlen("bench-table."));
                }
            }
            if (sz > 0) {
                cb(PMIX_SUCCESS, ptable(sz), 1, cd, NULL, NULL);
                return PMIX_SUCCESS;
            }
        }
    }
    cb(PMIX_ERR_NOT_FOUND, NULL, 0, cd, NULL, NULL);
    return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
    .client_connected2 = h_connected,
    .client_finalized = h_finalized,
    .abort = h_abort,
    .fence_nb = h_fence,
    .direct_modex = h_dmodex,
    .publish = h_publish,
    .lookup = h_lookup,
    .unpublish = h_unpublish,
    .connect = h_connect,
    .disconnect = h_disconnect,
    .register_events = h_regev,
    .deregister_events = h_deregev,
    .notify_event = h_notify,
    .query = h_query,
};

#endif
