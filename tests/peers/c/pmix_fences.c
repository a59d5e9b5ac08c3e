/* How long fences of all ranks take: pmix_fences ROUNDS BYTES. With BYTES, each round puts so many more, collects them, and
   compares what the last rank has put. Each is preceded by a fence that is not counted. */
#include <pmix.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MUST(call) do { \
    pmix_status_t status = (call); \
    if (PMIX_SUCCESS != status) { fprintf(stderr, "%s: %s\n", #call, PMIx_Error_string(status)); exit(1); } \
} while (0)

static double micros(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return 1e6 * (double) time.tv_sec + (double) time.tv_nsec / 1e3;
}

static int ascending(const void *one, const void *other)
{
    double a = *(const double *) one, b = *(const double *) other;
    return (a > b) - (a < b);
}

static double median(double *times, int count)
{
    qsort(times, (size_t) count, sizeof *times, ascending);
    return count > 0 ? times[count / 2] : 0;
}

static void put(const char *key, char *bytes, size_t size)
{
    pmix_value_t value;
    PMIX_VALUE_CONSTRUCT(&value);
    value.type = PMIX_BYTE_OBJECT;
    value.data.bo.bytes = bytes;
    value.data.bo.size = size;
    MUST(PMIx_Put(PMIX_GLOBAL, key, &value));
    MUST(PMIx_Commit());
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 100, round;
    size_t size = argc > 2 ? (size_t) atoi(argv[2]) : 0;
    char *own = malloc(size + 1), *expected = malloc(size + 1), key[32];
    double *took = calloc((size_t) rounds, sizeof *took), first, last;
    bool yes = true;
    pmix_proc_t me, other;
    pmix_value_t *found;
    pmix_info_t collect;

    MUST(PMIx_Init(&me, NULL, 0));
    other = me;
    other.rank = PMIX_RANK_WILDCARD;
    MUST(PMIx_Get(&other, PMIX_JOB_SIZE, NULL, 0, &found));
    other.rank = found->data.uint32 - 1;
    PMIX_VALUE_RELEASE(found);
    memset(own, 'a' + (int) (me.rank % 26), size);
    memset(expected, 'a' + (int) (other.rank % 26), size);
    PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
    for (round = 0; round < rounds; round++) {
        snprintf(key, sizeof key, "key-%d", round);
        if (size > 0) put(key, own, size);
        MUST(PMIx_Fence(NULL, 0, NULL, 0));
        double begin = micros();
        MUST(PMIx_Fence(NULL, 0, size > 0 ? &collect : NULL, size > 0));
        took[round] = micros() - begin;
        if (size > 0) {
            MUST(PMIx_Get(&other, key, NULL, 0, &found));
            if (found->data.bo.size != size || 0 != memcmp(found->data.bo.bytes, expected, size)) {
                fprintf(stderr, "%s of rank %u is not what it has put\n", key, other.rank);
                return 1;
            }
            PMIX_VALUE_RELEASE(found);
        }
    }
    first = median(took, rounds / 4);
    last = median(took + rounds - rounds / 4, rounds / 4);
    if (0 == me.rank) {
        printf("fences took %.0f us at first, %.0f us at last, %.0f us in all\n", first, last, median(took, rounds));
    }
    PMIx_Finalize(NULL, 0);
    return 0;
}
