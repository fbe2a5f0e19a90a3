/* References: each op as ops.h says it, on the calling thread where it is not element-wise. */
#include "engine/train/parts.h"
#include "engine/train/rows.h"

#include "engine/train/experts.h"

/* ---- product and adamw: the kernels' ---- */

static int product(struct iq_exec *x, const struct iq_train_product *p)
{
    return iq_product_reference.run(x, NULL, p, NULL, NULL);
}

static int adamw(struct iq_exec *x, const struct iq_train_adamw *a)
{
    return iq_adamw_reference.run(x, NULL, a, NULL, NULL);
}

/* ---- swiglu_back ---- */

static int swiglu_back(struct iq_exec *x, const struct iq_train_swiglu_back *a)
{
    (void)x;
    for (size_t r = 0; r < a->rows; r++)
        for (size_t i = r * a->ld, d = r * a->lddy; i < r * a->ld + a->n; i++, d++) {
            float gate = a->gate[i], sig = 1.0f / (1.0f + iq_exp(-gate));
            a->dup[i] = a->dy[d] * (gate * sig);
            a->dgate[i] = (a->dy[d] * a->up[i]) * (sig * IQ_FMAF(gate, 1.0f - sig, 1.0f));
        }
    return IQ_OK;
}

/* ---- loss ---- */

/* exp(x - max) in place, of n; returns their sum by the vector rule. */
static float exponentials(float *x, uint32_t n, float max)
{
    float lane[IQ_VECTOR_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) {
        x[i] = iq_exp(x[i] - max);
        lane[i % IQ_VECTOR_LANES] += x[i];
    }
    return iq_fold32(lane);
}

static float maximum(const float *x, uint32_t n)
{
    float max = -INFINITY;
    for (uint32_t i = 0; i < n; i++) max = iq_max(max, x[i]);
    return max;
}

static int loss(struct iq_exec *x, const struct iq_train_loss *a)
{
    (void)x;
    for (size_t r = 0; r < a->rows; r++) {
        float *row = a->x + r * a->vocab;
        uint32_t target = a->target[r], first = 0;
        a->loss[r] = 0.0f;
        a->hit[r] = 0;
        if (target == IQ_TRAIN_NO_TARGET) {
            memset(row, 0, a->vocab * sizeof *row);
            continue;
        }
        float max = maximum(row, a->vocab), logit = row[target] - max;
        while (first < target && row[first] < max) first++;
        a->hit[r] = first == target && row[target] == max;
        float sum = exponentials(row, a->vocab, max), over = 1.0f / sum;
        a->loss[r] = iq_log(sum) - logit;
        for (uint32_t j = 0; j < a->vocab; j++) {
            float p = row[j] * over;
            row[j] = (j == target ? p - 1.0f : p) * a->scale;
        }
    }
    return IQ_OK;
}

/* ---- attention_back ---- */

/* Query row i of one head of a sequence. at(x, row): the row of that head. */
struct query {
    const struct iq_train_attention_back *a;
    size_t first, row;    /* of the sequence; the query's own */
    size_t head, kv_head; /* columns where they begin */
    float *p, *g;         /* (keys) weights, gradients of scores */
};

static float dot(const float *a, const float *b, uint32_t n)
{
    float s = 0;
    for (uint32_t d = 0; d < n; d++) s = IQ_FMAF(a[d], b[d], s);
    return s;
}

static void query_back(const struct query *u)
{
    const struct iq_train_attention_back *a = u->a;
    const uint32_t keys = (uint32_t)(u->row - u->first) + 1;
    const size_t own = u->row * (size_t)a->heads * a->dim + u->head;
    const float *q = a->q + u->row * a->ld + u->head, *dy = a->dy + own;
    float *dq = a->dq + u->row * a->ld + u->head;
    for (uint32_t j = 0; j < keys; j++)
        u->p[j] = dot(q, a->k + (u->first + j) * a->ld + u->kv_head, a->dim) * a->scale;
    float over = 1.0f / exponentials(u->p, keys, maximum(u->p, keys));
    float c = fold_products(dy, a->y + own, a->dim);
    for (uint32_t j = 0; j < keys; j++) {
        float t = dot(dy, a->v + (u->first + j) * a->ld + u->kv_head, a->dim);
        u->p[j] = u->p[j] * over;
        u->g[j] = (u->p[j] * (t - c)) * a->scale;
    }
    memset(dq, 0, a->dim * sizeof *dq);
    for (uint32_t j = 0; j < keys; j++) {
        const size_t at = (u->first + j) * a->ld + u->kv_head;
        for (uint32_t d = 0; d < a->dim; d++) {
            dq[d] = IQ_FMAF(u->g[j], a->k[at + d], dq[d]);
            a->dk[at + d] = IQ_FMAF(u->g[j], q[d], a->dk[at + d]);
            a->dv[at + d] = IQ_FMAF(u->p[j], dy[d], a->dv[at + d]);
        }
    }
}

static int attention_back(struct iq_exec *x, const struct iq_train_attention_back *a)
{
    const uint32_t group = a->heads / a->kv_heads;
    float *room = iq_exec_scratch(x, 2 * (size_t)a->unit * sizeof *room);
    if (!room) return IQ_MEMORY;
    for (uint32_t s = 0; s < a->sequences; s++)
        for (uint32_t kv = 0; kv < a->kv_heads; kv++) {
            struct query u = {a, (size_t)s * a->unit, 0, 0, (size_t)kv * a->dim, room, room + a->unit};
            for (size_t r = u.first; r < u.first + a->unit; r++) {
                memset(a->dk + r * a->ld + u.kv_head, 0, a->dim * sizeof *a->dk);
                memset(a->dv + r * a->ld + u.kv_head, 0, a->dim * sizeof *a->dv);
            }
            for (uint32_t h = kv * group; h < (kv + 1) * group; h++)
                for (u.row = u.first; u.row < u.first + a->unit; u.row++) {
                    u.head = (size_t)h * a->dim;
                    query_back(&u);
                }
        }
    return IQ_OK;
}

const struct iq_train_ops iq__train_reference = {.name = "reference",
                                                 .product = product,
                                                 .norm_back = norm_back,
                                                 .rope_back = rope_back,
                                                 .swiglu_back = swiglu_back,
                                                 .attention_back = attention_back,
                                                 .loss = loss,
                                                 .residual = residual,
                                                 .embed_back = embed_back,
                                                 .combine_back = combine_back,
                                                 .route_back = route_back,
                                                 .dispatch_back = dispatch_back,
                                                 .squares = squares,
                                                 .add = add,
                                                 .adamw = adamw};
