/* Made-up operands of attention and kv_write: a paged cache and up to three sequences of it, the middle one with several
 * rows. What no row may see (positions behind a row, the spare block 0) holds values as large as the rest. */
#include "kernels/arith.h"
#include "kernels/vitro_parts.h"

enum { HEADS_MAX = 1024, CONTEXT_MAX = 1 << 16 };

static size_t cache_floats(const struct iq__vitro *v)
{
    return (size_t)v->cache.blocks * v->cache.kv_heads * v->cache.head_dim * IQ_KV_BLOCK;
}

/* Block tables that no two sequences share, in no order; block 0 belongs to none. */
static void lay_blocks(struct iq__vitro *v, uint32_t per_seq, uint32_t seqs)
{
    uint32_t *table = v->shuffled, n = per_seq * seqs;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = iq__vitro_below(v, i + 1);
        table[i] = table[j];
        table[j] = i + 1;
    }
    for (uint32_t s = 0; s < seqs; s++) v->seq[s].blocks = table + (size_t)s * per_seq;
}

/* Rows and positions: the sequences end at places of their own, none behind the context. */
static void lay_rows(struct iq__vitro *v, uint32_t seqs)
{
    uint32_t rows = v->shape.rows, at = 0;
    for (uint32_t s = 0; s < seqs; s++) {
        uint32_t own = seqs == 1 ? rows : s == 1 ? rows - (seqs - 1) : 1, back = own + 7 * s;
        v->seq[s].first = at;
        v->seq[s].rows = own;
        v->seq[s].pos = v->shape.context > back ? v->shape.context - back : 0;
        at += own;
    }
}

static int cache_make(struct iq__vitro *v, uint32_t *seqs, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint32_t per_seq = s->context / IQ_KV_BLOCK + 1;
    if (!s->kv_heads || !s->head_dim || s->kv_heads > HEADS_MAX || s->head_dim > HEADS_MAX ||
        s->context < s->rows || s->context > CONTEXT_MAX)
        return iq__vitro_refuse("attention",
                                "expected heads, and a context of at least `rows` and at most 65536", err);
    *seqs = s->rows < IQ__VITRO_SEQS ? s->rows : IQ__VITRO_SEQS;
    v->cache =
        (struct iq_kv_layer){.blocks = per_seq * *seqs + 1, .kv_heads = s->kv_heads, .head_dim = s->head_dim};
    v->shuffled = iq__vitro_reserve(v, (uint64_t)per_seq * *seqs, sizeof *v->shuffled, err);
    v->cache.k = v->shuffled ? iq__vitro_reserve(v, cache_floats(v), sizeof(float), err) : NULL;
    v->cache.v = v->cache.k ? iq__vitro_reserve(v, cache_floats(v), sizeof(float), err) : NULL;
    if (!v->cache.v) return err->status;
    lay_blocks(v, per_seq, *seqs);
    lay_rows(v, *seqs);
    return IQ_OK;
}

/* One row decodes the first token behind its prompt, several are a prompt's last chunk; half of what lies before is cached. */
static void site_rows(const struct iq__vitro *v, struct iq_row *row)
{
    uint32_t seqs = v->shape.rows < IQ__VITRO_SEQS ? v->shape.rows : IQ__VITRO_SEQS;
    for (const struct iq_seq *s = v->seq; s < v->seq + seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++) {
            struct iq_row *r = &row[s->first + i];
            r->request = (uint32_t)(s - v->seq);
            r->pos = s->pos + i;
            r->context = r->pos + 1;
            r->phase = s->rows > 1 ? IQ_PREFILL : IQ_DECODE;
            r->prompt = s->rows > 1 ? s->pos + s->rows : s->pos;
            r->cached = s->pos / 2 / IQ_KV_BLOCK * IQ_KV_BLOCK;
        }
}

/* ---- attention ---- */

static int attention_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint32_t seqs = 0;
    if (!s->heads || s->heads > HEADS_MAX || !s->kv_heads || s->heads % s->kv_heads)
        return iq__vitro_refuse("attention", "expected heads that are a multiple of kv_heads", err);
    IQ_TRY(cache_make(v, &seqs, err));
    v->shape.n = s->heads * s->head_dim;
    uint64_t floats = (uint64_t)s->rows * v->shape.n;
    v->in = iq__vitro_input(v, floats, err);
    float *y = v->in ? iq__vitro_reserve(v, floats, sizeof *y, err) : NULL;
    v->chance = y ? iq__vitro_reserve(v, s->context, sizeof *v->chance, err) : NULL;
    if (!v->chance) return err->status;
    v->args.attention = (struct iq_attention){.rows = s->rows,
                                              .heads = s->heads,
                                              .kv_heads = s->kv_heads,
                                              .act = s->act,
                                              .scale = (float)(1 / sqrt((double)s->head_dim)),
                                              .q = v->in,
                                              .y = y,
                                              .ldq = v->shape.n,
                                              .ldy = v->shape.n,
                                              .cache = &v->cache,
                                              .seq = v->seq,
                                              .seqs = seqs};
    return IQ_OK;
}

static float *key_at(const struct iq__vitro *v, const struct iq_seq *s, uint32_t pos, uint32_t head)
{
    return v->cache.k + iq_kv_k_at(&v->cache, s->blocks[pos / IQ_KV_BLOCK], head) + pos % IQ_KV_BLOCK;
}
static const float *value_at(const struct iq__vitro *v, const struct iq_seq *s, uint32_t pos, uint32_t head)
{
    return v->cache.v + iq_kv_v_at(&v->cache, s->blocks[pos / IQ_KV_BLOCK], head) +
           (size_t)(pos % IQ_KV_BLOCK) * v->cache.head_dim;
}

/* Keys that all rows of a sequence see and that weigh 1, as many as a power of two; all others that a row sees weigh
 * exp(-large) = 0. Sums of weights and of weighted integers are exact then, and so is the division, first or last. What no row
 * may see would weigh 1. */
static void choose_keys(struct iq__vitro *v, const struct iq_seq *s, uint32_t head)
{
    uint32_t wanted = 1u << iq__vitro_below(v, 4), seen = s->pos + 1, found = 0;
    if (wanted > seen) wanted = 1;
    for (uint32_t tries = 0; found < wanted; tries++) {
        uint32_t pos = tries < 64 ? iq__vitro_below(v, seen) : tries - 64;
        float *k = key_at(v, s, pos, head);
        found += *k != 0;
        *k = 0;
    }
}

static void exact_keys(struct iq__vitro *v)
{
    const struct iq_attention *a = &v->args.attention;
    size_t line = (size_t)v->cache.head_dim * IQ_KV_BLOCK;
    for (size_t i = 0; i < cache_floats(v); i++) /* element 0 of each key: far below; the others: nothing */
        v->cache.k[i] = i % line < IQ_KV_BLOCK ? -4096.0f * (float)v->cache.head_dim : 0.0f;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t head = 0; head < a->kv_heads; head++) {
            uint32_t end = (v->shape.context / IQ_KV_BLOCK + 1) * IQ_KV_BLOCK;
            for (uint32_t pos = s->pos + s->rows; pos < end; pos++) *key_at(v, s, pos, head) = 0;
            choose_keys(v, s, head);
        }
}

static void attention_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    const struct iq_attention *a = &v->args.attention;
    size_t floats = (size_t)a->rows * v->shape.n, dim = v->cache.head_dim;
    v->seen = 0;
    for (size_t i = 0; i < floats; i++)
        v->in[i] = !exact ? iq__vitro_uniform(v) * (call ? 8.0f : 1.0f) : i % dim == 0 ? 1.0f : 0.0f;
    for (size_t i = 0; i < cache_floats(v); i++) {
        v->cache.k[i] = iq__vitro_uniform(v);
        v->cache.v[i] = exact ? (float)iq__vitro_integer(v, 8) : iq__vitro_uniform(v);
    }
    if (exact) exact_keys(v);
}

/* Chances of the keys of one row and head in double, and how far rounding can move a score. */
static uint32_t weigh(struct iq__vitro *v, uint32_t r, uint32_t head, const struct iq_seq **seq)
{
    const struct iq_attention *a = &v->args.attention;
    const struct iq_seq *s = a->seq;
    while (r >= s->first + s->rows) s++;
    uint32_t keys = s->pos + (r - s->first) + 1, dim = v->cache.head_dim,
             kv = head / (a->heads / a->kv_heads);
    uint64_t name = ((uint64_t)r << 32 | head) + 1;
    *seq = s;
    if (v->seen == name) return keys;
    const float *q = a->q + r * a->ldq + (size_t)head * dim;
    double most = -INFINITY, sum = 0, moved = 0;
    for (uint32_t j = 0; j < keys; j++) {
        const float *k = key_at(v, s, j, kv);
        double dot = 0, size = 0;
        for (uint32_t d = 0; d < dim; d++) {
            double p = (double)q[d] * (double)k[(size_t)d * IQ_KV_BLOCK];
            dot += p;
            size += fabs(p);
        }
        v->chance[j] = dot * (double)a->scale;
        most = fmax(most, v->chance[j]);
        moved = fmax(moved, (dim + 2) * 0x1p-24 * size * (double)a->scale);
    }
    for (uint32_t j = 0; j < keys; j++) sum += v->chance[j] = exp(v->chance[j] - most);
    for (uint32_t j = 0; j < keys; j++) v->chance[j] /= sum;
    v->spread = expm1(2 * moved) + (keys + 32) * 0x1p-24;
    v->seen = name;
    return keys;
}

/* Weights err by what their scores do, both above and below the division; then a sum over the keys. */
static double attention_bound(struct iq__vitro *v, uint32_t r, uint32_t i, double *want)
{
    const struct iq_attention *a = &v->args.attention;
    const struct iq_seq *s;
    uint32_t dim = v->cache.head_dim, head = i / dim, kv = head / (a->heads / a->kv_heads);
    uint32_t keys = weigh(v, r, head, &s);
    double magnitude = 0;
    *want = 0;
    for (uint32_t j = 0; j < keys; j++) {
        double term = v->chance[j] * (double)value_at(v, s, j, kv)[i % dim];
        *want += term;
        magnitude += fabs(term);
    }
    return iq__vitro_order_bound(keys, magnitude, *want, a->act) + 2 * v->spread * (magnitude + fabs(*want));
}

/* ---- kv_write ---- */

static int kv_write_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint32_t seqs = 0;
    IQ_TRY(cache_make(v, &seqs, err));
    v->shape.n = s->kv_heads * s->head_dim;
    v->in = iq__vitro_input(v, 2 * (uint64_t)s->rows * v->shape.n, err);
    if (!v->in) return err->status;
    v->args.kv_write = (struct iq_kv_write){.rows = s->rows,
                                            .kv_heads = s->kv_heads,
                                            .k = v->in,
                                            .v = v->in + (size_t)s->rows * v->shape.n,
                                            .ldk = v->shape.n,
                                            .ldv = v->shape.n,
                                            .cache = &v->cache,
                                            .seq = v->seq,
                                            .seqs = seqs};
    return IQ_OK;
}

static void kv_write_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)exact, (void)call;
    for (size_t i = 0; i < 2 * (size_t)v->shape.rows * v->shape.n; i++) v->in[i] = iq__vitro_uniform(v);
    for (size_t i = 0; i < cache_floats(v); i++) v->cache.k[i] = v->cache.v[i] = iq__vitro_uniform(v);
}

const struct iq__vitro_kind iq__vitro_kv[] = {
    {"attention", IQ_OP_ATTENTION, 2, 2, attention_make, attention_fill, attention_bound, site_rows, false},
    {"kv_write", IQ_OP_KV_WRITE, 2, 0, kv_write_make, kv_write_fill, NULL, site_rows, false},
    {.kind = NULL},
};
