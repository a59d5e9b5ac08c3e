/* Rank 0 puts, publishes and passes as an argument a text that is not UTF-8, and puts large texts; rank 1 reads all that
 * rank 0 has put. One line "<what> ok" for each that comes back as it was. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define LATIN "/home/ren\xe9"
#define LARGE_TEXTS 5
#define LARGE (5 << 20)

static pmix_proc_t me;

static char *large(int number)
{
    char *text = malloc(LARGE + 1);
    memset(text, 'a' + number, LARGE);
    text[LARGE] = 0;
    return text;
}

static void check(pmix_status_t status, pmix_status_t expected, const char *what)
{
    if (expected != status && !(PMIX_SUCCESS == expected && PMIX_OPERATION_SUCCEEDED == status))
        printf("FAIL %s: %s\n", what, PMIx_Error_string(status));
}

static void put_text(const char *key, char *text)
{
    pmix_value_t value;
    value.type = PMIX_STRING;
    value.data.string = text;
    check(PMIx_Put(PMIX_GLOBAL, key, &value), PMIX_SUCCESS, key);
}

static void put_number(const char *key)
{
    pmix_value_t value;
    value.type = PMIX_UINT32;
    value.data.uint32 = 7;
    check(PMIx_Put(PMIX_GLOBAL, key, &value), PMIX_SUCCESS, key);
}

/* NULL if it is not there, or no text. */
static const char *get_text(const char *key)
{
    pmix_proc_t of = me;
    pmix_value_t *value = NULL;
    of.rank = 0;
    pmix_status_t status = PMIx_Get(&of, key, NULL, 0, &value);
    check(status, PMIX_SUCCESS, key);
    return PMIX_SUCCESS == status && PMIX_STRING == value->type ? value->data.string : NULL;
}

static void writes(void)
{
    pmix_info_t info;
    pmix_pdata_t data;
    pmix_app_t *app;
    char nspace[PMIX_MAX_NSLEN + 1] = "", key[16];
    put_number("first");
    put_text("latin", LATIN);
    put_number("last");
    for (int number = 0; number < LARGE_TEXTS; number++) {
        snprintf(key, sizeof(key), "large%d", number);
        put_text(key, large(number));
    }
    check(PMIx_Commit(), PMIX_SUCCESS, "commit");

    PMIX_INFO_LOAD(&info, "published", LATIN, PMIX_STRING);
    check(PMIx_Publish(&info, 1), PMIX_SUCCESS, "publish");
    PMIX_PDATA_CONSTRUCT(&data);
    strcpy(data.key, "published");
    check(PMIx_Lookup(&data, 1, NULL, 0), PMIX_SUCCESS, "lookup");
    if (PMIX_STRING == data.value.type && 0 == strcmp(LATIN, data.value.data.string)) printf("published ok\n");

    PMIX_APP_CREATE(app, 1);
    app->cmd = strdup("/bin/sh");
    app->argv = calloc(5, sizeof(char *));
    app->argv[0] = strdup("/bin/sh");
    app->argv[1] = strdup("-c");
    app->argv[2] = strdup("case $(printf %s \"$0\" | od -An -tx1) in *' 6e e9') echo argument ok;; esac");
    app->argv[3] = strdup(LATIN);
    app->maxprocs = 1;
    check(PMIx_Spawn(NULL, 0, app, 1, nspace), PMIX_SUCCESS, "spawn");
    PMIX_APP_FREE(app, 1);
}

static void reads(void)
{
    char key[16];
    const char *text = get_text("latin");
    get_text("first");
    get_text("last");
    if (NULL != text && 0 == strcmp(LATIN, text)) printf("latin ok\n");
    for (int number = 0; number < LARGE_TEXTS; number++) {
        snprintf(key, sizeof(key), "large%d", number);
        text = get_text(key);
        if (NULL != text && 0 == strcmp(large(number), text)) printf("%s ok\n", key);
    }
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (PMIX_SUCCESS != PMIx_Init(&me, NULL, 0)) return 1;
    if (0 == me.rank) writes();
    PMIx_Fence(NULL, 0, NULL, 0);
    if (1 == me.rank) reads();
    PMIx_Fence(NULL, 0, NULL, 0);
    return PMIX_SUCCESS == PMIx_Finalize(NULL, 0) ? 0 : 1;
}
