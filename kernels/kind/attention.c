/* The kind attention: what taps, firing logs and triggers see of it, and its invariant. */
#include "kernels/arith.h"
#include "kernels/kind/rows.h"
#include "kernels/kind/values.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

#include <math.h>

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

/* An output is a mean of the values that the row sees, with weights that are not negative: no element lies outside them, by
 * more than roundings explain, be it that values are kept in eight bits. Elements beside a value that is not finite are not judged. */
static int check_row(const struct iq_attention *a, const struct iq_seq *s, uint32_t i, struct iq_err *err)
{
    const struct iq_kv_layer *c = a->cache;
    uint32_t keys = s->pos + i + 1, first = a->window && keys > a->window ? keys - a->window : 0;
    const float *y = a->y + (s->first + i) * a->ldy;
    for (uint32_t e = 0; e < a->heads * c->head_dim; e++) {
        uint32_t head = a->kv_head0 + e / c->head_dim / (a->heads / a->kv_heads), d = e % c->head_dim;
        double low = INFINITY, high = -INFINITY, size = 0;
        for (uint32_t key = first; key < keys; key++) {
            size_t at = iq_kv_v_at(c, s->blocks[key / IQ_KV_BLOCK], head);
            double v = c->v[at + (size_t)(key % IQ_KV_BLOCK) * c->head_dim + d];
            low = fmin(low, v), high = fmax(high, v), size += fabs(v);
        }
        double room = fmax(fabs(low), fabs(high)) * 0x1p-3;
        if (!(size < 0x1p100)) continue;
        if (!((double)y[e] >= low - room && (double)y[e] <= high + room))
            return iq_fail(
                err, IQ_MISMATCH,
                "row %u head %u element %u: found %.9g, expected a mean of values from %.9g to %.9g",
                s->first + i, e / c->head_dim, d, (double)y[e], low, high);
    }
    return IQ_OK;
}

static int check(const void *args, struct iq_err *err)
{
    const struct iq_attention *a = args;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++) IQ_TRY(check_row(a, s, i, err));
    return IQ_OK;
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
                                           .field = field,
                                           .check = check};
