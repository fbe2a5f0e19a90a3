/* The kind prefix: what taps, firing logs and triggers see of it, and its invariants. */
#include "kernels/ops/prefix.h"
#include "kernels/op.h"

#include <string.h>

/* One decision a call. */
static uint32_t rows(const void *args) { return (void)args, 1; }

static size_t row_bytes(const void *args, unsigned point)
{
    return point == 0 ? ((const struct iq_prefix *)args)->wanted * sizeof(uint32_t) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)point, (void)r, (void)scratch;
    return ((const struct iq_prefix *)args)->blocks;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_prefix *a = args;
    (void)r;
    memcpy(a->blocks, bytes, row_bytes(args, point));
    *a->hits = 0;
    while (*a->hits < a->wanted && a->blocks[*a->hits] != UINT32_MAX) ++*a->hits;
}

static const char *const fields[] = {"tokens", "wanted", "hits", "capacity", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_prefix *a = args;
    const uint64_t value[] = {a->tokens, a->wanted, *a->hits, a->capacity};
    return value[index];
}

static bool holds(const struct iq_prefix *a, struct iq_digest key, uint32_t block)
{
    for (uint32_t i = 0; i < a->capacity; i++)
        if (a->entry[i].block == block && iq_digest_equal(a->entry[i].key, key)) return true;
    return false;
}

/* Each block that is handed out is in the table under the prompt's own key; behind the run there is
 * nothing. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_prefix *a = args;
    if (*a->hits > a->wanted)
        return iq_fail(err, IQ_MISMATCH, "request %u: %u hits, expected at most %u", a->request, *a->hits,
                       a->wanted);
    for (uint32_t i = 0; i < a->wanted; i++) {
        if (i < *a->hits && !holds(a, a->key[i], a->blocks[i]))
            return iq_fail(err, IQ_MISMATCH,
                           "request %u: block %u, handed out as number %u, is not cached "
                           "under the prompt's key",
                           a->request, a->blocks[i], i);
        if (i >= *a->hits && a->blocks[i] != UINT32_MAX)
            return iq_fail(err, IQ_MISMATCH, "request %u: block %u stands behind the run of %u hits",
                           a->request, a->blocks[i], *a->hits);
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_prefix = {.name = "prefix",
                                        .args_size = sizeof(struct iq_prefix),
                                        .rows = rows,
                                        .row_bytes = row_bytes,
                                        .get = get,
                                        .put = put,
                                        .elem = sizeof(uint32_t),
                                        .fields = fields,
                                        .field = field,
                                        .check = check};
