/* Made-up operands of top-k, matmul and all-reduce. */
#include "kernels/arith.h"
#include "kernels/shard.h"
#include "kernels/vitro_parts.h"

#include <math.h>
#include <stdlib.h>

enum { VOCAB_MAX = 1 << 22 };

/* ---- topk ---- */

static int topk_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t rows = s->rows;
    if (!s->k || s->k > s->vocab || s->vocab > VOCAB_MAX)
        return iq__vitro_refuse("topk", "expected 1 <= k <= vocab <= 4194304", err);
    v->in = iq__vitro_input(v, rows * s->vocab, err);
    uint32_t *ids = v->in ? iq__vitro_reserve(v, rows * s->k, sizeof *ids, err) : NULL;
    float *values = ids ? iq__vitro_reserve(v, rows * s->k, sizeof *values, err) : NULL;
    v->shuffled = values ? iq__vitro_reserve(v, s->vocab, sizeof *v->shuffled, err) : NULL;
    if (!v->shuffled) return err->status;
    v->args.topk = (struct iq_topk){.rows = s->rows,
                                    .vocab = s->vocab,
                                    .k = s->k,
                                    .logits = v->in,
                                    .ld = s->vocab,
                                    .ids = ids,
                                    .values = values,
                                    .shards = s->shards ? s->shards : 1};
    return IQ_OK;
}

static void shuffle(struct iq__vitro *v)
{
    for (uint32_t i = 0; i < v->shape.vocab; i++) {
        uint32_t j = iq__vitro_below(v, i + 1);
        v->shuffled[i] = v->shuffled[j];
        v->shuffled[j] = i;
    }
}

/* Distinct and so narrow that one coarse bin holds them all; the largest, 9 + 2^-18, lies above its
 * bfloat16 rounding. */
static float narrow(const struct iq__vitro *v, uint32_t place)
{
    return 9 + 0x1p-18f - (float)(v->shape.vocab - 1 - place) * 0x1p-20f;
}
static float wide(const struct iq__vitro *v, uint32_t place)
{
    return (float)((int)place - (int)(v->shape.vocab / 2));
}
/* Seven values, the cut falls among equals; both zeros are one of them. */
static float tied(const struct iq__vitro *v, uint32_t place)
{
    (void)v;
    int step = (int)(place % 7) - 5;
    return step == 0 && place % 2 ? -0.0f : (float)step;
}
/* Distinct, every power of two from 2^-10 to 2^10 and both signs. */
static float spread(const struct iq__vitro *v, uint32_t place)
{
    float f = ldexpf(1 + (float)place / (float)v->shape.vocab, (int)(place % 21) - 10);
    return place / 21 % 2 ? f : -f;
}

static void topk_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    static float (*const logit[])(const struct iq__vitro *, uint32_t) = {narrow, wide, tied, spread};
    (void)exact;
    for (uint32_t r = 0; r < v->shape.rows; r++) {
        shuffle(v);
        for (uint32_t i = 0; i < v->shape.vocab; i++)
            v->in[(size_t)r * v->shape.vocab + i] = logit[call](v, v->shuffled[i]);
    }
}

/* ---- matmul ---- */

enum { X_MOST = 15, W_MOST = 8 }; /* exact data: both survive bfloat16; 15 * 8 * k stays below 2^24 */
enum { SPARSE = 32 };             /* about so many terms that are not zero in a sparse row */

static int matmul_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    if (!s->n || !s->k || !s->unit || s->format < 0 || s->format >= IQ_FORMATS ||
        s->k % iq_format_info(s->format)->elements)
        return iq__vitro_refuse("matmul", "expected n, k and unit, and k in whole blocks of the format", err);
    if ((uint64_t)s->k * X_MOST * W_MOST >= 1 << 24)
        return iq_fail(err, IQ_LIMIT,
                       "in vitro: matmul: k is %u; above 139810 the sums of exact data leave 2^24", s->k);
    size_t packed = iq_matrix_bytes(s->format, s->n, s->k);
    uint64_t rows = (uint64_t)s->rows + s->padding;
    v->in = iq__vitro_input(v, rows * s->k, err);
    v->raw = v->in ? iq__vitro_reserve(v, s->n, iq_format_row_bytes(s->format, s->k), err) : NULL;
    v->weights = v->raw ? iq__vitro_reserve(v, (uint64_t)s->n * s->k, sizeof *v->weights, err) : NULL;
    void *panels = v->weights ? iq__vitro_reserve(v, packed, 1, err) : NULL;
    float *y = panels ? iq__vitro_reserve(v, rows * s->n, sizeof *y, err) : NULL;
    if (!y) return err->status;
    v->matrix.data = panels;
    v->args.matmul =
        (struct iq_matmul){.rows = (uint32_t)rows, .parts = 1, .act = s->act, .x = v->in, .ldx = s->k};
    v->args.matmul.part[0] = (struct iq_matmul_part){.w = &v->matrix, .y = y, .ldy = s->n};
    return IQ_OK;
}

static void put16(uint8_t *p, uint16_t h) { memcpy(p, &h, sizeof h); }

/* One element's value in formats without blocks. */
static float plain_weight(struct iq__vitro *v, bool exact)
{
    return exact ? (float)iq__vitro_integer(v, W_MOST - 1) : iq__vitro_uniform(v);
}

/* A block of 32: exact data has scale 1 and integers; random data a scale in [1/16, 1/8). */
static void quant_block(struct iq__vitro *v, bool exact, uint8_t *raw)
{
    enum { HALF_ONE = 0x3c00, HALF_MINUS_8 = 0xc800, SIXTEENTH = 0x2c00 };
    bool q8 = v->shape.format == IQ_Q8_0;
    size_t head = v->shape.format == IQ_Q4_1 ? 4 : 2;
    put16(raw, exact ? HALF_ONE : (uint16_t)(SIXTEENTH + iq__vitro_below(v, 1024)));
    if (head == 4)
        put16(raw + 2, exact ? HALF_MINUS_8 : (uint16_t)(0x8000 + 0x3800 + iq__vitro_below(v, 1024)));
    for (size_t i = head; i < iq_format_info(v->shape.format)->bytes; i++)
        raw[i] =
            q8 ? (uint8_t)iq__vitro_integer(v, exact ? W_MOST - 1 : 127) : (uint8_t)iq__vitro_below(v, 256);
}

static void fill_weights(struct iq__vitro *v, bool exact)
{
    const struct iq_format_info *f = iq_format_info(v->shape.format);
    uint8_t *raw = v->raw;
    for (uint64_t i = 0, n = (uint64_t)v->shape.n * v->shape.k / f->elements; i < n; i++, raw += f->bytes) {
        float w = f->elements == 1 ? plain_weight(v, exact) : 0;
        if (v->shape.format == IQ_F32)
            memcpy(raw, &w, sizeof w);
        else if (v->shape.format == IQ_F16)
            put16(raw, iq_f32_to_f16(w));
        else if (v->shape.format == IQ_BF16)
            put16(raw, iq_f32_to_bf16(w));
        else
            quant_block(v, exact, raw);
    }
    struct iq_matrix_source from = {.raw = v->raw,
                                    .row_bytes = iq_format_row_bytes(v->shape.format, v->shape.k)};
    void *panels = (void *)(uintptr_t)v->matrix.data;
    iq_matrix_pack(&v->matrix, v->shape.format, v->shape.n, v->shape.k, v->shape.unit, &from, panels, NULL);
    for (uint32_t o = 0; o < v->shape.n; o++)
        iq_matrix_row(&v->matrix, o, v->weights + (size_t)o * v->shape.k);
}

/* Random call 0 is dense; call 1 sparse, where the bound is tight: zeros are added without error. */
static void matmul_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    size_t n = (size_t)v->shape.rows * v->shape.k;
    fill_weights(v, exact);
    for (size_t i = 0; i < n; i++) {
        bool zero = !exact && call == 1 && iq__vitro_below(v, v->shape.k) >= SPARSE;
        v->in[i] = exact ? (float)iq__vitro_integer(v, X_MOST) : zero ? 0 : iq__vitro_uniform(v);
    }
    for (size_t i = 0; i < (size_t)v->shape.padding * v->shape.k; i++)
        v->in[n + i] = 1e6f; /* what steps before left */
}

double iq__vitro_order_bound(double terms, double magnitude, double want, uint32_t act)
{
    double sum = terms * 0x1p-24 / (1 - terms * 0x1p-24) * magnitude, result = fabs(want) + sum;
    if (act == IQ_ACT_BF16) return sum + result * 0x1p-8;
    if (act == IQ_ACT_F16) return sum + result * 0x1p-11 + 0x1p-25;
    return sum;
}

static double matmul_bound(struct iq__vitro *v, uint32_t r, uint32_t i, double *want)
{
    const float *x = v->in + (size_t)r * v->shape.k, *w = v->weights + (size_t)i * v->shape.k;
    double sum = 0, magnitude = 0, terms = 0;
    for (uint32_t c = 0; c < v->shape.k; c++) {
        double p = (double)x[c] * (double)w[c];
        sum += p;
        magnitude += fabs(p);
        terms += p != 0;
    }
    *want = sum;
    /* The doubles' own rounding is 2^-29 of the bound: one more term covers it. */
    return iq__vitro_order_bound(terms + 1, magnitude, sum, v->shape.act);
}

/* ---- all_reduce ---- */

static int reduce_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    struct iq_shard shard[IQ_SHARD_RANKS];
    uint32_t pieces = 0;
    if (!s->n) return iq__vitro_refuse("all_reduce", "expected n of at least 1", err);
    IQ_TRY(iq_shard_plan(s->units, s->ranks, "units in vitro", shard, err));
    for (uint32_t rank = 0; rank < s->ranks; rank++) pieces += shard[rank].nodes;
    if (pieces > IQ_REDUCE_PIECES)
        return iq__vitro_refuse("all_reduce", "more pieces than an all-reduce takes", err);
    uint64_t each = (uint64_t)s->rows * s->n;
    v->in = iq__vitro_input(v, each * pieces, err);
    float *y = v->in ? iq__vitro_reserve(v, each, sizeof *y, err) : NULL;
    if (!y) return err->status;
    v->args.reduce = (struct iq_all_reduce){.rows = s->rows,
                                            .n = s->n,
                                            .units = s->units,
                                            .pieces = pieces,
                                            .act = s->act,
                                            .piece = v->piece,
                                            .y = y,
                                            .ldy = s->n};
    for (uint32_t rank = 0, p = 0; rank < s->ranks; rank++)
        for (uint32_t i = 0; i < shard[rank].nodes; i++, p++)
            v->piece[p] = (struct iq_piece){.unit = shard[rank].node[i].unit,
                                            .units = shard[rank].node[i].units,
                                            .rank = rank,
                                            .x = v->in + p * each,
                                            .ldx = s->n};
    return IQ_OK;
}

static void reduce_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    enum { MOST = 1000 }; /* times 256 pieces is below 2^24 */
    size_t n = (size_t)v->shape.rows * v->shape.n * v->args.reduce.pieces;
    /* Every call draws on, so no two hold the same data. Random call 2 has sizes so unlike that sums are rounded. */
    for (size_t i = 0; i < n; i++)
        v->in[i] = exact ? (float)iq__vitro_integer(v, MOST)
                         : ldexpf(iq__vitro_uniform(v), call == 2 ? -(int)(i % 13) : 0);
}

static double reduce_bound(struct iq__vitro *v, uint32_t r, uint32_t i, double *want)
{
    const struct iq_all_reduce *a = &v->args.reduce;
    double sum = 0, magnitude = 0;
    for (uint32_t p = 0; p < a->pieces; p++) {
        double x = a->piece[p].x[r * a->piece[p].ldx + i];
        sum += x;
        magnitude += fabs(x);
    }
    *want = sum;
    return iq__vitro_order_bound(a->pieces, magnitude, sum, a->act);
}

const struct iq__vitro_kind iq__vitro_sums[] = {
    {"topk", IQ_OP_TOPK, 4, 0, topk_make, topk_fill, NULL, NULL, true},
    {"matmul", IQ_OP_DOWN, 2, 2, matmul_make, matmul_fill, matmul_bound, NULL, false},
    {"all_reduce", IQ_OP_FFN_REDUCE, 3, 3, reduce_make, reduce_fill, reduce_bound, NULL, false},
    {.kind = NULL},
};
