/* Made-up operands of the ops that take rows one by one: norms, sums, experts. */
#include "kernels/arith.h"
#include "kernels/vitro_parts.h"

/* ---- rmsnorm ---- */

enum { WIDTH_MAX = 1 << 20 };

static int norm_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    if (!s->n || s->n > WIDTH_MAX) return iq__vitro_refuse("rmsnorm", "expected n of 1 to 1048576", err);
    uint64_t floats = (uint64_t)s->rows * s->n;
    v->in = iq__vitro_input(v, floats, err);
    v->weights = v->in ? iq__vitro_reserve(v, s->n, sizeof *v->weights, err) : NULL;
    float *y = v->weights ? iq__vitro_reserve(v, floats, sizeof *y, err) : NULL;
    if (!y) return err->status;
    v->args.norm = (struct iq_rmsnorm){.rows = s->rows,
                                       .groups = 1,
                                       .n = s->n,
                                       .act = s->act,
                                       .eps = 1e-5f,
                                       .x = v->in,
                                       .weight = v->weights,
                                       .y = y,
                                       .ldx = s->n,
                                       .ldy = s->n};
    return IQ_OK;
}

/* Rows of sizes of their own: one that takes another's mean is far off. */
static void norm_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)exact, (void)call;
    for (uint32_t i = 0; i < v->shape.n; i++) v->weights[i] = 1.5f + iq__vitro_uniform(v);
    for (uint32_t r = 0; r < v->shape.rows; r++)
        for (uint32_t i = 0; i < v->shape.n; i++)
            v->in[(size_t)r * v->shape.n + i] = ldexpf(iq__vitro_uniform(v), (int)(r % 7) - 3);
}

static double norm_bound(struct iq__vitro *v, uint32_t r, uint32_t i, double *want)
{
    const struct iq_rmsnorm *a = &v->args.norm;
    const float *x = a->x + r * a->ldx;
    double sum = 0;
    for (uint32_t c = 0; c < a->n; c++) sum += (double)x[c] * (double)x[c];
    *want = (double)x[i] / sqrt(sum / a->n + (double)a->eps) * (double)a->weight[i];
    return iq__vitro_order_bound(a->n / 2.0 + 8, fabs(*want), *want,
                                 a->act); /* the root halves the sum's error */
}

/* ---- add ---- */

static int add_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t floats = (uint64_t)s->rows * s->n;
    if (!s->n || s->n > WIDTH_MAX) return iq__vitro_refuse("add", "expected n of 1 to 1048576", err);
    v->in = iq__vitro_input(v, 2 * floats, err);
    float *y = v->in ? iq__vitro_reserve(v, floats, sizeof *y, err) : NULL;
    if (!y) return err->status;
    v->args.add = (struct iq_add){.rows = s->rows,
                                  .n = s->n,
                                  .act = s->act,
                                  .a = v->in,
                                  .b = v->in + floats,
                                  .y = y,
                                  .lda = s->n,
                                  .ldb = s->n,
                                  .ldy = s->n};
    return IQ_OK;
}

static void add_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)call;
    for (size_t i = 0; i < 2 * (size_t)v->shape.rows * v->shape.n;
         i++) /* of sizes so unlike that sums are rounded */
        v->in[i] = exact ? (float)iq__vitro_integer(v, 100) : ldexpf(iq__vitro_uniform(v), (int)(i % 13) - 6);
}

static double add_bound(struct iq__vitro *v, uint32_t r, uint32_t i, double *want)
{
    const struct iq_add *a = &v->args.add;
    double p = a->a[r * a->lda + i], q = a->b[r * a->ldb + i];
    *want = p + q;
    return iq__vitro_order_bound(2, fabs(p) + fabs(q), *want, a->act);
}

/* ---- experts ---- */

static int experts_check(const struct iq_vitro_shape *s, const char *kind, struct iq_err *err)
{
    if (s->k && s->k <= s->experts && s->experts <= IQ_EXPERTS && s->k <= IQ_EXPERT_SLOTS) return IQ_OK;
    return iq__vitro_refuse(kind, "expected 1 <= k <= experts <= 1024, and k of at most 16", err);
}

static int route_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    IQ_TRY(experts_check(s, "route", err));
    v->in = iq__vitro_input(v, (uint64_t)s->rows * s->experts, err);
    uint32_t *expert = v->in ? iq__vitro_reserve(v, (uint64_t)s->rows * s->k, sizeof *expert, err) : NULL;
    float *weight = expert ? iq__vitro_reserve(v, (uint64_t)s->rows * s->k, sizeof *weight, err) : NULL;
    v->shuffled = weight ? iq__vitro_reserve(v, s->experts, sizeof *v->shuffled, err) : NULL;
    if (!v->shuffled) return err->status;
    v->args.route = (struct iq_route){.rows = s->rows,
                                      .experts = s->experts,
                                      .k = s->k,
                                      .renormalise = true,
                                      .logits = v->in,
                                      .ld = s->experts,
                                      .expert = expert,
                                      .weight = weight};
    return IQ_OK;
}

/* A permutation of n in v->shuffled. */
static void shuffle(struct iq__vitro *v, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint32_t j = iq__vitro_below(v, i + 1);
        v->shuffled[i] = v->shuffled[j];
        v->shuffled[j] = i;
    }
}

/* Distinct and a step apart; close to each other; some equal. */
static void route_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)exact;
    for (uint32_t r = 0; r < v->shape.rows; r++) {
        shuffle(v, v->shape.experts);
        for (uint32_t e = 0; e < v->shape.experts; e++) {
            float place = (float)v->shuffled[e];
            v->in[(size_t)r * v->shape.experts + e] = call == 0   ? place / 8
                                                      : call == 1 ? 1 + place * 0x1p-23f
                                                                  : floorf(place / 3);
        }
    }
}

static int dispatch_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t slots = (uint64_t)s->rows * s->k;
    IQ_TRY(experts_check(s, "moe_dispatch", err));
    v->shuffled = iq__vitro_reserve(v, slots, sizeof *v->shuffled, err);
    uint32_t *owner = v->shuffled ? iq__vitro_reserve(v, slots, sizeof *owner, err) : NULL;
    uint32_t *first = owner ? iq__vitro_reserve(v, s->experts + (uint64_t)1, sizeof *first, err) : NULL;
    uint32_t *list = first ? iq__vitro_reserve(v, slots, sizeof *list, err) : NULL;
    if (!list) return err->status;
    v->args.dispatch = (struct iq_moe_dispatch){.rows = s->rows,
                                                .experts = s->experts,
                                                .k = s->k,
                                                .expert = v->shuffled,
                                                .owner = owner,
                                                .first = first,
                                                .list = list};
    return IQ_OK;
}

/* k experts of each row, ascending: some are wanted far more often than others. */
static void choose_experts(struct iq__vitro *v)
{
    uint32_t k = v->shape.k, experts = v->shape.experts;
    for (uint32_t r = 0; r < v->shape.rows; r++)
        for (uint32_t s = 0, from = 0; s < k; s++) {
            uint32_t room = experts - (k - s) + 1 - from, e = from + iq__vitro_below(v, room);
            if (iq__vitro_below(v, 2)) e = from;
            v->shuffled[(size_t)r * k + s] = e;
            from = e + 1;
        }
}

static void dispatch_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)exact, (void)call;
    choose_experts(v);
}

static int exchange_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t slots = (uint64_t)s->rows * s->k, floats;
    IQ_TRY(experts_check(s, "all_to_all", err));
    if (!s->n || !s->ranks || s->experts % s->ranks || __builtin_mul_overflow(slots, (uint64_t)s->n, &floats))
        return iq__vitro_refuse("all_to_all", "expected n, and ranks that divide the experts", err);
    v->shuffled = iq__vitro_reserve(v, slots, sizeof *v->shuffled, err);
    v->in = v->shuffled ? iq__vitro_input(v, floats, err) : NULL;
    float *y = v->in ? iq__vitro_reserve(v, floats, sizeof *y, err) : NULL;
    if (!y) return err->status;
    v->args.exchange = (struct iq_all_to_all){.rows = s->rows,
                                              .n = s->n,
                                              .k = s->k,
                                              .experts = s->experts,
                                              .ranks = s->ranks,
                                              .x = v->in,
                                              .ldx = s->n,
                                              .owner = v->shuffled,
                                              .y = y};
    return IQ_OK;
}

/* One way, and back. */
static void exchange_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)exact;
    choose_experts(v);
    v->args.exchange.back = call == 1;
    for (size_t i = 0; i < (size_t)v->shape.rows * v->shape.k * v->shape.n; i++)
        v->in[i] = iq__vitro_uniform(v);
}

static int combine_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t slots = (uint64_t)s->rows * s->k, floats;
    IQ_TRY(experts_check(s, "combine", err));
    if (!s->n || __builtin_mul_overflow(slots, (uint64_t)s->n, &floats))
        return iq__vitro_refuse("combine", "expected n of at least 1", err);
    v->shuffled = iq__vitro_reserve(v, slots, sizeof *v->shuffled, err);
    v->in = v->shuffled ? iq__vitro_input(v, floats, err) : NULL;
    v->weights = v->in ? iq__vitro_reserve(v, slots, sizeof *v->weights, err) : NULL;
    float *y = v->weights ? iq__vitro_reserve(v, (uint64_t)s->rows * s->n, sizeof *y, err) : NULL;
    if (!y) return err->status;
    v->args.combine = (struct iq_combine){.rows = s->rows,
                                          .n = s->n,
                                          .k = s->k,
                                          .act = s->act,
                                          .x = v->in,
                                          .weight = v->weights,
                                          .owner = v->shuffled,
                                          .y = y,
                                          .ldy = s->n};
    return IQ_OK;
}

static void combine_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    size_t slots = (size_t)v->shape.rows * v->shape.k;
    (void)call;
    choose_experts(v);
    for (size_t i = 0; i < slots; i++)
        v->weights[i] = exact ? ldexpf(1, -(int)iq__vitro_below(v, 4)) : 1 + iq__vitro_uniform(v);
    for (size_t i = 0; i < slots * v->shape.n; i++)
        v->in[i] = exact ? (float)(8 * iq__vitro_integer(v, 100)) : iq__vitro_uniform(v);
}

static double combine_bound(struct iq__vitro *v, uint32_t r, uint32_t i, double *want)
{
    const struct iq_combine *a = &v->args.combine;
    double magnitude = 0;
    *want = 0;
    for (size_t at = (size_t)r * a->k; at < (r + (size_t)1) * a->k; at++) {
        double p = (double)a->weight[at] * (double)a->x[at * a->n + i];
        *want += p;
        magnitude += fabs(p);
    }
    return iq__vitro_order_bound(a->k + 1.0, magnitude, *want, a->act);
}

const struct iq__vitro_kind iq__vitro_rows[] = {
    {"rmsnorm", IQ_OP_FFN_NORM, 0, 2, norm_make, norm_fill, norm_bound, NULL, false},
    {"add", IQ_OP_FFN_ADD, 2, 1, add_make, add_fill, add_bound, NULL, false},
    {"route", IQ_OP_ROUTE, 3, 0, route_make, route_fill, NULL, NULL, true},
    {"moe_dispatch", IQ_OP_DISPATCH, 2, 0, dispatch_make, dispatch_fill, NULL, NULL, true},
    {"all_to_all", IQ_OP_EXPERT_SEND, 2, 0, exchange_make, exchange_fill, NULL, NULL, false},
    {"combine", IQ_OP_COMBINE, 2, 2, combine_make, combine_fill, combine_bound, NULL, false},
    {.kind = NULL},
};
