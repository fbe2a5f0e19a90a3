/* The kind attention: what taps, firing logs and triggers see of it. */
#include "kernels/arith.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

static uint32_t rows(const void *args) { return ((const struct iq_attention *)args)->rows; }

static struct iq_run at(const void *args, unsigned point)
{
    const struct iq_attention *a = args;
    return (struct iq_run){a->y, a->ldy, point == 0 ? (size_t)a->heads * a->cache->head_dim : 0};
}
IQ__FLOAT_ROWS(at)

static const char *const fields[] = {"heads",       "kv_heads",    "head_dim", "window",  "seqs",    "rows",
                                     "context_max", "context_min", "splits",   "ldq",     "ldy",     "blocks",
                                     "block_bytes", "q_bytes",     "y_bytes",  "q_align", "y_align", NULL};

/* context_max, context_min: the longest and the shortest context that a sequence of the call reaches; splits: chunks of
 * keys of the longest; blocks: of the cache; block_bytes: of K, or of V, in one block over all heads. */
static uint64_t field(const void *args, unsigned index)
{
    const struct iq_attention *a = args;
    uint64_t longest = 0, shortest = a->seqs ? UINT64_MAX : 0;
    for (uint32_t s = 0; s < a->seqs; s++) {
        uint64_t context = (uint64_t)a->seq[s].pos + a->seq[s].rows;
        if (context > longest) longest = context;
        if (context < shortest) shortest = context;
    }
    uint64_t n = (uint64_t)a->heads * a->cache->head_dim;
    const uint64_t value[] = {a->heads,
                              a->kv_heads,
                              a->cache->head_dim,
                              a->window,
                              a->seqs,
                              a->rows,
                              longest,
                              shortest,
                              (longest + IQ_KEY_CHUNK - 1) / IQ_KEY_CHUNK,
                              a->ldq,
                              a->ldy,
                              a->cache->blocks,
                              (uint64_t)a->cache->kv_heads * a->cache->head_dim * IQ_KV_BLOCK * sizeof(float),
                              iq__extent(a->rows, a->ldq, n),
                              iq__extent(a->rows, a->ldy, n),
                              iq__align_of(a->q),
                              iq__align_of(a->y)};
    return value[index];
}

const struct iq_kind iq__kind_attention = {.name = "attention",
                                           .args_size = sizeof(struct iq_attention),
                                           .rows = rows,
                                           .row_bytes = row_bytes,
                                           .get = get,
                                           .put = put,
                                           .runs = runs,
                                           .elem = sizeof(float),
                                           .fields = fields,
                                           .field = field};
