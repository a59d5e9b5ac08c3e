/* A tool that asks its library which servers there are, and says one line for each:
 *
 *     server KEY=VALUE...
 *
 *     pmix_avail [URI]        attached to the server at the address, or to none */
#include <pmix_tool.h>
#include <stdio.h>
#include <string.h>

static void value(const pmix_info_t *info)
{
    const pmix_value_t *value = &info->value;
    switch (value->type) {
    case PMIX_STRING: printf(" %s=%s", info->key, value->data.string); break;
    case PMIX_PROC_RANK: printf(" %s=%u", info->key, value->data.rank); break;
    case PMIX_PID: printf(" %s=%d", info->key, value->data.pid); break;
    case PMIX_UINT32: printf(" %s=%u", info->key, value->data.uint32); break;
    default: printf(" %s of type %u", info->key, value->type);
    }
}

/* What is within arrays of arrays: each that has no arrays in it is a server. */
static void servers(const pmix_info_t *info, size_t count)
{
    int flat = 0 < count;
    for (size_t i = 0; i < count; i++)
        if (PMIX_DATA_ARRAY == info[i].value.type) flat = 0;
    if (flat) printf("server");
    for (size_t i = 0; i < count; i++) {
        const pmix_data_array_t *array = info[i].value.data.darray;
        if (flat)
            value(&info[i]);
        else if (PMIX_DATA_ARRAY == info[i].value.type && NULL != array && PMIX_INFO == array->type)
            servers(array->array, array->size);
    }
    if (flat) printf("\n");
}

int main(int argc, char **argv)
{
    pmix_proc_t me;
    pmix_info_t info;
    pmix_query_t query;
    pmix_info_t *results = NULL;
    size_t count = 0;
    bool yes = true;
    pmix_status_t status;
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (1 < argc)
        PMIX_INFO_LOAD(&info, PMIX_SERVER_URI, argv[1], PMIX_STRING);
    else
        PMIX_INFO_LOAD(&info, PMIX_TOOL_DO_NOT_CONNECT, &yes, PMIX_BOOL);
    status = PMIx_tool_init(&me, &info, 1);
    printf("init: %d\n", status);
    if (PMIX_SUCCESS != status) return 1;
    PMIX_QUERY_CONSTRUCT(&query);
    PMIX_ARGV_APPEND(status, query.keys, PMIX_QUERY_AVAIL_SERVERS);
    status = PMIx_Query_info(&query, 1, &results, &count);
    printf("query: %d, %zu results\n", status, count);
    if (PMIX_SUCCESS == status) servers(results, count);
    printf("finalize: %d\n", PMIx_tool_finalize());
    return 0;
}
