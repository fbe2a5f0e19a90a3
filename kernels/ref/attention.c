/* Reference of attention: one row and head at a time, as DESIGN writes it down. */
#include "kernels/arith.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/kv.h"

struct head {
    const struct iq_attention *a;
    const uint32_t *blocks;
    const float *q;
    float *y;         /* (head_dim): carries the merged sum until the end */
    uint32_t kv_head; /* in the cache */
};

/* q . k over dims [lo, hi): chunks are chains of fma from +0, combined by the tree. A chunk starts at a
 * multiple of IQ_CHUNK. */
static float dot(const float *q, const float *k, uint32_t lo, uint32_t hi)
{
    uint32_t chunks = (hi - lo + IQ_CHUNK - 1) / IQ_CHUNK;
    if (chunks > 1) {
        uint32_t middle = lo + iq_tree_left(chunks) * IQ_CHUNK;
        return dot(q, k, lo, middle) + dot(q, k, middle, hi);
    }
    float sum = 0;
    for (uint32_t d = lo; d < hi; d++) sum = fmaf(q[d], k[(size_t)d * IQ_KV_BLOCK], sum);
    return sum;
}

static float score(const struct head *h, uint32_t key)
{
    const struct iq_kv_layer *c = h->a->cache;
    const float *k = c->k + iq_kv_k_at(c, h->blocks[key / IQ_KV_BLOCK], h->kv_head) + key % IQ_KV_BLOCK;
    return dot(h->q, k, 0, c->head_dim) * h->a->scale;
}

/* Weights of keys [lo, hi), which lie in one chunk, into w[key % IQ_KEY_CHUNK]; returns their sum by the
 * vector rule. */
static float weigh(const struct head *h, uint32_t lo, uint32_t hi, float *w, float *max)
{
    float lane[IQ_VECTOR_LANES] = {0};
    *max = -INFINITY;
    for (uint32_t key = lo; key < hi; key++) {
        float s = score(h, key);
        w[key % IQ_KEY_CHUNK] = s;
        *max = iq_max(*max, s);
    }
    for (uint32_t key = lo; key < hi; key++) {
        float *at = &w[key % IQ_KEY_CHUNK];
        *at = iq_exp(*at - *max);
        lane[key % IQ_VECTOR_LANES] += *at;
    }
    return iq_fold32(lane);
}

/* Element e of the weighted sum of V over keys [lo, hi): one chain. */
static float mix(const struct head *h, uint32_t lo, uint32_t hi, const float *w, uint32_t e)
{
    const struct iq_kv_layer *c = h->a->cache;
    float sum = 0;
    for (uint32_t key = lo; key < hi; key++) {
        const float *v = c->v + iq_kv_v_at(c, h->blocks[key / IQ_KV_BLOCK], h->kv_head);
        sum = fmaf(w[key % IQ_KEY_CHUNK], v[(size_t)(key % IQ_KV_BLOCK) * c->head_dim + e], sum);
    }
    return sum;
}

static void attend(const struct head *h, uint32_t pos)
{
    uint32_t window = h->a->window, dim = h->a->cache->head_dim;
    uint32_t hi = pos + 1, first = window && hi > window ? hi - window : 0;
    float w[IQ_KEY_CHUNK], m = 0, l = 0;
    for (uint32_t lo = first; lo < hi;) {
        uint32_t end = (lo / IQ_KEY_CHUNK + 1) * IQ_KEY_CHUNK;
        end = end < hi ? end : hi;
        float m_c, l_c = weigh(h, lo, end, w, &m_c);
        if (lo == first) { /* nothing to merge with: copied, not merged with an empty state */
            for (uint32_t e = 0; e < dim; e++) h->y[e] = mix(h, lo, end, w, e);
            m = m_c, l = l_c;
        } else {
            float top = iq_max(m, m_c), old = iq_exp(m - top), fresh = iq_exp(m_c - top);
            for (uint32_t e = 0; e < dim; e++) h->y[e] = fmaf(h->y[e], old, mix(h, lo, end, w, e) * fresh);
            l = fmaf(l, old, l_c * fresh);
            m = top;
        }
        lo = end;
    }
    for (uint32_t e = 0; e < dim; e++) h->y[e] = iq_act_round(h->y[e] / l, h->a->act);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_attention *a = args;
    (void)x, (void)site, (void)params, (void)state;
    uint32_t dim = a->cache->head_dim;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++)
            for (uint32_t head = 0; head < a->heads; head++) {
                size_t row = s->first + i, at = (size_t)head * dim;
                struct head h = {.a = a,
                                 .blocks = s->blocks,
                                 .q = a->q + row * a->ldq + at,
                                 .y = a->y + row * a->ldy + at,
                                 .kv_head = a->kv_head0 + head / (a->heads / a->kv_heads)};
                attend(&h, s->pos + i);
            }
    return IQ_OK;
}

const struct iq_variant iq__attention_reference = {.kind = "attention",
                                                   .name = "reference",
                                                   .device = "cpu",
                                                   .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                                   .run = run};
