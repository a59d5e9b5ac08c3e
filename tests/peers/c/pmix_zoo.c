/* Puts one value of each data type that the C library can put, fences with data, and compares the neighbour's copies.
 * The argument is the greatest type to put: older dialects know fewer. Run it with two ranks or more. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#define MAXV 80
static struct { char key[32]; pmix_value_t v; } zoo[MAXV];
static int nz = 0;
static pmix_value_t *add(const char *k, pmix_data_type_t t)
{
    snprintf(zoo[nz].key, sizeof zoo[nz].key, "zoo.%s", k);
    PMIX_VALUE_CONSTRUCT(&zoo[nz].v);
    zoo[nz].v.type = t;
    return &zoo[nz++].v;
}
static void fill(void)
{
    pmix_value_t *v;
    int i;
    add("bool", PMIX_BOOL)->data.flag = true;
    add("byte", PMIX_BYTE)->data.byte = 0xa5;
    add("string", PMIX_STRING)->data.string = strdup("caf\xc3\xa9");
    add("nullstr", PMIX_STRING)->data.string = NULL;
    add("size", PMIX_SIZE)->data.size = 1UL << 40;
    add("sizemax", PMIX_SIZE)->data.size = ~0UL;
    add("pid", PMIX_PID)->data.pid = 123456;
    add("int", PMIX_INT)->data.integer = -2;
    add("int8", PMIX_INT8)->data.int8 = -3;
    add("int16", PMIX_INT16)->data.int16 = -300;
    add("int32", PMIX_INT32)->data.int32 = -70000;
    add("int64", PMIX_INT64)->data.int64 = -5000000000L;
    add("int64min", PMIX_INT64)->data.int64 = (int64_t) 1 << 63;
    add("uint", PMIX_UINT)->data.uint = 4000000000U;
    add("uint8", PMIX_UINT8)->data.uint8 = 200;
    add("uint16", PMIX_UINT16)->data.uint16 = 60000;
    add("uint32", PMIX_UINT32)->data.uint32 = 4000000000U;
    add("uint64", PMIX_UINT64)->data.uint64 = 0x8000000000000001UL;
    add("float", PMIX_FLOAT)->data.fval = 1.5f;
    add("double", PMIX_DOUBLE)->data.dval = -2.25;
    v = add("timeval", PMIX_TIMEVAL); v->data.tv.tv_sec = 1700000000; v->data.tv.tv_usec = 999999;
    add("time", PMIX_TIME)->data.time = 1700000000;
    add("status", PMIX_STATUS)->data.status = PMIX_ERR_TIMEOUT;
    v = add("proc", PMIX_PROC); PMIX_PROC_CREATE(v->data.proc, 1);
    PMIX_LOAD_PROCID(v->data.proc, "other-ns", 7);
    v = add("bo", PMIX_BYTE_OBJECT); v->data.bo.bytes = malloc(5); memcpy(v->data.bo.bytes, "\0\1\2\3\4", 5); v->data.bo.size = 5;
    add("persist", PMIX_PERSIST)->data.persist = PMIX_PERSIST_SESSION;
    add("scope", PMIX_SCOPE)->data.scope = PMIX_GLOBAL;
    add("range", PMIX_DATA_RANGE)->data.range = PMIX_RANGE_SESSION;
    add("pstate", PMIX_PROC_STATE)->data.state = PMIX_PROC_STATE_RUNNING;
    v = add("pinfo", PMIX_PROC_INFO); PMIX_PROC_INFO_CREATE(v->data.pinfo, 1);
    PMIX_LOAD_PROCID(&v->data.pinfo->proc, "other-ns", 3); v->data.pinfo->hostname = strdup("h");
    v->data.pinfo->executable_name = strdup("exe"); v->data.pinfo->pid = 99; v->data.pinfo->state = 5;
    v = add("arr.u32", PMIX_DATA_ARRAY); PMIX_DATA_ARRAY_CREATE(v->data.darray, 3, PMIX_UINT32);
    for (i = 0; i < 3; i++) ((uint32_t *) v->data.darray->array)[i] = i * 1000;
    v = add("arr.str", PMIX_DATA_ARRAY); PMIX_DATA_ARRAY_CREATE(v->data.darray, 2, PMIX_STRING);
    ((char **) v->data.darray->array)[0] = strdup("a"); ((char **) v->data.darray->array)[1] = strdup("bb");
    v = add("arr.size", PMIX_DATA_ARRAY); PMIX_DATA_ARRAY_CREATE(v->data.darray, 2, PMIX_SIZE);
    ((size_t *) v->data.darray->array)[0] = 1; ((size_t *) v->data.darray->array)[1] = 300;
    v = add("arr.info", PMIX_DATA_ARRAY); PMIX_DATA_ARRAY_CREATE(v->data.darray, 2, PMIX_INFO);
    i = -9; PMIX_INFO_LOAD(&((pmix_info_t *) v->data.darray->array)[0], "k.int", &i, PMIX_INT);
    PMIX_INFO_LOAD(&((pmix_info_t *) v->data.darray->array)[1], "k.str", "s", PMIX_STRING);
    v = add("arr.proc", PMIX_DATA_ARRAY); PMIX_DATA_ARRAY_CREATE(v->data.darray, 1, PMIX_PROC);
    PMIX_LOAD_PROCID((pmix_proc_t *) v->data.darray->array, "ns2", 4);
    v = add("arr.empty", PMIX_DATA_ARRAY); PMIX_DATA_ARRAY_CREATE(v->data.darray, 0, PMIX_UNDEF);
    add("rank", PMIX_PROC_RANK)->data.rank = PMIX_RANK_WILDCARD;
    char *big = malloc(9001); memset(big, 'x', 9000); big[9000] = 0;
    add("bigstr", PMIX_STRING)->data.string = big; /* long enough to be compressed */
    add("adir", PMIX_ALLOC_DIRECTIVE)->data.adir = PMIX_ALLOC_EXTEND;
    v = add("envar", PMIX_ENVAR); PMIX_ENVAR_LOAD(&v->data.envar, "PATH", "/x", ':');
    v = add("coord", PMIX_COORD); v->data.coord = calloc(1, sizeof(pmix_coord_t));
    v->data.coord->view = PMIX_COORD_PHYSICAL_VIEW; v->data.coord->dims = 3;
    v->data.coord->coord = calloc(3, sizeof(uint32_t)); v->data.coord->coord[2] = 70000;
    add("jstate", PMIX_JOB_STATE)->data.jstate = PMIX_JOB_STATE_RUNNING;
    add("lstate", PMIX_LINK_STATE)->data.linkstate = PMIX_LINK_UP;
    add("loctype", PMIX_LOCTYPE)->data.locality = PMIX_LOCALITY_SHARE_NODE;
    add("devtype", PMIX_DEVTYPE)->data.devtype = PMIX_DEVTYPE_GPU;
    v = add("devdist", PMIX_DEVICE_DIST); PMIX_DEVICE_DIST_CREATE(v->data.devdist, 1);
    v->data.devdist->uuid = strdup("u"); v->data.devdist->osname = strdup("o");
    v->data.devdist->type = PMIX_DEVTYPE_NETWORK; v->data.devdist->mindist = 1; v->data.devdist->maxdist = 400;
    v = add("endpt", PMIX_ENDPOINT); PMIX_ENDPOINT_CREATE(v->data.endpoint, 1);
    v->data.endpoint->uuid = strdup("u"); v->data.endpoint->osname = strdup("o");
    v->data.endpoint->endpt.bytes = strdup("ep"); v->data.endpoint->endpt.size = 2;
    v = add("nspace", PMIX_PROC_NSPACE); PMIX_PROC_CREATE(v->data.proc, 1);
    PMIX_LOAD_NSPACE(v->data.proc->nspace, "just-a-ns");
}
int main(int argc, char **argv)
{
    int maxtype = argc > 1 ? atoi(argv[1]) : 1000; /* older dialects know fewer types */
    int k;
    pmix_proc_t me, peer;
    pmix_value_t *val;
    uint32_t size;
    int i, bad = 0, put = 0;
    pmix_status_t rc;
    bool t = true;
    pmix_info_t info;
    if (PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    fill();
    for (i = k = 0; i < nz; i++)
        if (zoo[i].v.type <= maxtype) zoo[k++] = zoo[i];
    nz = k;
    PMIX_LOAD_PROCID(&peer, me.nspace, PMIX_RANK_WILDCARD);
    PMIx_Get(&peer, PMIX_JOB_SIZE, NULL, 0, &val);
    size = val->data.uint32;
    for (i = 0; i < nz; i++) {
        rc = PMIx_Put(PMIX_GLOBAL, zoo[i].key, &zoo[i].v);
        if (PMIX_SUCCESS != rc) printf("%u put %s: %s\n", me.rank, zoo[i].key, PMIx_Error_string(rc));
        else put++;
    }
    rc = PMIx_Commit();
    if (PMIX_SUCCESS != rc) printf("commit %s\n", PMIx_Error_string(rc));
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &t, PMIX_BOOL);
    PMIx_Fence(NULL, 0, &info, 1);
    peer.rank = (me.rank + 1) % size;
    for (i = 0; i < nz; i++) {
        val = NULL;
        rc = PMIx_Get(&peer, zoo[i].key, NULL, 0, &val);
        if (PMIX_SUCCESS != rc || NULL == val) {
            printf("%u get %s: %s\n", me.rank, zoo[i].key, PMIx_Error_string(rc));
            bad++;
            continue;
        }
        if (val->type != zoo[i].v.type) {
            printf("%u %s type %d != %d\n", me.rank, zoo[i].key, val->type, zoo[i].v.type);
            bad++;
        } else if (PMIX_STRING == val->type && (NULL == val->data.string || NULL == zoo[i].v.data.string)) {
            if (val->data.string != zoo[i].v.data.string) { printf("%u %s null mismatch\n", me.rank, zoo[i].key); bad++; }
        } else if (PMIX_ENVAR == val->type || PMIX_PROC_NSPACE == val->type || PMIX_PROC_INFO == val->type
                   || PMIX_COORD == val->type || PMIX_DEVICE_DIST == val->type || PMIX_ENDPOINT == val->type
                   || PMIX_DATA_ARRAY == val->type || PMIX_PROC == val->type) {
            char *a = PMIx_Value_string(&zoo[i].v), *b = PMIx_Value_string(val);
            if ((a && b) ? 0 != strcmp(a, b) : a != b) { printf("%u %s differs: %s | %s\n", me.rank, zoo[i].key, a, b); bad++; }
        } else if (PMIX_EQUAL != PMIx_Value_compare(&zoo[i].v, val)) {
            char *a = PMIx_Value_string(&zoo[i].v), *b = PMIx_Value_string(val);
            if (!a || !b || strcmp(a, b)) { printf("%u %s differs: %s | %s\n", me.rank, zoo[i].key, a, b); bad++; }
        }
    }
    printf("%u: %d types put, %d bad\n", me.rank, put, bad);
    PMIx_Finalize(NULL, 0);
    return bad != 0;
}
