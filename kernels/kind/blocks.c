/* The kinds of the control ops over the KV pool: what firing logs and triggers see of them, and their invariants. */
#include "kernels/ops/blocks.h"
#include "kernels/op.h"

#include <string.h>

/* One decision a call. */
static uint32_t one_row(const void *args) { return (void)args, 1; }

/* A decision of one number: where it lies. */
#define WORD(name, member)                                                                                   \
    static size_t name##_bytes(const void *args, unsigned point)                                             \
    {                                                                                                        \
        (void)args;                                                                                          \
        return point == 0 ? sizeof(uint32_t) : 0;                                                            \
    }                                                                                                        \
    static const void *name##_get(const void *args, unsigned point, uint32_t r, void *scratch)               \
    {                                                                                                        \
        (void)point, (void)r, (void)scratch;                                                                 \
        return ((const struct iq_##name *)args)->member;                                                     \
    }                                                                                                        \
    static void name##_put(const void *args, unsigned point, uint32_t r, const void *bytes)                  \
    {                                                                                                        \
        (void)point, (void)r;                                                                                \
        memcpy(((const struct iq_##name *)args)->member, bytes, sizeof(uint32_t));                           \
    }
WORD(kv_alloc, block)
WORD(kv_evict, block)
WORD(kv_free, fate)
WORD(kv_land, landed)
WORD(kv_move, copied)

/* ---- kv_alloc ---- */

static const char *const alloc_fields[] = {"index", "free", "blocks", NULL};

static uint64_t alloc_field(const void *args, unsigned index)
{
    const struct iq_kv_alloc *a = args;
    const uint64_t value[] = {a->index, a->n_free, a->blocks};
    return value[index];
}

static int alloc_check(const void *args, struct iq_err *err)
{
    const struct iq_kv_alloc *a = args;
    uint32_t block = *a->block, i = 0;
    while (i < a->n_free && a->free[i] != block) i++;
    if (i == a->n_free)
        return iq_fail(err, IQ_MISMATCH, "request %u: block %u is handed out, but it is not free", a->request,
                       block);
    if (a->refs[block])
        return iq_fail(err, IQ_MISMATCH, "request %u: block %u is handed out while %u hold it", a->request,
                       block, a->refs[block]);
    return IQ_OK;
}

/* ---- kv_evict ---- */

static uint32_t idle(const struct iq_kv_evict *a)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->capacity; i++)
        n += !iq_digest_is_zero(a->entry[i].key) && !a->refs[a->entry[i].block];
    return n;
}

static const char *const evict_fields[] = {"idle", "blocks", NULL};

static uint64_t evict_field(const void *args, unsigned index)
{
    const struct iq_kv_evict *a = args;
    return index ? a->blocks : idle(a);
}

static int evict_check(const void *args, struct iq_err *err)
{
    const struct iq_kv_evict *a = args;
    const struct iq_prefix_entry *chosen = NULL;
    uint32_t block = *a->block, n = idle(a);
    if (block == UINT32_MAX && !n) return IQ_OK;
    if (block >= a->blocks)
        return iq_fail(err, IQ_MISMATCH, "request %u: no block is given up, but %u are idle", a->request, n);
    if (a->refs[block])
        return iq_fail(err, IQ_MISMATCH, "request %u: block %u is given up while %u hold it", a->request,
                       block, a->refs[block]);
    for (uint32_t i = 0; i < a->capacity; i++)
        if (!iq_digest_is_zero(a->entry[i].key) && a->entry[i].block == block) chosen = &a->entry[i];
    if (!chosen)
        return iq_fail(err, IQ_MISMATCH, "request %u: block %u is given up, but it is not cached", a->request,
                       block);
    for (uint32_t i = 0; i < a->capacity; i++) {
        const struct iq_prefix_entry *e = &a->entry[i];
        if (!iq_digest_is_zero(e->key) && !a->refs[e->block] && e->used < chosen->used)
            return iq_fail(err, IQ_MISMATCH, "request %u: block %u is given up, but %u was used before it",
                           a->request, block, e->block);
    }
    return IQ_OK;
}

/* ---- kv_free ---- */

static const char *const free_fields[] = {"refs", "cached", "cancelled", NULL};

static uint64_t free_field(const void *args, unsigned index)
{
    const struct iq_kv_free *a = args;
    const uint64_t value[] = {a->refs, a->cached, a->cancelled};
    return value[index];
}

static int free_check(const void *args, struct iq_err *err)
{
    static const char *const text[] = {"held", "cached", "free"};
    const struct iq_kv_free *a = args;
    uint32_t right = a->refs ? IQ_KV_HELD : a->cached ? IQ_KV_CACHED : IQ_KV_FREE;
    if (*a->fate == right) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH, "request %u: block %u becomes %s; %u hold it and it is %s: expected %s",
                   a->request, a->block, *a->fate > IQ_KV_FREE ? "nothing that there is" : text[*a->fate],
                   a->refs, a->cached ? "in the prefix table" : "in no table", text[right]);
}

/* ---- kv_land ---- */

static const char *const land_fields[] = {"blocks", "layers", "flying", NULL};

static uint64_t land_field(const void *args, unsigned index)
{
    const struct iq_kv_land *a = args;
    const uint64_t value[] = {a->blocks, a->layers, a->flying};
    return value[index];
}

static int land_check(const void *args, struct iq_err *err)
{
    const struct iq_kv_land *a = args;
    if (*a->landed == a->layers) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH, "request %u may run, but of its prefix %u of %u layers have landed",
                   a->request, *a->landed, a->layers);
}

/* ---- kv_move ---- */

static const char *const move_fields[] = {"from", "to", "row", NULL};

static uint64_t move_field(const void *args, unsigned index)
{
    const struct iq_kv_move *a = args;
    const uint64_t value[] = {a->from, a->to, a->row};
    return value[index];
}

static int move_check(const void *args, struct iq_err *err)
{
    const struct iq_kv_move *a = args;
    if (*a->copied == a->row) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH, "block %u to block %u: %u of the %u floats of a row are copied", a->from,
                   a->to, *a->copied, a->row);
}

#define KIND(op, prefix)                                                                                     \
    const struct iq_kind iq__kind_##op = {.name = #op,                                                       \
                                          .args_size = sizeof(struct iq_##op),                               \
                                          .rows = one_row,                                                   \
                                          .row_bytes = op##_bytes,                                           \
                                          .get = op##_get,                                                   \
                                          .put = op##_put,                                                   \
                                          .elem = sizeof(uint32_t),                                          \
                                          .fields = prefix##_fields,                                         \
                                          .field = prefix##_field,                                           \
                                          .check = prefix##_check}
KIND(kv_alloc, alloc);
KIND(kv_evict, evict);
KIND(kv_free, free);
KIND(kv_land, land);
KIND(kv_move, move);
