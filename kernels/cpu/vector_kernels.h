/* rmsnorm, rope, add, swiglu and temper, written once over the vector primitives; a file per instruction set includes
 * it after its vec_*.h. Lanes are elements: nothing but rmsnorm's sum of squares crosses them, and that sum has the
 * contract's 32 lanes whatever the width. */
#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/cpu/vec_variant.h"
#include "kernels/cpu/vector_split.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/vector.h"

/* Elements from which a second thread pays: about ten microseconds of work. */
enum { CHEAP_WORTH = 1 << 17, EXP_WORTH = 1 << 14, ROW_WORTH = 1 << 16, PIECE = 4096 };

/* y[i] = expr over i < n, where a and b are the vectors at i of p and q. */
#define EACH_PAIR(n, p, q, y, expr)                                                                          \
    do {                                                                                                     \
        uint32_t i_ = 0;                                                                                     \
        for (; i_ + VL <= (n); i_ += VL) {                                                                   \
            vf a = v_load((p) + i_), b = v_load((q) + i_);                                                   \
            v_store((y) + i_, expr);                                                                         \
        }                                                                                                    \
        if (i_ < (n)) {                                                                                      \
            vf a = v_load_part((p) + i_, (n)-i_), b = v_load_part((q) + i_, (n)-i_);                         \
            v_store_part((y) + i_, expr, (n)-i_);                                                            \
        }                                                                                                    \
    } while (0)

INLINE void add_run(uint32_t n, const float *p, const float *q, float *y, const uint32_t act)
{
    EACH_PAIR(n, p, q, y, v_act_round(v_add(a, b), act));
}

static void add_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_add *s = args;
    const float *p = s->a + r * s->lda + from, *q = s->b + r * s->ldb + from;
    FOR_EACH_ACT(s->act, add_run, to - from, p, q, s->y + r * s->ldy + from);
}

static int add(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_add *a = args;
    (void)site, (void)params, (void)state;
    iq__vector_split(x, a->rows, a->n, PIECE, CHEAP_WORTH, add_span, a);
    return IQ_OK;
}

INLINE vf silu(vf gate)
{
    vf minus = (vf)((vi)gate ^ 0x80000000u);
    return v_div(gate, v_add(v_set1(1.0f), v_exp(minus)));
}

INLINE void swiglu_run(uint32_t n, const float *gate, const float *up, float *y, const uint32_t act)
{
    EACH_PAIR(n, gate, up, y, v_act_round(v_mul(silu(a), b), act));
}

static void swiglu_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_swiglu *s = args;
    const float *gate = s->gate + r * s->ldg + from, *up = s->up + r * s->ldu + from;
    FOR_EACH_ACT(s->act, swiglu_run, to - from, gate, up, s->y + r * s->ldy + from);
}

static int swiglu(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    const struct iq_swiglu *a = args;
    (void)site, (void)params, (void)state;
    iq__vector_split(x, a->rows, a->n, PIECE, EXP_WORTH, swiglu_span, a);
    return IQ_OK;
}

static void temper_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_temper *s = args;
    const float *p = s->x + r * s->ldx + from, t = s->temperature[r];
    float *y = s->y + r * s->ldy + from;
    vf by = v_set1(t);
    if (t == 0.0f || t == 1.0f)
        EACH_PAIR(to - from, p, p, y, ((void)b, v_canonical(a)));
    else
        EACH_PAIR(to - from, p, p, y, ((void)b, v_canonical(v_div(a, by))));
}

static int temper(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    const struct iq_temper *a = args;
    (void)site, (void)params, (void)state;
    iq__vector_split(x, a->rows, a->n, PIECE, CHEAP_WORTH, temper_span, a);
    return IQ_OK;
}

/* Sum of squares by the vector rule: as many accumulators as make 32 lanes, then what is left in scalars. */
INLINE float sum_of_squares(const float *x, uint32_t n)
{
    enum { VECTORS = IQ_VECTOR_LANES / VL };
    float lane[IQ_VECTOR_LANES];
    vf acc[VECTORS];
    uint32_t i = 0;
    for (int v = 0; v < VECTORS; v++) acc[v] = v_set1(0);
    for (; i + IQ_VECTOR_LANES <= n; i += IQ_VECTOR_LANES)
        for (int v = 0; v < VECTORS; v++) {
            vf a = v_load(x + i + v * VL);
            acc[v] = v_fma(a, a, acc[v]);
        }
    for (int v = 0; v < VECTORS; v++) v_store(lane + v * VL, acc[v]);
    for (uint32_t l = 0; i + l < n; l++) lane[l] = IQ_FMAF(x[i + l], x[i + l], lane[l]);
    return iq_fold32(lane);
}

INLINE void norm_run(uint32_t n, const float *x, const float *weight, float *y, float r, const uint32_t act)
{
    vf by = v_set1(r);
    EACH_PAIR(n, x, weight, y, v_act_round(v_mul(v_mul(a, by), b), act));
}

/* A span is one group. */
static void rmsnorm_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_rmsnorm *s = args;
    const float *x = s->x + r * s->ldx + from;
    float by = 1.0f / IQ_SQRTF(sum_of_squares(x, to - from) / (float)s->n + s->eps);
    FOR_EACH_ACT(s->act, norm_run, to - from, x, s->weight, s->y + r * s->ldy + from, by);
}

static int rmsnorm(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_rmsnorm *a = args;
    (void)site, (void)params, (void)state;
    iq__vector_split(x, a->rows, a->groups * a->n, a->n, ROW_WORTH, rmsnorm_span, a);
    return IQ_OK;
}

struct rotation {
    vf cosine, sine;
};

INLINE vf first_of(struct rotation w, vf a, vf b, const uint32_t act)
{
    vf minus = (vf)((vi)v_mul(b, w.sine) ^ 0x80000000u);
    return v_act_round(v_fma(a, w.cosine, minus), act);
}

INLINE vf second_of(struct rotation w, vf a, vf b, const uint32_t act)
{
    return v_act_round(v_fma(b, w.cosine, v_mul(a, w.sine)), act);
}

INLINE void rotate_one(const struct iq_rope *s, const float *table, uint32_t i, const float *x, float *y,
                       const uint32_t act)
{
    uint32_t half = s->rotary / 2, first = s->interleaved ? 2 * i : i,
             second = s->interleaved ? 2 * i + 1 : i + half;
    float a = x[first], b = x[second], cosine = table[2 * i], sine = table[2 * i + 1];
    y[first] = iq_act_round(IQ_FMAF(a, cosine, -(b * sine)), act);
    y[second] = iq_act_round(IQ_FMAF(b, cosine, a * sine), act);
}

/* All heads of a row under VL pairs of the table at a time, which are loaded once. */
INLINE void rope_row(const struct iq_rope *s, const struct iq_rope_part *part, uint32_t r, const uint32_t act)
{
    uint32_t half = s->rotary / 2, dim = s->dim, i = 0;
    const float *table = s->table + (size_t)s->pos[r] * s->rotary, *row = part->x + r * part->ldx;
    float *out = part->y + r * part->ldy;
    for (; i + VL <= half; i += VL) {
        vf t0 = v_load(table + 2 * i), t1 = v_load(table + 2 * i + VL);
        struct rotation w = {v_even(t0, t1), v_odd(t0, t1)};
        for (uint32_t h = 0; h < part->heads; h++) {
            const float *x = row + (size_t)h * dim;
            float *y = out + (size_t)h * dim;
            if (s->interleaved) {
                vf x0 = v_load(x + 2 * i), x1 = v_load(x + 2 * i + VL), a = v_even(x0, x1), b = v_odd(x0, x1);
                vf p = first_of(w, a, b, act), q = second_of(w, a, b, act);
                v_store(y + 2 * i, v_zip_low(p, q));
                v_store(y + 2 * i + VL, v_zip_high(p, q));
            } else {
                vf a = v_load(x + i), b = v_load(x + half + i);
                v_store(y + i, first_of(w, a, b, act));
                v_store(y + half + i, second_of(w, a, b, act));
            }
        }
    }
    for (uint32_t h = 0; h < part->heads; h++) {
        const float *x = row + (size_t)h * dim;
        float *y = out + (size_t)h * dim;
        for (uint32_t j = i; j < half; j++) rotate_one(s, table, j, x, y, act);
        for (uint32_t j = s->rotary; j < dim; j++) y[j] = iq_act_round(x[j], act);
    }
}

static void rope_span(const void *args, uint32_t r, uint32_t from, uint32_t to)
{
    const struct iq_rope *s = args;
    (void)from, (void)to;
    for (int p = 0; p < 2; p++) FOR_EACH_ACT(s->act, rope_row, s, &s->part[p], r);
}

static int rope(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    const struct iq_rope *a = args;
    (void)site, (void)params, (void)state;
    uint32_t n = (a->part[0].heads + a->part[1].heads) * a->dim;
    iq__vector_split(x, a->rows, n, n, ROW_WORTH, rope_span, a);
    return IQ_OK;
}

#define VARIANTS(can)                                                                                        \
    VARIANT(add, .usable = can);                                                                             \
    VARIANT(swiglu, .usable = can);                                                                          \
    VARIANT(temper, .usable = can);                                                                          \
    VARIANT(rmsnorm, .usable = can);                                                                         \
    VARIANT(rope, .usable = can)
