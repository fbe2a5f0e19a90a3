/* topk, written once over the vector primitives. Two reads of a row: the first takes the maximum of many
 * segments, the k-th largest of which is a lower bound of the k-th largest logit; the second gathers what
 * reaches the bound, a little more than k logits. These are sorted in full order. */
#include "kernels/arith.h"
#include "kernels/cpu/sort_entries.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/cpu/vec_compare.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/sampling.h"

#define UNROLL _Pragma("GCC unroll 16")

/* Segments for one wanted logit (more: a tighter bound, but more maxima to look through), vectors to a
 * step. */
enum { SEGMENTS_PER_K = 4, SEGMENTS_MIN = 256, STEP = 4 };

/* The order of floats as that of integers; no NaN. */
static inline uint32_t rising(float f)
{
    uint32_t u = iq_f32_bits(f);
    return u >> 31 ? ~u : u | 0x80000000u;
}

static inline float risen(uint32_t u) { return iq_bits_f32(u >> 31 ? u & 0x7fffffffu : ~u); }

/* The k-th largest of n integers, bit by bit from the top: no order of the input is slow. */
static uint32_t kth_largest(const uint32_t *x, uint32_t n, uint32_t k)
{
    uint32_t least = 0;
    for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
        uint32_t reach = 0, trial = least | bit;
        for (uint32_t i = 0; i < n; i++) reach += x[i] >= trial;
        least = reach >= k ? trial : least;
    }
    return least;
}

/* A lower bound of the k-th largest logit; -infinity where the row is too short for that many segments.
 * `maxima` has room for vocab integers. */
static float bound_of(const float *x, uint32_t vocab, uint32_t k, uint32_t *maxima)
{
    uint32_t want = k * SEGMENTS_PER_K > SEGMENTS_MIN ? k * SEGMENTS_PER_K : SEGMENTS_MIN;
    uint32_t groups = (want + VL - 1) / VL, steps = vocab / (groups * VL * STEP), n = 0;
    if (steps == 0) return -INFINITY;
    for (uint32_t g = 0; g < groups; g++) {
        vf max[STEP];
        UNROLL for (int v = 0; v < STEP; v++) max[v] = v_set1(-INFINITY);
        for (uint32_t s = 0; s < steps; s++, x += STEP * VL)
            UNROLL for (int v = 0; v < STEP; v++) max[v] = v_raise(v_load(x + v * VL), max[v]);
        max[0] = v_raise(v_raise(max[0], max[1]), v_raise(max[2], max[3]));
        float lane[VL];
        v_store(lane, max[0]);
        for (int l = 0; l < VL; l++) maxima[n++] = rising(lane[l]);
    }
    return risen(kth_largest(maxima, n, k));
}

/* The entries of all logits that reach the bound. */
static uint32_t gather(const float *x, uint32_t vocab, float bound, uint64_t *out)
{
    vf least = v_set1(bound);
    uint32_t n = 0, id = 0;
    for (; id + STEP * VL <= vocab; id += STEP * VL) {
        uint64_t mask = 0;
        UNROLL for (int v = 0; v < STEP; v++) mask |= (uint64_t)v_reach(v_load(x + id + v * VL), least)
                                                      << v * VL;
        for (; mask; mask &= mask - 1) {
            uint32_t at = id + (uint32_t)__builtin_ctzll(mask);
            out[n++] = iq__topk_entry(x[at], at);
        }
    }
    for (; id < vocab; id++)
        if (x[id] >= bound) out[n++] = iq__topk_entry(x[id], id);
    return n;
}

static void topk_row(const struct iq_topk *a, uint32_t r, uint64_t *room)
{
    const float *x = a->logits + r * a->ld;
    uint64_t *entry = room, *other = room + a->vocab;
    uint32_t n = gather(x, a->vocab, bound_of(x, a->vocab, a->k, (uint32_t *)other), entry);
    if (n < a->k) /* NaN among the k: they reach no bound */
        for (n = 0; n < a->vocab; n++) entry[n] = iq__topk_entry(x[n], n);
    entry = sort_entries(entry, other, n);
    for (uint32_t i = 0; i < a->k; i++) {
        uint32_t id = (uint32_t)entry[i];
        a->ids[(size_t)r * a->k + i] = id;
        a->values[(size_t)r * a->k + i] = iq_canonical(x[id]);
    }
}

struct topk_job {
    const struct iq_topk *a;
    uint64_t *room; /* (parts, 2, vocab) */
};

static void topk_part(void *ctx, int part, int parts)
{
    const struct topk_job *j = ctx;
    int begin, end;
    iq_slice((int)j->a->rows, part, parts, &begin, &end);
    for (int r = begin; r < end; r++) topk_row(j->a, (uint32_t)r, j->room + (size_t)part * 2 * j->a->vocab);
}

static int topk_run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    struct topk_job j = {.a = args};
    (void)site, (void)params, (void)state;
    if (j.a->k > j.a->vocab) return IQ_SHAPE;
    if (j.a->k == 0 || j.a->rows == 0) return IQ_OK;
    struct iq_pool *pool = j.a->rows > 1 ? x->pool : NULL;
    j.room = iq_exec_scratch(x, (size_t)iq_pool_threads(pool) * 2 * j.a->vocab * sizeof *j.room);
    if (!j.room) return IQ_MEMORY;
    iq_pool_run(pool, topk_part, &j);
    return IQ_OK;
}
