/* The product's kernels, written once over vector primitives and compiled once per instruction set by the file that
 * includes this: vec_ISA.h, and
 *   v_half(p) v_i8(p)        VL halves or int8 at p, as floats
 *   v_bf16(d, odd)           the even or odd k of dwords
 *   v_nibble(d, i), v_nibble8(d, i)   q or q - 8 of the i-th of 8 k, as floats
 *   v_hold(d)       v_pin where registers suffice, else nothing
 *   v_fma_from(a, p, c)   a * *p + c, where expanding keeps the units busy that would broadcast *p
 *   ALONE_V(F, R) HALF_V(F, R) LEADING_V(F, R) FOLLOWING_V(R)   vectors of outputs in a tile of R rows
 *   EACH_ALONE(X) EACH_HALF(X) EACH_MANY(X)   X(R) for each number of rows; ROWS_ALONE, ROWS_MANY: see struct iq__tiles
 * It defines VARIANTS(usable): the records of matmul and grouped_matmul for this instruction set.
 * Every parameter in capitals is a constant where it is used, so all loops over R, V and G unroll, all tests of F and
 * KIND vanish, and acc[] lives in registers. */
#include "kernels/arith.h"
#include "kernels/cpu/moe_grouped.h"
#include "kernels/cpu/product.h"
#include "kernels/cpu/vec_variant.h"

#define PANEL_V (IQ_PANEL / VL)
#define UNROLL  _Pragma("GCC unroll 16")

enum { ACCUMULATORS = 24 }; /* most of a tile */

/* A stream of weights is prefetched so many bytes ahead, for one row the largest single gain; 16-bit weights into L1, the
 * others, whose expansion or lines keep L1 busy, into L2 (measured: 10 to 30 % each at one row, Zen 4). */
#define AHEAD(F)   ((F) == IQ_F32 ? 4096 : 8192)
#define INTO_L1(F) ((F) == IQ_F16 || (F) == IQ_BF16)

/* ALONE reads and prefetches its own stream. LEADING does so too and stores the expanded weights for the tiles of other
 * rows. FOLLOWING has its weights in cache, so it prefetches the panel's next chunk, a line per k; CACHED is the same for
 * F32 panels, which are read where they are: two lines per k. */
enum { ALONE, LEADING, FOLLOWING, CACHED };

/* Columns that one load of weights brings, and bytes of an output in it. */
#define GROUP(F)       ((F) == IQ_BF16 ? 2 : (F) >= IQ_Q4_0 ? 8 : 1)
#define GROUP_BYTES(F) ((F) == IQ_F16 ? 2 : (F) == IQ_Q8_0 ? 1 : 4)
#define QUANTISED(F)   ((F) >= IQ_Q8_0)

/* Of 32 columns of a quantised format. */
struct scales {
    vf d[PANEL_V], m[PANEL_V];
};

INLINE void fetch(const void *p) { __builtin_prefetch(p, 0, 3); }

INLINE void fetch_stream(const int F, const void *p)
{
    if (INTO_L1(F))
        __builtin_prefetch((const char *)p + AHEAD(F), 0, 3);
    else
        __builtin_prefetch((const char *)p + AHEAD(F), 0, 2);
}

/* Where a tile stands in its streams. */
struct cursor {
    const uint8_t *w;  /* the panel's line of the next columns, from its first output on */
    const float *x;    /* the line of the next 16 columns */
    float *expanded;   /* LEADING: where the next column goes */
    const char *ahead; /* FOLLOWING, CACHED: what to prefetch */
};

INLINE void load_scales(const int F, const int V, int first, struct cursor *c, struct scales *s)
{
    const uint16_t *d = (const uint16_t *)c->w + first * VL, *m = d + IQ_PANEL;
    for (int at = 0; at < V * VL; at += 32) {
        fetch_stream(F, d + at);
        if (F >= IQ_Q4_1) fetch_stream(F, m + at);
    }
    c->w += (F >= IQ_Q4_1 ? 4 : 2) * IQ_PANEL;
    UNROLL for (int v = 0; v < V; v++) s->d[v] = v_half(d + v * VL);
    if (F < IQ_Q4_1) return;
    UNROLL for (int v = 0; v < V; v++) s->m[v] = v_half(m + v * VL);
}

/* The v-th vector of weights of the i-th column of a group at p, whose dwords are d. */
INLINE vf weight(const int F, const uint8_t *p, const vi *d, int i, int v, const struct scales *s)
{
    switch (F) {
    case IQ_F32:
        return v_load((const float *)p + v * VL);
    case IQ_F16:
        return v_half((const uint16_t *)p + v * VL);
    case IQ_BF16:
        return v_bf16(d[v], i);
    case IQ_Q8_0:
        return v_mul(v_i8((const int8_t *)p + v * VL), s->d[v]);
    case IQ_Q4_0:
        return v_mul(v_nibble8(d[v], i), s->d[v]);
    default:
        return v_fma(v_nibble(d[v], i), s->d[v], s->m[v]); /* d * q is exact: one rounding */
    }
}

/* One group of columns, N of them present, `at` columns from c->x on: expand, keep for others if asked to, and one fma
 * into each row's chain. */
INLINE void group(const int F, const int R, const int V, const int KIND, const int N, int first, int at,
                  struct cursor *c, const struct scales *s, vf *acc)
{
    const uint8_t *p = c->w + GROUP_BYTES(F) * VL * first;
    const float *x = c->x + at;
    vi d[PANEL_V];
    if (KIND == ALONE || KIND == LEADING) {
        for (int b = 0; b < V * VL * GROUP_BYTES(F); b += 64) fetch_stream(F, p + b);
    } else {
        for (int line = 0; line < (KIND == CACHED ? 2 : 1); line++, c->ahead += 64) fetch(c->ahead);
    }
    if (GROUP(F) > 1) {
        UNROLL for (int v = 0; v < V; v++)
        {
            d[v] = v_loadi(p + 4 * VL * v);
            v_hold(d[v]);
        }
    }
    UNROLL for (int i = 0; i < N; i++)
    {
        vf w[PANEL_V];
        UNROLL for (int v = 0; v < V; v++) w[v] = weight(F, p, d, i, v, s);
        if (KIND == LEADING) {
            UNROLL for (int v = 0; v < V; v++) v_store(c->expanded + (first + v) * VL, w[v]);
            c->expanded += IQ_PANEL;
        }
        UNROLL for (int r = 0; r < R; r++)
        {
            const float *xr = &x[r * IQ__X_LINE + i];
            UNROLL for (int v = 0; v < V; v++) acc[r * V + v] =
                KIND == ALONE && QUANTISED(F) ? v_fma_from(w[v], xr, acc[r * V + v])
                                              : v_fma(w[v], v_set1(*xr), acc[r * V + v]);
        }
    }
    c->w += GROUP_BYTES(F) * IQ_PANEL;
}

/* The 16 columns of a line of x. Unrolled so far that a loop costs nothing: eight columns for all but the shortest groups;
 * more costs the compiler minutes. */
INLINE void line(const int F, const int R, const int V, const int KIND, int first, struct cursor *c,
                 const struct scales *s, vf *acc)
{
    if (GROUP(F) == 8) {
        _Pragma("GCC unroll 1") for (int at = 0; at < IQ__X_LINE; at += 8)
            group(F, R, V, KIND, GROUP(F), first, at, c, s, acc);
    } else {
        _Pragma("GCC unroll 4") for (int at = 0; at < IQ__X_LINE; at += GROUP(F))
            group(F, R, V, KIND, GROUP(F), first, at, c, s, acc);
    }
    c->x += R * IQ__X_LINE;
}

/* The chunk's columns over V vectors of outputs, from vector `first` of the panel on. */
INLINE void walk(const int F, const int R, const int V, const int KIND, int first, struct iq__tile *t,
                 vf *acc)
{
    struct cursor c = {t->w, t->x, t->expanded, t->ahead};
    struct scales s;
    int kc = (int)t->kc;
    if (QUANTISED(F)) {
        for (; kc > 0; kc -= 2 * IQ__X_LINE) {
            load_scales(F, V, first, &c, &s);
            _Pragma("GCC unroll 1") for (int half = 0; half < 2; half++)
                line(F, R, V, KIND, first, &c, &s, acc);
        }
    } else {
        int at = 0;
        for (; kc >= IQ__X_LINE; kc -= IQ__X_LINE) line(F, R, V, KIND, first, &c, &s, acc);
        for (; kc - at >= GROUP(F); at += GROUP(F)) group(F, R, V, KIND, GROUP(F), first, at, &c, &s, acc);
        if (kc > at) group(F, R, V, KIND, 1, first, at, &c, &s, acc); /* half a dword of BF16 */
    }
    if (KIND == FOLLOWING || KIND == CACHED) t->ahead = c.ahead;
}

/* A result as it leaves the op: the bias added, NaN canonical. */
INLINE vf finished(vf sum, const float *bias)
{
    if (bias) sum = v_add(sum, v_load(bias));
    vi nan = (vi)(sum != sum);
    return (vf)(((vi)sum & ~nan) | (nan & IQ_NAN_BITS));
}

INLINE void tile(const int F, const int R, const int V, const int KIND, struct iq__tile *t)
{
#define EACH_CELL UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++)
    for (int first = (int)t->begin / VL; first < (int)t->end / VL; first += V) {
        vf acc
            [ACCUMULATORS]; /* not [R * V]: that is a variable-length array to GCC, which keeps it in memory */
        const float *s = t->stack + first * VL;
        float *to = t->to + first * VL;
        EACH_CELL acc[r * V + v] = v_set1(0.0f);
        walk(F, R, V, KIND, first, t, acc);
        for (uint32_t i = 0; i < t->pops; i++) {
            s -= t->level;
            EACH_CELL acc[r * V + v] = v_add(v_load(s + r * IQ_PANEL + v * VL), acc[r * V + v]);
        }
        if (t->finish)
            EACH_CELL acc[r * V + v] = finished(acc[r * V + v], t->bias ? t->bias + (first + v) * VL : NULL);
        EACH_CELL v_store(to + r * t->to_row + v * VL, acc[r * V + v]);
    }
#undef EACH_CELL
}

/* ---- the kernels, and the table of them ---- */

#define EACH_FORMAT(X, R)                                                                                    \
    X(f32, IQ_F32, R)                                                                                        \
    X(f16, IQ_F16, R) X(bf16, IQ_BF16, R) X(q8_0, IQ_Q8_0, R) X(q4_0, IQ_Q4_0, R) X(q4_1, IQ_Q4_1, R)

#define KERNEL(name, F, R, V, KIND)                                                                          \
    static void name##_##R(struct iq__tile *t) { tile(F, R, V, KIND, t); }
#define ALONE_KERNEL(f, F, R)   KERNEL(alone_##f, F, R, ALONE_V(F, R), ALONE)
#define HALF_KERNEL(f, F, R)    KERNEL(half_##f, F, R, HALF_V(F, R), ALONE)
#define LEADING_KERNEL(f, F, R) KERNEL(leading_##f, F, R, LEADING_V(F, R), (F) == IQ_F32 ? CACHED : LEADING)
#define ALONE_KERNELS(R)        EACH_FORMAT(ALONE_KERNEL, R)
#define HALF_KERNELS(R)         EACH_FORMAT(HALF_KERNEL, R)
#define MANY_KERNELS(R)         EACH_FORMAT(LEADING_KERNEL, R) KERNEL(following, IQ_F32, R, FOLLOWING_V(R), FOLLOWING)
EACH_ALONE(ALONE_KERNELS)
EACH_HALF(HALF_KERNELS)
EACH_MANY(MANY_KERNELS)

#define ALONE_ENTRY(f, F, R)   [F] = alone_##f##_##R,
#define HALF_ENTRY(f, F, R)    [F] = half_##f##_##R,
#define LEADING_ENTRY(f, F, R) [F] = leading_##f##_##R,
#define ALONE_ROW(R)           [R] = {EACH_FORMAT(ALONE_ENTRY, R)},
#define HALF_ROW(R)            [R] = {EACH_FORMAT(HALF_ENTRY, R)},
#define LEADING_ROW(R)         [R] = {EACH_FORMAT(LEADING_ENTRY, R)},
#define FOLLOWING_ROW(R)       [R] = following_##R,

static const struct iq__tiles tiles = {.rows_alone = ROWS_ALONE,
                                       .rows_many = ROWS_MANY,
                                       .alone = {EACH_ALONE(ALONE_ROW)},
                                       .half = {EACH_HALF(HALF_ROW)},
                                       .leading = {EACH_MANY(LEADING_ROW)},
                                       .following = {EACH_MANY(FOLLOWING_ROW)}};

static int matmul(struct iq_exec *exec, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    if (!iq__product_supports(args)) return iq__matmul_reference.run(exec, site, args, params, state);
    return iq__product_run(&tiles, exec, args);
}

static bool matmul_supports(const struct iq_site *site, const void *args)
{
    (void)site;
    return iq__product_supports(args);
}

static int grouped_matmul(struct iq_exec *exec, const struct iq_site *site, const void *args,
                          const void *params, void *state)
{
    if (!iq__grouped_supports(args)) return iq__grouped_matmul_reference.run(exec, site, args, params, state);
    return iq__grouped_run(&tiles, exec, args);
}

static bool grouped_matmul_supports(const struct iq_site *site, const void *args)
{
    (void)site;
    return iq__grouped_supports(args);
}

#define VARIANTS(can)                                                                                        \
    VARIANT(matmul, .supports = matmul_supports, .usable = can);                                             \
    VARIANT(grouped_matmul, .supports = grouped_matmul_supports, .usable = can)
