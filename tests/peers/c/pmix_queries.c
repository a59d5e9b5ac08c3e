/* A process that makes a group and asks for groups, then allocates a slot for a minute and asks how much of it is left. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int fail(const char *what, pmix_status_t status)
{
    fprintf(stderr, "%s: %s\n", what, PMIx_Error_string(status));
    return 3;
}

/* The value of a key, with a qualifier if there is one. */
static pmix_status_t ask(const char *key, const char *qualifier, const char *of, pmix_value_t **value)
{
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_status_t status;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, key);
    if (NULL != qualifier) {
        PMIX_QUERY_QUALIFIERS_CREATE(&query, 1);
        PMIX_INFO_LOAD(&query.qualifiers[0], qualifier, of, PMIX_STRING);
    }
    if (PMIX_SUCCESS != (status = PMIx_Query_info(&query, 1, &results, &count))) return status;
    if (1 != count || 0 != strcmp(results[0].key, key)) return PMIX_ERR_NOT_FOUND;
    *value = &results[0].value;
    return PMIX_SUCCESS;
}

static pmix_status_t groups(const pmix_proc_t *me)
{
    pmix_info_t *results = NULL;
    size_t count = 0;
    pmix_value_t *value;
    pmix_status_t status = PMIx_Group_construct("asked", me, 1, NULL, 0, &results, &count);
    if (PMIX_SUCCESS != status) return status;
    if (PMIX_SUCCESS != (status = ask(PMIX_QUERY_NUM_GROUPS, NULL, NULL, &value))) return status;
    if (PMIX_SIZE != value->type) return PMIX_ERR_TYPE_MISMATCH;
    printf("groups: %zu\n", value->data.size);
    if (PMIX_SUCCESS != (status = ask(PMIX_QUERY_GROUP_NAMES, NULL, NULL, &value))) return status;
    if (PMIX_DATA_ARRAY != value->type || PMIX_STRING != value->data.darray->type) return PMIX_ERR_TYPE_MISMATCH;
    for (size_t i = 0; i < value->data.darray->size; i++)
        printf("group: %s\n", ((char **) value->data.darray->array)[i]);
    status = ask(PMIX_QUERY_GROUP_MEMBERSHIP, PMIX_GROUP_ID, "asked", &value);
    if (PMIX_SUCCESS != status) return status;
    if (PMIX_DATA_ARRAY != value->type || PMIX_PROC != value->data.darray->type) return PMIX_ERR_TYPE_MISMATCH;
    const pmix_proc_t *members = value->data.darray->array;
    for (size_t i = 0; i < value->data.darray->size; i++) printf("member: %s:%u\n", members[i].nspace, members[i].rank);
    status = ask(PMIX_QUERY_GROUP_MEMBERSHIP, PMIX_GROUP_ID, "unknown", &value);
    printf("unknown: %s\n", PMIX_SUCCESS == status ? "found" : "not found");
    return PMIx_Group_destruct("asked", NULL, 0);
}

static pmix_status_t time_left(void)
{
    pmix_info_t info[2], *results = NULL;
    size_t count = 0;
    uint64_t cpus = 1;
    uint32_t seconds = 60;
    pmix_value_t *value;
    const char *id = NULL;
    PMIX_INFO_LOAD(&info[0], PMIX_ALLOC_NUM_CPUS, &cpus, PMIX_UINT64);
    PMIX_INFO_LOAD(&info[1], PMIX_ALLOC_TIME, &seconds, PMIX_UINT32);
    pmix_status_t status = PMIx_Allocation_request(PMIX_ALLOC_NEW, info, 2, &results, &count);
    if (PMIX_SUCCESS != status) return status;
    for (size_t i = 0; i < count; i++)
        if (0 == strcmp(results[i].key, PMIX_ALLOC_ID)) id = results[i].value.data.string;
    if (NULL == id) return PMIX_ERR_NOT_FOUND;
    if (PMIX_SUCCESS != (status = ask(PMIX_TIME_REMAINING, PMIX_ALLOC_ID, id, &value))) return status;
    if (PMIX_UINT32 != value->type) return PMIX_ERR_TYPE_MISMATCH;
    printf("time left: %s\n", value->data.uint32 > 0 && value->data.uint32 <= seconds ? "some" : "wrong");
    return PMIX_SUCCESS;
}

int main(void)
{
    pmix_proc_t me;
    pmix_status_t status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (PMIX_SUCCESS != (status = PMIx_Init(&me, NULL, 0))) return fail("init", status);
    if (PMIX_SUCCESS != (status = groups(&me))) return fail("groups", status);
    if (PMIX_SUCCESS != (status = time_left())) return fail("time", status);
    if (PMIX_SUCCESS != (status = PMIx_Finalize(NULL, 0))) return fail("finalize", status);
    printf("left\n");
    return 0;
}
