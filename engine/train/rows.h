/* The ops that work element by element or row by row, written once: included by the reference and by the file of each
 * instruction set. They hold no cross-lane step that a compiler may reorder, so that an instruction set changes their
 * speed and no bit. */
#include "engine/train/ops.h"
#include "engine/train/split.h"
#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/sum_plan.h"

#include <string.h>

enum { BLOCK = IQ_TRAIN_SQUARES_BLOCK, COLUMNS = 32, LEVELS = 34 /* of a tree over at most 2^32 units */ };

static inline size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The vector rule of a[i] * b[i]. */
static float fold_products(const float *a, const float *b, uint32_t n)
{
    float lane[IQ_VECTOR_LANES] = {0};
    uint32_t i = 0;
    for (; i + IQ_VECTOR_LANES <= n; i += IQ_VECTOR_LANES)
        for (uint32_t l = 0; l < IQ_VECTOR_LANES; l++) lane[l] = IQ_FMAF(a[i + l], b[i + l], lane[l]);
    for (uint32_t l = 0; i + l < n; l++) lane[l] = IQ_FMAF(a[i + l], b[i + l], lane[l]);
    return iq_fold32(lane);
}

/* ---- norm_back ---- */

struct norm_work {
    const struct iq_train_norm_back *a;
    const struct iq__sum_step *step;
    uint32_t steps;
    float *root;  /* (rows) 1 / sqrt(mean(x^2) + eps) */
    float *stack; /* (levels, n) */
};

static void norm_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct norm_work *s = ctx;
    const struct iq_train_norm_back *a = s->a;
    (void)part;
    for (size_t r = begin; r < end; r++) {
        const float *x = a->x + r * a->n, *dy = a->dy + r * a->n;
        float *dx = a->dx + r * a->n, lane[IQ_VECTOR_LANES] = {0};
        float root = 1.0f / IQ_SQRTF(fold_products(x, x, a->n) / (float)a->n + a->eps);
        s->root[r] = root;
        for (uint32_t i = 0; i < a->n; i += IQ_VECTOR_LANES)
            for (uint32_t l = 0; l < least(IQ_VECTOR_LANES, a->n - i); l++)
                lane[l] = IQ_FMAF(dy[i + l] * a->w[i + l], x[i + l] * root, lane[l]);
        float c = iq_fold32(lane) / (float)a->n;
        for (uint32_t i = 0; i < a->n; i++)
            dx[i] = dx[i] + root * IQ_FMAF(-(x[i] * root), c, dy[i] * a->w[i]);
    }
}

/* Items are groups of columns; each has its own part of the stack's rows. */
static void norm_columns(const void *ctx, size_t begin, size_t end, int part)
{
    const struct norm_work *s = ctx;
    const struct iq_train_norm_back *a = s->a;
    const size_t c0 = begin * COLUMNS, n = least(end * COLUMNS, a->n) - c0;
    (void)part;
    for (uint32_t i = 0; i < s->steps; i++) {
        const struct iq__sum_step *step = &s->step[i];
        float *top = s->stack + step->depth * (size_t)a->n + c0;
        memset(top, 0, n * sizeof *top);
        for (size_t r = step->k0; r < (size_t)step->k0 + step->kc; r++) {
            const float *x = a->x + r * a->n + c0, *dy = a->dy + r * a->n + c0, root = s->root[r];
            for (size_t c = 0; c < n; c++) top[c] = IQ_FMAF(dy[c], x[c] * root, top[c]);
        }
        for (uint32_t p = 0; p < step->pops; p++, top -= a->n)
            for (size_t c = 0; c < n; c++) top[c - a->n] = top[c - a->n] + top[c];
    }
    memcpy(a->dw + c0, s->stack + c0, n * sizeof *a->dw);
}

static int norm_back(struct iq_exec *x, const struct iq_train_norm_back *a)
{
    struct norm_work s = {.a = a, .steps = iq__sum_steps(a->rows, a->unit)};
    size_t stack = (size_t)iq__sum_levels(a->rows, a->unit) * a->n;
    struct iq__sum_step *step =
        iq_exec_scratch(x, s.steps * sizeof *step + (a->rows + stack) * sizeof *s.root);
    if (!step) return IQ_MEMORY;
    iq__sum_plan(a->rows, a->unit, step);
    s.step = step;
    s.root = (float *)(step + s.steps);
    s.stack = s.root + a->rows;
    iq__train_split(x, a->rows, 0.5 * a->n, norm_rows, &s);
    iq__train_split(x, (a->n + COLUMNS - 1) / COLUMNS, 4.0 * a->rows, norm_columns, &s);
    return IQ_OK;
}

/* ---- rope_back ---- */

static void rope_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_rope_back *a = ctx;
    const uint32_t half = a->dim / 2;
    (void)part;
    for (size_t r = begin; r < end; r++)
        for (uint32_t h = 0; h < a->heads; h++) {
            const float *table = a->table + r % a->unit * a->dim;
            float *p = a->dx + r * a->ld + (size_t)h * a->dim, *q = p + half;
            for (uint32_t i = 0; i < half; i++) {
                float cosine = table[2 * i], sine = table[2 * i + 1], u = p[i], v = q[i];
                p[i] = IQ_FMAF(u, cosine, v * sine);
                q[i] = IQ_FMAF(v, cosine, -(u * sine));
            }
        }
}

static int rope_back(struct iq_exec *x, const struct iq_train_rope_back *a)
{
    iq__train_split(x, a->rows, (double)a->heads * a->dim, rope_rows, a);
    return IQ_OK;
}

/* ---- residual ---- */

static void residual_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_residual *a = ctx;
    const uint32_t below = (uint32_t)(a->p * 0x1p32f);
    const float scale = 1.0f / (1.0f - a->p);
    (void)part;
    for (size_t r = begin; r < end; r++) {
        const float *x = a->x ? a->x + r * a->n : NULL, *b = a->b + r * a->n;
        float *y = a->y + r * a->n;
        if (a->p > 0.0f) {
            uint64_t at = (a->sequence + r / a->unit) << 32 | r % a->unit;
            uint64_t place = (uint64_t)a->step << 32 | (uint64_t)a->site << 20;
            struct iq_philox draw = {0};
            for (uint32_t i = 0; i < a->n; i++) {
                if (i % 4 == 0) draw = iq_philox(a->seed, place | i / 4, at);
                bool keep = draw.v[i % 4] >= below;
                if (x)
                    y[i] = keep ? x[i] + b[i] * scale : x[i];
                else
                    y[i] = keep ? b[i] * scale : 0.0f;
            }
        } else if (x) {
            for (uint32_t i = 0; i < a->n; i++) y[i] = x[i] + b[i];
        } else {
            memcpy(y, b, a->n * sizeof *y);
        }
    }
}

static int residual(struct iq_exec *x, const struct iq_train_residual *a)
{
    iq__train_split(x, a->rows, (a->p > 0.0f ? 8.0 : 0.3) * a->n, residual_rows, a);
    return IQ_OK;
}

/* ---- embed_back ---- */

struct embed_work {
    const struct iq_train_embed_back *a;
    uint32_t *first, *order; /* rows of token v: order[first[v] .. first[v + 1]), ascending */
    float *stacks;           /* (threads, LEVELS, n) */
};

static void sum_token(const struct embed_work *s, size_t v, float *stack)
{
    const struct iq_train_embed_back *a = s->a;
    uint32_t i = s->first[v], end = s->first[v + 1], sequences = a->rows / a->unit, depth = 0;
    for (uint32_t q = 0; q < sequences; q++) {
        float *top = stack + depth++ * (size_t)a->n;
        memset(top, 0, a->n * sizeof *top);
        for (; i < end && s->order[i] / a->unit == q; i++)
            for (uint32_t c = 0; c < a->n; c++) top[c] = top[c] + a->dx[s->order[i] * (size_t)a->n + c];
        for (uint32_t p = iq__nodes_ending_at(q, sequences); p; p--, depth--, top -= a->n)
            for (uint32_t c = 0; c < a->n; c++) (top - a->n)[c] = (top - a->n)[c] + top[c];
    }
    memcpy(a->dtable + v * a->n, stack, a->n * sizeof *stack);
}

static void embed_tokens(const void *ctx, size_t begin, size_t end, int part)
{
    const struct embed_work *s = ctx;
    const struct iq_train_embed_back *a = s->a;
    for (size_t v = begin; v < end; v++)
        if (s->first[v] == s->first[v + 1])
            memset(a->dtable + v * a->n, 0, a->n * sizeof *a->dtable);
        else
            sum_token(s, v, s->stacks + (size_t)part * LEVELS * a->n);
}

static int embed_back(struct iq_exec *x, const struct iq_train_embed_back *a)
{
    size_t stacks = (size_t)iq_pool_threads(x->pool) * LEVELS * a->n, index = (size_t)a->vocab + 2;
    struct embed_work s = {.a = a,
                           .stacks = iq_exec_scratch(x, (stacks + index + a->rows) * sizeof(uint32_t))};
    if (!s.stacks) return IQ_MEMORY;
    /* Counted one place ahead, so that filling `order` moves each start to where it belongs. */
    uint32_t *count = (uint32_t *)(s.stacks + stacks);
    s.first = count;
    s.order = count + index;
    memset(count, 0, index * sizeof *count);
    for (uint32_t r = 0; r < a->rows; r++) count[a->ids[r] + 2]++;
    for (size_t v = 2; v < index; v++) count[v] += count[v - 1];
    for (uint32_t r = 0; r < a->rows; r++) s.order[count[a->ids[r] + 1]++] = r;
    iq__train_split(x, a->vocab, 0.3 * a->n * (double)a->rows / a->unit, embed_tokens, &s);
    return IQ_OK;
}

/* ---- squares, add: over blocks of BLOCK elements ---- */

static inline size_t blocks(size_t n) { return (n + BLOCK - 1) / BLOCK; }

struct squares_work {
    const struct iq_train_squares *a;
    double *sums; /* of each block */
};

static void squares_blocks(const void *ctx, size_t begin, size_t end, int part)
{
    const struct squares_work *s = ctx;
    (void)part;
    for (size_t b = begin; b < end; b++) {
        const float *x = s->a->x + b * BLOCK;
        size_t n = least(BLOCK, s->a->n - b * BLOCK), i = 0;
        double lane[IQ_VECTOR_LANES] = {0};
        for (; i + IQ_VECTOR_LANES <= n; i += IQ_VECTOR_LANES)
            for (size_t l = 0; l < IQ_VECTOR_LANES; l++)
                lane[l] = IQ_FMA((double)x[i + l], (double)x[i + l], lane[l]);
        for (size_t l = 0; i + l < n; l++) lane[l] = IQ_FMA((double)x[i + l], (double)x[i + l], lane[l]);
        for (int half = IQ_VECTOR_LANES / 2; half; half /= 2)
            for (int l = 0; l < half; l++) lane[l] = lane[l] + lane[l + half];
        s->sums[b] = lane[0];
    }
}

/* Depth: log2(n). */
static double tree(const double *s, size_t n)
{
    if (n == 1) return s[0];
    return tree(s, n - n / 2) + tree(s + (n - n / 2), n / 2);
}

static int squares(struct iq_exec *x, const struct iq_train_squares *a)
{
    struct squares_work s = {a, iq_exec_scratch(x, blocks(a->n) * sizeof(double))};
    if (!s.sums) return IQ_MEMORY;
    iq__train_split(x, blocks(a->n), 0.3 * BLOCK, squares_blocks, &s);
    *a->sum = a->n ? tree(s.sums, blocks(a->n)) : 0.0;
    return IQ_OK;
}

static void add_blocks(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_add *a = ctx;
    (void)part;
    for (size_t i = begin * BLOCK; i < least(end * BLOCK, a->n); i++) a->y[i] = a->y[i] + a->x[i];
}

static int add(struct iq_exec *x, const struct iq_train_add *a)
{
    iq__train_split(x, blocks(a->n), 0.3 * BLOCK, add_blocks, a);
    return IQ_OK;
}
