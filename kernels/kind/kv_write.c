/* The kind kv_write: what taps, firing logs and triggers see of it. */
#include "kernels/arith.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

#include <string.h>

static uint32_t rows(const void *args) { return ((const struct iq_kv_write *)args)->rows; }

static size_t row_bytes(const void *args, unsigned point)
{
    const struct iq_kv_write *a = args;
    return point < 2 ? (size_t)a->kv_heads * a->cache->head_dim * sizeof(float) : 0;
}

/* Where row r lives: its block, and its slot in it. */
static uint32_t place(const struct iq_kv_write *a, uint32_t r, uint32_t *slot)
{
    const struct iq_seq *s = a->seq;
    while (r >= s->first + s->rows) s++;
    uint32_t pos = s->pos + (r - s->first);
    *slot = pos % IQ_KV_BLOCK;
    return s->blocks[pos / IQ_KV_BLOCK];
}

/* Element (head, d) of a stored row, at K's stride (point 0) or V's (point 1). */
static float *element(const struct iq_kv_write *a, unsigned point, uint32_t block, uint32_t slot, uint32_t h,
                      uint32_t d)
{
    const struct iq_kv_layer *c = a->cache;
    size_t at = iq_kv_k_at(c, block, a->kv_head0 + h);
    return point == 0 ? c->k + at + (size_t)d * IQ_KV_BLOCK + slot
                      : c->v + at + (size_t)slot * c->head_dim + d;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_kv_write *a = args;
    uint32_t slot, block = place(a, r, &slot), dim = a->cache->head_dim;
    float *out = scratch;
    for (uint32_t h = 0; h < a->kv_heads; h++)
        for (uint32_t d = 0; d < dim; d++) out[(size_t)h * dim + d] = *element(a, point, block, slot, h, d);
    return out;
}

static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_kv_write *a = args;
    uint32_t slot, block = place(a, r, &slot), dim = a->cache->head_dim;
    const float *in = bytes;
    for (uint32_t h = 0; h < a->kv_heads; h++)
        for (uint32_t d = 0; d < dim; d++) *element(a, point, block, slot, h, d) = in[(size_t)h * dim + d];
}

/* blocks: of the cache; block_bytes, cache_bytes: of K, or of V, over all heads. */
static const char *const fields[] = {"kv_heads", "head_dim", "seqs",        "rows",        "ldk",
                                     "ldv",      "blocks",   "block_bytes", "cache_bytes", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_kv_write *a = args;
    uint64_t block = (uint64_t)a->cache->kv_heads * a->cache->head_dim * IQ_KV_BLOCK * sizeof(float);
    const uint64_t value[] = {
        a->kv_heads, a->cache->head_dim,      a->seqs, a->rows, a->ldk, a->ldv, a->cache->blocks,
        block,       a->cache->blocks * block};
    return value[index];
}

/* Where a row goes, in block, slot and bytes. The block tables lie where the op runs. */
static double value_block(const struct iq_site *site, const void *args, uint32_t r)
{
    uint32_t slot;
    (void)site;
    return place(args, r, &slot);
}
static double value_slot(const struct iq_site *site, const void *args, uint32_t r)
{
    (void)args;
    return site->row[r].pos % IQ_KV_BLOCK;
}
static double value_k_offset(const struct iq_site *site, const void *args, uint32_t r)
{
    const struct iq_kv_write *a = args;
    uint32_t slot, block = place(a, r, &slot);
    (void)site;
    return (double)(iq_kv_k_at(a->cache, block, a->kv_head0) + slot) * sizeof(float);
}

static const struct iq_value values[] = {
    {"block", "the KV block that the row goes to", IQ_VALUE_COUNT, false, true, value_block},
    {"slot", "its place in the block", IQ_VALUE_COUNT, false, false, value_slot},
    {"k_offset", "bytes from the cache's first K to the row's", IQ_VALUE_COUNT, false, true, value_k_offset},
    {0},
};

/* What was written can be read back. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_kv_write *a = args;
    uint32_t dim = a->cache->head_dim;
    for (uint32_t r = 0; r < a->rows; r++) {
        uint32_t slot, block = place(a, r, &slot);
        for (unsigned point = 0; point < 2; point++) {
            const float *in = point == 0 ? a->k + r * a->ldk : a->v + r * a->ldv;
            for (uint32_t i = 0; i < a->kv_heads * dim; i++)
                if (iq_f32_bits(in[i]) != iq_f32_bits(*element(a, point, block, slot, i / dim, i % dim)))
                    return iq_fail(err, IQ_MISMATCH,
                                   "%s of row %u, head %u, element %u: block %u slot %u holds other "
                                   "bits than were written",
                                   point == 0 ? "k" : "v", r, i / dim, i % dim, block, slot);
        }
    }
    return IQ_OK;
}

const struct iq_kind iq__kind_kv_write = {.name = "kv_write",
                                          .args_size = sizeof(struct iq_kv_write),
                                          .rows = rows,
                                          .row_bytes = row_bytes,
                                          .get = get,
                                          .put = put,
                                          .elem = sizeof(float),
                                          .fields = fields,
                                          .field = field,
                                          .values = values,
                                          .check = check};
