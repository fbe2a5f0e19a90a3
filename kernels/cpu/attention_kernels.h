/* attention, written once over the vector primitives; a file per instruction set includes it after its
 * vec_*.h.
 *
 * A tile is up to TILE rows of one sequence and KV head: consecutive (position, query head of the group)
 * pairs, so that a block of K or V is loaded once for all of them. For scores a lane is a position, for P.V
 * an element of the head: no chain of the contract ever runs across lanes, so tiles, widths and threads
 * can't change a bit. Keys that a row doesn't see: the lanes of a block beyond them are computed and
 * dropped; P.V leaves them out.
 */
#include "kernels/cpu/attention_tile.h"
#include "kernels/cpu/vec_math.h"
#include "kernels/exec.h"
#include "kernels/op.h"

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("GCC unroll 16")

/* Rows of a tile, and vectors side by side, so that accumulators and operands fit the registers and few
 * rows still have enough chains to hide an fma's latency. For scores vectors side by side are blocks, which
 * often share a cache set: no more of them than latency asks for. */
#if VL == 16
#define TILE          12
#define SCORE_WIDE(R) ((R) <= 1 ? 4 : 2)
#define MIX_WIDE(R)   ((R) <= 5 ? 4 : 2)
#define EACH_TILE(X)  X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#elif VL == 8
#define TILE          6
#define SCORE_WIDE(R) ((R) <= 2 ? 4 : 2)
#define MIX_WIDE(R)   ((R) <= 2 ? 4 : 2)
#define EACH_TILE(X)  X(1) X(2) X(3) X(4) X(5) X(6)
#else
#define TILE          3
#define SCORE_WIDE(R) 2
#define MIX_WIDE(R)   2
#define EACH_TILE(X)  X(1) X(2) X(3)
#endif

/* A NaN score makes every weight's sum and every output NaN, so the hardware's maximum, which may lose it,
 * does. */
#if VL > 4
#define v_max_number(a, b) v_max_raw(a, b)
#else
#define v_max_number(a, b) v_max(a, b)
#endif

typedef float v4f __attribute__((vector_size(16)));
typedef float v8f __attribute__((vector_size(32)));

/* Halves of a vector, and iq_fold32 and the maximum across lanes without a way through memory. */
INLINE v4f low4(v8f v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3); }
INLINE v4f high4(v8f v) { return __builtin_shufflevector(v, v, 4, 5, 6, 7); }
#if VL == 16
INLINE v8f low8(vf v) { return __builtin_shufflevector(v, v, 0, 1, 2, 3, 4, 5, 6, 7); }
INLINE v8f high8(vf v) { return __builtin_shufflevector(v, v, 8, 9, 10, 11, 12, 13, 14, 15); }
#endif

INLINE float across_sum(const vf sum[IQ_VECTOR_LANES / VL])
{
#if VL == 16
    v8f eight = low8(sum[0] + sum[1]) + high8(sum[0] + sum[1]);
    v4f four = low4(eight) + high4(eight);
#elif VL == 8
    v8f eight = (sum[0] + sum[2]) + (sum[1] + sum[3]);
    v4f four = low4(eight) + high4(eight);
#else
    v4f four = ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
#endif
    return (four[0] + four[2]) + (four[1] + four[3]);
}

INLINE float greater(float a, float b) { return a > b ? a : b; }

INLINE float across_max(vf max)
{
#if VL == 16
    __m256 eight = _mm256_max_ps(low8(max), high8(max));
    __m128 four = _mm_max_ps(low4(eight), high4(eight));
#elif VL == 8
    __m128 four = _mm_max_ps(low4(max), high4(max));
#else
    vf four = max;
#endif
    return greater(greater(four[0], four[1]), greater(four[2], four[3]));
}

/* Few rows (decode) wait for memory: they ask for the next block while they work on one. Many rows have it
 * in cache. */
#define AHEAD(R) ((R) <= 9)

/* out[r][w * VL ..] = the chain over `dims` of q[r][d] * k[w][d]. next: what is wanted after k, block by
 * block. */
INLINE void score(const int R, const int W, const float *q, const float *const *k, const float *const *next,
                  uint32_t dims, float *out)
{
    vf acc[TILE * 4], key[4];
    UNROLL for (int i = 0; i < R * W; i++) acc[i] = v_set1(0);
    for (uint32_t d = 0; d < dims; d++, q++) {
        UNROLL for (int w = 0; w < W; w++)
        {
            key[w] = v_load(k[w] + (size_t)d * IQ_KV_BLOCK);
            v_pin(key[w]);
        }
        if (AHEAD(R)) {
            UNROLL for (int w = 0; w < W; w++) __builtin_prefetch(next[w] + (size_t)d * IQ_KV_BLOCK);
        }
        UNROLL for (int r = 0; r < R; r++)
        {
            vf x = v_set1(q[r * QUERY_STRIDE]);
            UNROLL for (int w = 0; w < W; w++) acc[r * W + w] = v_fma(x, key[w], acc[r * W + w]);
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++)
        v_store(out + r * SCORE_STRIDE + w * VL, acc[r * W + w]);
}

/* sum[r][w * VL ..] += the chain over keys [lo, hi) of weight[r][key] * v[key]; weight is indexed from the
 * chunk's start, v points at the vector's first element in a block. */
INLINE void mix(const int R, const int W, const struct reach *k, uint32_t lo, uint32_t hi,
                const float *weight, size_t e, float *sum, size_t stride)
{
    vf acc[TILE * 4], value[4];
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++) acc[r * W + w] =
        v_load(sum + r * stride + e + w * VL);
    weight += lo % IQ_KEY_CHUNK;
    for (uint32_t key = lo; key < hi;) {
        uint32_t end = (key / IQ_KV_BLOCK + 1) * IQ_KV_BLOCK;
        end = end < hi ? end : hi;
        const float *v = reach_v(k, key) + e, *next = reach_v(k, end < hi ? end : key) + e;
        for (; key < end; key++, v += k->dim, next += k->dim, weight++) {
            UNROLL for (int w = 0; w < W; w++)
            {
                value[w] = v_load(v + w * VL);
                v_pin(value[w]);
            }
            if (AHEAD(R)) { UNROLL for (int w = 0; w < W; w++) __builtin_prefetch(next + w * VL); }
            UNROLL for (int r = 0; r < R; r++)
            {
                vf x = v_set1(weight[r * SCORE_STRIDE]);
                UNROLL for (int w = 0; w < W; w++) acc[r * W + w] = v_fma(x, value[w], acc[r * W + w]);
            }
        }
    }
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int w = 0; w < W; w++)
        v_store(sum + r * stride + e + w * VL, acc[r * W + w]);
}

#define DEFINE(R)                                                                                            \
    static void score_##R(const float *q, const float *const *k, const float *const *next, uint32_t dims,    \
                          float *out)                                                                        \
    {                                                                                                        \
        score(R, SCORE_WIDE(R), q, k, next, dims, out);                                                      \
    }                                                                                                        \
    static void score1_##R(const float *q, const float *const *k, const float *const *next, uint32_t dims,   \
                           float *out)                                                                       \
    {                                                                                                        \
        score(R, 1, q, k, next, dims, out);                                                                  \
    }                                                                                                        \
    static void mix_##R(const struct reach *k, uint32_t lo, uint32_t hi, const float *weight, size_t e,      \
                        float *sum, size_t stride)                                                           \
    {                                                                                                        \
        mix(R, MIX_WIDE(R), k, lo, hi, weight, e, sum, stride);                                              \
    }                                                                                                        \
    static void mix1_##R(const struct reach *k, uint32_t lo, uint32_t hi, const float *weight, size_t e,     \
                         float *sum, size_t stride)                                                          \
    {                                                                                                        \
        mix(R, 1, k, lo, hi, weight, e, sum, stride);                                                        \
    }
EACH_TILE(DEFINE)

typedef void score_fn(const float *q, const float *const *k, const float *const *next, uint32_t dims,
                      float *out);
typedef void mix_fn(const struct reach *, uint32_t lo, uint32_t hi, const float *weight, size_t e, float *sum,
                    size_t stride);

#define ROW(R) [R] = {score_##R, score1_##R, mix_##R, mix1_##R, SCORE_WIDE(R), MIX_WIDE(R)},
static const struct {
    score_fn *score, *score1;
    mix_fn *mix, *mix1;
    uint32_t score_wide, mix_wide; /* vectors that score and mix take; score1 and mix1 take one */
} by_rows[TILE + 1] = {EACH_TILE(ROW)};

/* Raw scores (not yet scaled) of the tile's rows against the vectors of positions that cover [lo, hi) of
 * one chunk. */
static void score_tile(const struct tile *t, uint32_t lo, uint32_t hi)
{
    uint32_t dim = t->keys.dim, chunks = (dim + IQ_CHUNK - 1) / IQ_CHUNK, wide = by_rows[t->rows].score_wide;
    for (uint32_t key = lo / VL * VL; key < hi;) {
        const float *k[4], *next[4];
        uint32_t w = key + wide * VL <= (hi + VL - 1) / VL * VL ? wide : 1;
        for (uint32_t i = 0; i < w; i++) {
            uint32_t after = key + (w + i) * VL, value = lo + i * IQ_KV_BLOCK;
            k[i] = reach_k(&t->keys, key + i * VL);
            next[i] = after < hi   ? reach_k(&t->keys, after)
                      : value < hi ? reach_v(&t->keys, value / IQ_KV_BLOCK * IQ_KV_BLOCK)
                                   : k[i];
        }
        for (uint32_t c = 0; c < chunks; c++) {
            uint32_t dims = c + 1 < chunks ? IQ_CHUNK : dim - c * IQ_CHUNK;
            float *out = t->scores + (size_t)c * t->rows_max * SCORE_STRIDE + key % IQ_KEY_CHUNK;
            score_fn *score = w == 1 ? by_rows[t->rows].score1 : by_rows[t->rows].score;
            score(t->q + (size_t)c * t->rows_max * QUERY_STRIDE, k, next, dims, out);
            for (uint32_t i = 0; i < w; i++)
                k[i] += IQ_CHUNK * IQ_KV_BLOCK, next[i] += IQ_CHUNK * IQ_KV_BLOCK;
        }
        key += w * VL;
    }
    uint32_t first = lo % IQ_KEY_CHUNK / VL * VL, width = (hi - lo + lo % VL + VL - 1) / VL * VL;
    for (uint32_t r = 0; chunks > 1 && r < t->rows; r++)
        tree_add(t->scores + (size_t)r * SCORE_STRIDE + first, (size_t)t->rows_max * SCORE_STRIDE, chunks,
                 width);
}

/* Scores of row r over keys [lo, hi) of one chunk become weights, in place; m_c and l_c are set. Whole
 * groups of IQ_VECTOR_LANES are walked: what lies beside the keys is -infinity, weighs +0 and changes
 * neither maximum nor sum. */
static void weigh_row(const struct tile *t, uint32_t r, uint32_t lo, uint32_t hi)
{
    float *s = t->scores + (size_t)r * SCORE_STRIDE;
    uint32_t a = lo % IQ_KEY_CHUNK, b = a + (hi - lo);
    uint32_t first = a / IQ_VECTOR_LANES * IQ_VECTOR_LANES;
    uint32_t last = (b + IQ_VECTOR_LANES - 1) / IQ_VECTOR_LANES * IQ_VECTOR_LANES;
    vf scale = v_set1(t->scale), max = v_set1(-INFINITY), sum[IQ_VECTOR_LANES / VL];
    for (uint32_t i = a / VL * VL; i < b; i += VL) v_store(s + i, v_mul(v_load(s + i), scale));
    for (uint32_t i = first; i < a; i++) s[i] = -INFINITY;
    for (uint32_t i = b; i < last; i++) s[i] = -INFINITY;
    for (uint32_t i = first; i < last; i += VL) max = v_max_number(v_load(s + i), max);
    float m = across_max(max);
    max = v_set1(m);
    UNROLL for (int v = 0; v < IQ_VECTOR_LANES / VL; v++) sum[v] = v_set1(0);
    for (uint32_t i = first; i < last; i += IQ_VECTOR_LANES) {
        UNROLL for (int v = 0; v < IQ_VECTOR_LANES / VL; v++)
        {
            vf w = v_exp(v_sub(v_load(s + i + v * VL), max));
            sum[v] = v_add(sum[v], w);
            v_store(s + i + v * VL, w);
        }
    }
    t->row[r].m_c = m;
    t->row[r].l_c = across_sum(sum);
}

/* Adds keys [lo, hi) to the chunk sums of `rows` rows from `r` on. */
static void mix_rows(const struct tile *t, uint32_t r, uint32_t rows, uint32_t lo, uint32_t hi)
{
    if (lo >= hi) return;
    const float *weight = t->scores + (size_t)r * SCORE_STRIDE;
    float *sum = t->chunk + (size_t)r * t->stride;
    uint32_t dim = t->keys.dim, wide = by_rows[rows].mix_wide, e = 0;
    for (; e + wide * VL <= dim; e += wide * VL)
        by_rows[rows].mix(&t->keys, lo, hi, weight, e, sum, t->stride);
    for (; e + VL <= dim; e += VL) by_rows[rows].mix1(&t->keys, lo, hi, weight, e, sum, t->stride);
    if (e < dim && dim > VL) {
        /* What is left of a head, as the vector that ends with it: its first sums are there already and stay. */
        float kept[TILE][VL];
        uint32_t at = dim - VL;
        for (uint32_t i = 0; i < rows; i++) memcpy(kept[i], sum + i * t->stride + at, sizeof kept[i]);
        by_rows[rows].mix1(&t->keys, lo, hi, weight, at, sum, t->stride);
        for (uint32_t i = 0; i < rows; i++)
            memcpy(sum + i * t->stride + at, kept[i], (e - at) * sizeof kept[i][0]);
        return;
    }
    for (; e < dim; e++)
        for (uint32_t i = 0; i < rows; i++)
            for (uint32_t key = lo; key < hi; key++)
                sum[i * t->stride + e] = fmaf(weight[i * SCORE_STRIDE + key % IQ_KEY_CHUNK],
                                              reach_v(&t->keys, key)[e], sum[i * t->stride + e]);
}

/* P.V of one chunk. Keys that all rows see go through the tile together; the ragged ends row by row, in
 * order. */
static void mix_tile(const struct tile *t)
{
    uint32_t lo = 0, hi = UINT32_MAX;
    for (uint32_t r = 0; r < t->rows; r++) {
        const struct tile_row *row = &t->row[r];
        if (row->lo_c >= row->hi_c)
            continue; /* sees nothing of this chunk: what the tile adds to it is dropped */
        lo = row->lo_c > lo ? row->lo_c : lo;
        hi = row->hi_c < hi ? row->hi_c : hi;
    }
    memset(t->chunk, 0, t->rows * t->stride * sizeof(float));
    if (lo >= hi) lo = hi = UINT32_MAX; /* no key in common */
    for (uint32_t r = 0; r < t->rows; r++)
        mix_rows(t, r, 1, t->row[r].lo_c, t->row[r].hi_c < lo ? t->row[r].hi_c : lo);
    if (lo == hi) return;
    mix_rows(t, 0, t->rows, lo, hi);
    for (uint32_t r = 0; r < t->rows; r++) mix_rows(t, r, 1, hi, t->row[r].hi_c);
}

/* Joins row r's chunk to what it has so far. */
static void merge_row(const struct tile *t, uint32_t r)
{
    struct tile_row *row = &t->row[r];
    float *o = t->sum + r * t->stride;
    const float *o_c = t->chunk + r * t->stride;
    if (!row->begun) {
        memcpy(o, o_c, t->stride * sizeof(float));
        row->m = row->m_c, row->l = row->l_c;
        row->begun = true;
        return;
    }
    float top = iq_max(row->m, row->m_c), old = iq_exp(row->m - top), fresh = iq_exp(row->m_c - top);
    for (uint32_t e = 0; e < t->stride; e += VL) /* stride is whole vectors */
        v_store(o + e, v_fma(v_load(o + e), v_set1(old), v_mul(v_load(o_c + e), v_set1(fresh))));
    row->l = fmaf(row->l, old, row->l_c * fresh);
    row->m = top;
}

static void finish_row(const struct tile *t, uint32_t r)
{
    float *o = t->sum + r * t->stride;
    vf l = v_set1(t->row[r].l);
    for (uint32_t e = 0; e < t->stride; e += VL) {
        vf y = v_div(v_load(o + e), l);
        v_store(o + e, t->act == IQ_ACT_BF16  ? v_act_round(y, IQ_ACT_BF16)
                       : t->act == IQ_ACT_F16 ? v_act_round(y, IQ_ACT_F16)
                                              : v_act_round(y, IQ_ACT_F32));
    }
    memcpy(t->row[r].y, o, t->keys.dim * sizeof(float));
}

static void run_tile(const struct tile *t)
{
    uint32_t lo = UINT32_MAX, hi = 0;
    for (uint32_t r = 0; r < t->rows; r++) {
        lo = t->row[r].lo < lo ? t->row[r].lo : lo;
        hi = t->row[r].hi > hi ? t->row[r].hi : hi;
        t->row[r].begun = false;
    }
    for (uint32_t start = lo; start < hi;) {
        uint32_t end = (start / IQ_KEY_CHUNK + 1) * IQ_KEY_CHUNK;
        end = end < hi ? end : hi;
        score_tile(t, start, end);
        for (uint32_t r = 0; r < t->rows; r++) {
            struct tile_row *row = &t->row[r];
            row->lo_c = row->lo > start ? row->lo : start;
            row->hi_c = row->hi < end ? row->hi : end;
            if (row->lo_c < row->hi_c)
                weigh_row(t, r, row->lo_c, row->hi_c);
            else
                row->lo_c = row->hi_c = 0;
        }
        mix_tile(t);
        for (uint32_t r = 0; r < t->rows; r++)
            if (t->row[r].lo_c < t->row[r].hi_c) merge_row(t, r);
        start = end;
    }
    for (uint32_t r = 0; r < t->rows; r++) finish_row(t, r);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    (void)site, (void)params, (void)state;
    return iq__attention_tiles(x, args, TILE, run_tile);
}
