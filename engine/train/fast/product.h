/* The product for one instruction set: both factors are packed so that a register tile of TILE_M x TILE_N results reads two
 * streams, a lane is a result, and each chunk of k is one chain of fma per lane; then the additions of the tree that the
 * chunk completes (kernels/sum_plan.h). Packing is where the three uses (forward, gradients of input and weights) differ.
 * Included after a vec_*.h, which decides the tile: all of its sums stay in registers. */

#if VL == 16
enum { TILE_M = 12, TILE_V = 2 };
#elif VL == 8
enum { TILE_M = 6, TILE_V = 2 };
#else
enum { TILE_M = 4, TILE_V = 2 };
#endif
enum { TILE_N = TILE_V * VL, TILE = TILE_M * TILE_N };

#define UNROLL    _Pragma("GCC unroll 16")
#define EACH_CELL UNROLL for (int i = 0; i < TILE_M; i++) UNROLL for (int v = 0; v < TILE_V; v++)

struct product_work {
    const struct iq_train_product *p;
    const struct iq__sum_step *step;
    uint32_t steps;
    size_t tiles, panels; /* of TILE_M rows of y, of TILE_N columns */
    float *a, *b;         /* (tiles, k, TILE_M), (panels, k, TILE_N) */
    float *stacks;        /* (threads, levels, TILE) */
    size_t stack;         /* floats of one */
};

/* n lines of a factor side by side as (k, width); line l is from[l * line + k * next]. Lines that are absent are zeros:
 * they make results that nobody stores. */
static void pack_lines(const float *from, size_t line, size_t next, size_t n, size_t width, uint32_t k,
                       float *to)
{
    if (n < width) memset(to, 0, k * width * sizeof *to);
    if (line == 1 && n == width) {
        for (size_t i = 0; i < k; i++) memcpy(to + i * width, from + i * next, width * sizeof *to);
    } else if (line == 1) {
        for (size_t i = 0; i < k; i++) memcpy(to + i * width, from + i * next, n * sizeof *to);
    } else {
        for (size_t l = 0; l < n; l++)
            for (size_t i = 0; i < k; i++) to[i * width + l] = from[l * line + i * next];
    }
}

static void pack_items(const void *ctx, size_t begin, size_t end, int part)
{
    const struct product_work *s = ctx;
    const struct iq_train_product *p = s->p;
    (void)part;
    for (size_t i = begin; i < end; i++)
        if (i < s->tiles) {
            pack_lines(p->a + i * TILE_M * p->a_i, p->a_i, p->a_k, least(TILE_M, p->m - i * TILE_M), TILE_M,
                       p->k, s->a + i * TILE_M * p->k);
        } else {
            size_t j = i - s->tiles;
            pack_lines(p->b + j * TILE_N * p->b_j, p->b_j, p->b_k, least(TILE_N, p->n - j * TILE_N), TILE_N,
                       p->k, s->b + j * TILE_N * p->k);
        }
}

/* One tile of results, into `to`. */
static void sum_tile(const struct product_work *s, const float *a, const float *b, float *stack, float *to,
                     size_t ldto)
{
    vf acc[TILE_M * TILE_V];
    for (uint32_t t = 0;; t++) {
        const struct iq__sum_step *step = &s->step[t];
        EACH_CELL acc[i * TILE_V + v] = v_set1(0.0f);
        for (uint32_t k = 0; k < step->kc; k++, a += TILE_M, b += TILE_N) {
            vf w[TILE_V];
            UNROLL for (int v = 0; v < TILE_V; v++) w[v] = v_load(b + v * VL);
            EACH_CELL acc[i * TILE_V + v] = v_fma(v_set1(a[i]), w[v], acc[i * TILE_V + v]);
        }
        float *top = stack + step->depth * (size_t)TILE;
        for (uint32_t p = 0; p < step->pops; p++) {
            top -= TILE;
            EACH_CELL acc[i * TILE_V + v] = v_add(v_load(top + i * TILE_N + v * VL), acc[i * TILE_V + v]);
        }
        if (t == s->steps - 1) break;
        EACH_CELL v_store(top + i * TILE_N + v * VL, acc[i * TILE_V + v]);
    }
    EACH_CELL v_store(to + i * ldto + v * VL, v_canonical(acc[i * TILE_V + v]));
}

/* Items are tiles of results, panel by panel: a panel of b stays in cache while a passes by. */
static void sum_items(const void *ctx, size_t begin, size_t end, int part)
{
    const struct product_work *s = ctx;
    const struct iq_train_product *p = s->p;
    float *stack = s->stacks + (size_t)part * s->stack, edge[TILE];
    for (size_t item = begin; item < end; item++) {
        size_t i = item % s->tiles * TILE_M, j = item / s->tiles * TILE_N;
        size_t m = least(TILE_M, p->m - i), n = least(TILE_N, p->n - j);
        float *y = p->y + i * p->ldy + j;
        bool whole = m == TILE_M && n == TILE_N;
        sum_tile(s, s->a + i * p->k, s->b + j * p->k, stack, whole ? y : edge, whole ? p->ldy : TILE_N);
        for (size_t r = 0; r < m && !whole; r++) memcpy(y + r * p->ldy, edge + r * TILE_N, n * sizeof *y);
    }
}

static size_t whole_lines(size_t floats) { return (floats + 15) / 16 * 16; }

static int product(struct iq_exec *x, const struct iq_train_product *p)
{
    struct product_work s = {.p = p,
                             .steps = iq__sum_steps(p->k, p->unit),
                             .tiles = (p->m + (size_t)TILE_M - 1) / TILE_M,
                             .panels = (p->n + (size_t)TILE_N - 1) / TILE_N,
                             .stack = iq__sum_levels(p->k, p->unit) * (size_t)TILE};
    const size_t threads = (size_t)iq_pool_threads(x->pool);
    size_t a = whole_lines(s.tiles * TILE_M * p->k), b = whole_lines(s.panels * TILE_N * p->k);
    struct iq__sum_step *step;
    s.a = iq_exec_scratch(x, (a + b + threads * s.stack) * sizeof *s.a + s.steps * sizeof *step);
    if (!s.a) return IQ_MEMORY;
    s.b = s.a + a;
    s.stacks = s.b + b;
    step = (struct iq__sum_step *)(s.stacks + threads * s.stack);
    iq__sum_plan(p->k, p->unit, step);
    s.step = step;
    iq__train_split(x, s.tiles + s.panels, 8.0 * p->k, pack_items, &s);
    iq__train_split(x, s.tiles * s.panels, (double)TILE / 16 * p->k, sum_items, &s);
    return IQ_OK;
}
