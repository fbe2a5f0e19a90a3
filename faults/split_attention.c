#include "faults/split_attention.h"

#include "kernels/arith.h"

struct iq__split_row iq__split_row(const struct iq_attention *a, const struct iq_seq *s, uint32_t i)
{
    struct iq__split_row r = {.a = a, .seq = s, .at = s->first + i, .keys = s->pos + i + 1};
    if (a->window && r.keys > a->window) r.first = r.keys - a->window;
    return r;
}

bool iq__is_split(const struct iq__split_row *r, uint32_t split)
{
    return (r->keys - 1) / split != r->first / split;
}

static uint32_t kv_head(const struct iq_attention *a, uint32_t head)
{
    return a->kv_head0 + head / (a->heads / a->kv_heads);
}

static float score(const struct iq__split_row *r, uint32_t head, uint32_t key)
{
    const struct iq_attention *a = r->a;
    const struct iq_kv_layer *c = a->cache;
    const float *q = a->q + r->at * a->ldq + (size_t)head * c->head_dim;
    const float *k =
        c->k + key % IQ_KV_BLOCK + iq_kv_k_at(c, r->seq->blocks[key / IQ_KV_BLOCK], kv_head(a, head));
    float dot = 0;
    for (uint32_t d = 0; d < c->head_dim; d++) dot = IQ_FMAF(q[d], k[(size_t)d * IQ_KV_BLOCK], dot);
    return dot * a->scale;
}

/* Keys [lo, hi) by themselves: the weighted sum into `out`; returns the sum of the weights. */
static float attend(const struct iq__split_row *r, uint32_t head, uint32_t lo, uint32_t hi, float *max,
                    float *out)
{
    const struct iq_attention *a = r->a;
    const struct iq_kv_layer *c = a->cache;
    float sum = 0;
    *max = -INFINITY;
    for (uint32_t d = 0; d < c->head_dim; d++) out[d] = 0;
    for (uint32_t key = lo; key < hi; key++) *max = iq_max(*max, score(r, head, key));
    for (uint32_t key = lo; key < hi; key++) {
        float w = iq_exp(score(r, head, key) - *max);
        const float *v = c->v + (size_t)(key % IQ_KV_BLOCK) * c->head_dim +
                         iq_kv_v_at(c, r->seq->blocks[key / IQ_KV_BLOCK], kv_head(a, head));
        for (uint32_t d = 0; d < c->head_dim; d++) out[d] = IQ_FMAF(w, v[d], out[d]);
        sum += w;
    }
    return sum;
}

static void combine(const struct iq__split_row *r, uint32_t head, const struct iq__split_rule *m, float *part)
{
    const struct iq_attention *a = r->a;
    uint32_t dim = a->cache->head_dim, hi = m->lost ? (r->keys - 1) / m->split * m->split : r->keys;
    float *y = a->y + r->at * a->ldy + (size_t)head * dim, sum = 0, max = -INFINITY;
    for (uint32_t d = 0; d < dim; d++) y[d] = 0;
    for (uint32_t lo = r->first; lo < hi;) {
        uint32_t end = (lo / m->split + 1) * m->split;
        float own, weights = attend(r, head, lo, end < hi ? end : hi, &own, part), top = iq_max(max, own);
        float old = m->unscaled ? 1 : lo == r->first ? 0 : iq_exp(max - top);
        float fresh = m->unscaled ? 1 : iq_exp(own - top);
        for (uint32_t d = 0; d < dim; d++) y[d] = y[d] * old + part[d] * fresh;
        sum = sum * old + weights * fresh;
        max = top;
        lo = end;
    }
    for (uint32_t d = 0; d < dim; d++) y[d] = iq_act_round(y[d] / sum, a->act);
}

void iq__split_attend(const struct iq__split_row *r, const struct iq__split_rule *m, float *part)
{
    for (uint32_t head = 0; head < r->a->heads; head++) combine(r, head, m, part);
}
