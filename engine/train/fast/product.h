/* The product for one instruction set. A register tile of TILE_M x TILE_N results takes vectors of b from a packed panel and
 * single elements of a, each spread over a vector: a lane is a result. Each chunk of k is one chain of fma per lane; then the
 * additions of the tree that the chunk completes (kernels/sum_plan.h).
 * A block of tiles goes through a panel chunk by chunk: the panel's chunk stays in the first cache, the block's part of a in
 * the second. Where a row of a lies along k it is read in place; elsewhere (the gradients of weights, the last rows) the
 * thread that has the block packs it.
 * Included after a vec_*.h, which decides the tile: all of its sums stay in registers. */

#if VL == 16
enum { TILE_M = 12, TILE_V = 2 };
#elif VL == 8
enum { TILE_M = 6, TILE_V = 2 };
#else
enum { TILE_M = 4, TILE_V = 2 };
#endif
enum { TILE_N = TILE_V * VL, TILE = TILE_M * TILE_N, TILES = 8 /* of a block */ };
enum {
    TRIO = 3,
    TRIOS = (TILE_M + TRIO - 1) / TRIO
}; /* rows that one address reaches: at 0, 1 and 2 strides */

#define EACH_CELL UNROLL for (int i = 0; i < TILE_M; i++) UNROLL for (int v = 0; v < TILE_V; v++)

struct product_work {
    const struct iq_train_product *p;
    const struct iq__sum_step *step;
    uint32_t steps;
    size_t tiles, blocks, panels; /* of TILE_M rows of y, of TILES tiles, of TILE_N columns */
    float *b;                     /* (panels, k, TILE_N) */
    float *rooms;                 /* (threads, room): a packed block, then (TILES, stack) */
    size_t room, stack;           /* floats; a tile's stack is (levels, TILE) */
};

/* Columns that are absent are zeros, as are absent rows: they make results that nobody stores. */
static void pack_panels(const void *ctx, size_t begin, size_t end, int part)
{
    const struct product_work *s = ctx;
    const struct iq_train_product *p = s->p;
    (void)part;
    for (size_t j = begin; j < end; j++) {
        const float *from = p->b + j * TILE_N * p->b_j;
        const size_t n = least(TILE_N, p->n - j * TILE_N);
        float *to = s->b + j * TILE_N * p->k;
        if (n < TILE_N) memset(to, 0, (size_t)p->k * TILE_N * sizeof *to);
        if (p->b_j == 1 && n == TILE_N) {
            for (size_t k = 0; k < p->k; k++) memcpy(to + k * TILE_N, from + k * p->b_k, TILE_N * sizeof *to);
        } else {
            for (size_t c = 0; c < n; c++)
                for (size_t k = 0; k < p->k; k++) to[k * TILE_N + c] = from[c * p->b_j + k * p->b_k];
        }
    }
}

/* A block's part of a as (steps, tiles, kc, TILE_M). What has the same k is copied for all tiles at once: it lies side by
 * side, and the next k may be a page further on. */
static void pack_block(const struct product_work *s, size_t tile0, size_t tiles, float *to)
{
    const struct iq_train_product *p = s->p;
    const size_t a_i = p->a_i, m = least(tiles * TILE_M, p->m - tile0 * TILE_M),
                 whole = a_i == 1 ? m / TILE_M : 0;
    if (m < tiles * TILE_M) memset(to, 0, tiles * TILE_M * p->k * sizeof *to);
    for (uint32_t c = 0; c < s->steps; c++) {
        const size_t kc = s->step[c].kc;
        for (size_t k = 0; k < kc; k++) {
            const float *from = p->a + tile0 * TILE_M * a_i + (s->step[c].k0 + k) * p->a_k;
            for (size_t t = 0; t < whole; t++)
                memcpy(to + (t * kc + k) * TILE_M, from + t * TILE_M, TILE_M * sizeof *to);
            for (size_t i = whole * TILE_M; i < m; i++)
                to[(i / TILE_M * kc + k) * TILE_M + i % TILE_M] = from[i * a_i];
        }
        to += tiles * TILE_M * kc;
    }
}

/* A tile's rows of a in a chunk: row i's element k is at[i * row + k * next]. */
struct tile_rows {
    const float *at;
    size_t row, next;
};

/* A step of a tile's sum. The last one's results go to `to`. */
static void sum_chunk(const struct product_work *s, const struct iq__sum_step *step,
                      const struct tile_rows *rows, const float *b, float *stack, float *to, size_t ldto)
{
    const size_t row = rows->row, next = rows->next;
    const float *a[TRIOS];
    vf acc[TILE_M * TILE_V];
    UNROLL for (int g = 0; g < TRIOS; g++) a[g] = rows->at + g * TRIO * row;
    EACH_CELL acc[i * TILE_V + v] = v_set1(0.0f);
    for (uint32_t k = 0; k < step->kc; k++, b += TILE_N) {
        vf w[TILE_V];
        UNROLL for (int v = 0; v < TILE_V; v++) w[v] = v_load(b + v * VL);
        EACH_CELL acc[i * TILE_V + v] = v_fma(v_set1(a[i / TRIO][i % TRIO * row]), w[v], acc[i * TILE_V + v]);
        UNROLL for (int g = 0; g < TRIOS; g++) a[g] += next;
    }
    float *top = stack + step->depth * (size_t)TILE;
    for (uint32_t p = 0; p < step->pops; p++) {
        top -= TILE;
        EACH_CELL acc[i * TILE_V + v] = v_add(v_load(top + i * TILE_N + v * VL), acc[i * TILE_V + v]);
    }
    if (step + 1 < s->step + s->steps)
        EACH_CELL v_store(top + i * TILE_N + v * VL, acc[i * TILE_V + v]);
    else
        EACH_CELL v_store(to + i * ldto + v * VL, v_canonical(acc[i * TILE_V + v]));
}

/* A step of a block and a panel. packed: the block's part of a, or NULL where its rows are read in place. */
static void sum_block(const struct product_work *s, const struct iq__sum_step *step, size_t tile0,
                      size_t panel, const float *packed, float *stacks)
{
    const struct iq_train_product *p = s->p;
    const size_t tiles = least(TILES, s->tiles - tile0), j = panel * TILE_N, n = least(TILE_N, p->n - j);
    const bool last = step + 1 == s->step + s->steps;
    float edge[TILE];
    for (size_t t = 0; t < tiles; t++) {
        const size_t i = (tile0 + t) * TILE_M, m = least(TILE_M, p->m - i);
        const bool whole = m == TILE_M && n == TILE_N;
        float *y = p->y + i * p->ldy + j;
        struct tile_rows rows = {p->a + i * p->a_i + step->k0, p->a_i, 1};
        if (packed) rows = (struct tile_rows){packed + (step->k0 * tiles + t * step->kc) * TILE_M, 1, TILE_M};
        sum_chunk(s, step, &rows, s->b + (j * p->k + (size_t)step->k0 * TILE_N), stacks + t * s->stack,
                  whole ? y : edge, whole ? p->ldy : TILE_N);
        for (size_t r = 0; r < m && last && !whole; r++)
            memcpy(y + r * p->ldy, edge + r * TILE_N, n * sizeof *y);
    }
}

/* Items are panels of blocks, block by block. */
static void sum_items(const void *ctx, size_t begin, size_t end, int part)
{
    const struct product_work *s = ctx;
    const struct iq_train_product *p = s->p;
    float *room = s->rooms + (size_t)part * s->room, *stacks = room + (size_t)TILES * TILE_M * p->k;
    for (size_t item = begin; item < end; item++) {
        const size_t tile0 = item / s->panels * TILES, tiles = least(TILES, s->tiles - tile0);
        const bool in_place = p->a_k == 1 && (tile0 + tiles) * TILE_M <= p->m;
        if (!in_place && (item == begin || item % s->panels == 0)) pack_block(s, tile0, tiles, room);
        for (uint32_t c = 0; c < s->steps; c++)
            sum_block(s, &s->step[c], tile0, item % s->panels, in_place ? NULL : room, stacks);
    }
}

static size_t whole_lines(size_t floats) { return (floats + 15) / 16 * 16; }

static int product(struct iq_exec *x, const struct iq_train_product *p)
{
    struct product_work s = {.p = p,
                             .steps = iq__train_steps(p),
                             .tiles = (p->m + (size_t)TILE_M - 1) / TILE_M,
                             .panels = (p->n + (size_t)TILE_N - 1) / TILE_N,
                             .stack = iq__train_levels(p) * (size_t)TILE};
    const size_t threads = (size_t)iq_pool_threads(x->pool), b = whole_lines(s.panels * TILE_N * p->k);
    struct iq__sum_step *step;
    s.blocks = (s.tiles + TILES - 1) / TILES;
    s.room = whole_lines(TILES * ((size_t)TILE_M * p->k + s.stack));
    s.b = iq_exec_scratch(x, (b + threads * s.room) * sizeof *s.b + s.steps * sizeof *step);
    if (!s.b) return IQ_MEMORY;
    s.rooms = s.b + b;
    step = (struct iq__sum_step *)(s.rooms + threads * s.room);
    iq__train_plan(p, step);
    s.step = step;
    iq__train_split(x, s.panels, 8.0 * p->k, pack_panels, &s);
    iq__train_split(x, s.blocks * s.panels, (double)TILES * TILE / 16 * p->k, sum_items, &s);
    return IQ_OK;
}
