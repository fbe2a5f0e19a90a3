/* Drives the tiles: who computes which part of which panel, and in what order memory is walked.
 *
 * Rows that fit one tile: each panel is streamed once and expanded in registers. More rows are cut into tiles of equal
 * height; of each chunk, the first tile also stores the expanded weights (32 KiB, they stay in L1) and the others read
 * those. Up to ROW_BLOCK rows share an expansion.
 *
 * Threads share the call's work, all parts together, as one list of items: the panels, each cut once more (into halves,
 * or where there are many tiles into these), so that nine panels divide well by two. What is computed for an output
 * does not depend on the cut. */
#include "kernels/cpu/product.h"
#include "kernels/arith.h"
#include "kernels/sum_plan.h"

#include <string.h>

enum {
    ROW_BLOCK = 192,                   /* rows that share an expansion; their stack should stay in L2 */
    LINE = 64,                         /* bytes of a cache line */
    PACK_TOGETHER = 1 << 17,           /* bytes of x from which on packing is worth a meeting of threads */
    EXPANDED = IQ_CHUNK * IQ_PANEL * 4 /* bytes */
};

static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }

/* Where part i of `parts` begins when n is cut into parts whose sizes differ by at most one. */
static uint32_t cut(uint32_t n, uint32_t parts, uint32_t i)
{
    uint32_t base = n / parts, rest = n % parts;
    return i * base + (i < rest ? i : rest);
}

struct part {
    const struct iq_matmul_part *out;
    const struct iq_matrix *w;
    const struct iq__sum_step *step;
    uint32_t steps;
    uint32_t x;    /* index in job.x */
    uint64_t cost; /* of an item of this part, in columns */
};

/* Columns of x as tiles read them: packed, or for one row as they are. */
struct packed {
    uint32_t x_at, k;
    size_t row_floats; /* k rounded up to whole lines */
    float *room;       /* NULL: not packed */
};

struct job {
    const struct iq__tiles *isa;
    const struct iq_matmul *m;
    struct part part[IQ_MATMUL_PARTS];
    struct packed x[IQ_MATMUL_PARTS];
    uint32_t n_x;
    uint32_t tiles, blocks;  /* of rows: tiles in all, blocks of tiles that share an expansion */
    uint32_t height, taller; /* rows of a tile; the first `taller` tiles have one more */
    uint32_t sub;     /* items of a panel in a block: 2 halves, or for several tiles the most in a block */
    uint64_t cost;    /* of a block */
    uint8_t *threads; /* each thread's scratch: expanded weights, stack */
    size_t thread_bytes;
};

static uint32_t first_row(const struct job *j, uint32_t tile)
{
    return tile * j->height + (tile < j->taller ? tile : j->taller); /* called per tile: no division */
}

bool iq__product_supports(const struct iq_matmul *m)
{
    for (uint32_t i = 0; i < m->parts; i++) {
        const struct iq_matrix *w = m->part[i].w;
        uint32_t whole = w->format >= IQ_Q8_0 ? 32 : IQ__X_LINE;
        if (w->unit < w->k && w->unit % whole) return false;
    }
    return true;
}

/* ---- the call's shape ---- */

static void cut_rows(struct job *j)
{
    const struct iq_matmul *m = j->m;
    uint32_t most = IQ__TILE_ROWS;
    for (uint32_t i = 0; i < m->parts; i++)
        most = (uint32_t)smaller(most, j->isa->rows_alone[m->part[i].w->format]);
    j->tiles = m->rows <= most ? 1 : (uint32_t)ceil_div(m->rows, j->isa->rows_many);
    j->blocks = (uint32_t)ceil_div(j->tiles, ROW_BLOCK / j->isa->rows_many);
    j->sub = j->tiles == 1 ? IQ_PANEL / IQ__HALF_PANEL : (uint32_t)ceil_div(j->tiles, j->blocks);
    j->height = m->rows / j->tiles;
    j->taller = m->rows % j->tiles;
}

static uint32_t find_x(struct job *j, uint32_t x_at, uint32_t k)
{
    uint32_t i = 0;
    while (i < j->n_x && (j->x[i].x_at != x_at || j->x[i].k != k)) i++;
    if (i == j->n_x)
        j->x[j->n_x++] = (struct packed){x_at, k, (size_t)ceil_div(k, IQ__X_LINE) * IQ__X_LINE, NULL};
    return i;
}

static void describe_parts(struct job *j)
{
    for (uint32_t i = 0; i < j->m->parts; i++) {
        const struct iq_matmul_part *out = &j->m->part[i];
        const struct iq_matrix *w = out->w;
        j->part[i] = (struct part){.out = out,
                                   .w = w,
                                   .steps = iq__sum_steps(w->k, w->unit),
                                   .x = find_x(j, out->x_at, w->k),
                                   .cost = w->k};
        j->cost += (uint64_t)w->panels * j->sub * w->k;
    }
}

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static uint8_t *take(uint8_t **at, size_t bytes)
{
    uint8_t *p = *at;
    *at += lines(bytes);
    return p;
}

static struct job describe(const struct iq__tiles *isa, const struct iq_matmul *m)
{
    struct job j = {.isa = isa, .m = m};
    cut_rows(&j);
    describe_parts(&j);
    return j;
}

/* Bytes of scratch: plans, packed x, each thread's own. None of these sizes overflows: packed x is at most 16 copies of an
 * x that is in memory, the plans are smaller than the weights. */
static size_t measure(struct job *j, int threads)
{
    const uint32_t rows = j->m->rows, block_rows = (uint32_t)smaller(rows, ROW_BLOCK + IQ__TILE_ROWS);
    size_t plans = 0, x = 0;
    uint32_t levels = 0;
    for (uint32_t i = 0; i < j->m->parts; i++) {
        uint32_t own = iq__sum_levels(j->part[i].w->k, j->part[i].w->unit);
        levels = own > levels ? own : levels;
        plans += lines(j->part[i].steps * sizeof *j->part[i].step);
    }
    for (uint32_t i = 0; i < j->n_x && rows > 1; i++) x += lines(rows * j->x[i].row_floats * sizeof(float));
    j->thread_bytes = EXPANDED + lines((size_t)levels * block_rows * IQ_PANEL * sizeof(float));
    return plans + x + (size_t)threads * j->thread_bytes;
}

/* Gives out the scratch that was measured. */
static void furnish(struct job *j, uint8_t *at, int threads)
{
    const uint32_t rows = j->m->rows;
    j->threads = take(&at, (size_t)threads * j->thread_bytes);
    for (uint32_t i = 0; i < j->n_x && rows > 1; i++)
        j->x[i].room = (float *)take(&at, rows * j->x[i].row_floats * sizeof(float));
    for (uint32_t i = 0; i < j->m->parts; i++) {
        struct part *p = &j->part[i];
        struct iq__sum_step *step = (struct iq__sum_step *)take(&at, p->steps * sizeof *step);
        iq__sum_plan(p->w->k, p->w->unit, step);
        p->step = step;
    }
}

/* ---- packing x ---- */

static void pack_tile(const struct job *j, const struct packed *x, uint32_t tile)
{
    const struct iq_matmul *m = j->m;
    uint32_t begin = first_row(j, tile), rows = first_row(j, tile + 1) - begin;
    const float *from = m->x + begin * m->ldx + x->x_at;
    float *to = x->room + begin * x->row_floats;
    for (uint32_t k = 0; k < x->k; k += IQ__X_LINE, to += rows * IQ__X_LINE) {
        size_t present = smaller(IQ__X_LINE, x->k - k); /* columns past k are never read */
        for (uint32_t r = 0; r < rows; r++)
            if (present == IQ__X_LINE)
                memcpy(to + r * IQ__X_LINE, from + r * m->ldx + k, sizeof(float[IQ__X_LINE]));
            else
                memcpy(to + r * IQ__X_LINE, from + r * m->ldx + k, present * sizeof(float));
    }
}

static void pack_x(void *ctx, int thread, int threads)
{
    const struct job *j = ctx;
    for (uint32_t i = 0; i < j->n_x; i++)
        for (uint32_t t = cut(j->tiles, threads, thread); t < cut(j->tiles, threads, thread + 1); t++)
            pack_tile(j, &j->x[i], t);
}

/* ---- one panel ---- */

struct piece {            /* of the panels of a part: what one item or several cover */
    uint32_t tile, tiles; /* tiles of rows */
    uint32_t begin, end;  /* outputs of the panel */
};

/* A panel with absent outputs goes through the stack, so that y is not written past its row. */
static void copy_out(const struct job *j, const struct part *p, const float *sums, uint32_t panel,
                     struct piece c)
{
    uint32_t end = (uint32_t)smaller(c.end, p->w->n - panel * IQ_PANEL), row = first_row(j, c.tile);
    for (uint32_t r = row; r < first_row(j, c.tile + c.tiles); r++, sums += IQ_PANEL)
        for (uint32_t o = c.begin; o < end; o++) {
            float y = sums[o];
            if (p->out->bias) y = y + p->out->bias[panel * IQ_PANEL + o];
            p->out->y[r * p->out->ldy + panel * IQ_PANEL + o] = iq_canonical(y);
        }
}

static void round_out(const struct job *j, const struct part *p, uint32_t panel, struct piece c)
{
    uint32_t end = (uint32_t)smaller(c.end, p->w->n - panel * IQ_PANEL);
    for (uint32_t r = first_row(j, c.tile); r < first_row(j, c.tile + c.tiles); r++)
        iq_act_round_row(p->out->y + r * p->out->ldy + panel * IQ_PANEL + c.begin, end - c.begin, j->m->act);
}

static iq__tile_fn *choose(const struct job *j, const struct part *p, struct piece c, uint32_t tile,
                           uint32_t rows)
{
    const struct iq__tiles *isa = j->isa;
    if (j->tiles == 1) {
        iq__tile_fn *half = c.end - c.begin < IQ_PANEL ? isa->half[rows][p->w->format] : NULL;
        return half ? half : isa->alone[rows][p->w->format];
    }
    return tile == c.tile || p->w->format == IQ_F32 ? isa->leading[rows][p->w->format] : isa->following[rows];
}

static void run_panel(const struct job *j, const struct part *p, uint32_t panel, struct piece c, uint8_t *own)
{
    const struct iq_matrix *w = p->w;
    const struct packed *x = &j->x[p->x];
    const uint32_t row0 = first_row(j, c.tile), rows = first_row(j, c.tile + c.tiles) - row0;
    const bool whole = c.end <= w->n - panel * IQ_PANEL;
    if (c.begin >= w->n - panel * IQ_PANEL) return;
    float *stack = (float *)(own + EXPANDED);
    struct iq__tile t = {.begin = c.begin,
                         .end = c.end,
                         .level = (size_t)rows * IQ_PANEL,
                         .bias = p->out->bias ? p->out->bias + panel * IQ_PANEL : NULL,
                         .expanded = (float *)own};
    const size_t whole_chunk = iq__panel_at(w->format, IQ_CHUNK);
    const uint8_t *chunk = w->data + panel * w->panel_bytes, *next;
    for (uint32_t i = 0; i < p->steps; i++, chunk = next) {
        const struct iq__sum_step *s = &p->step[i];
        next = chunk + (s->kc == IQ_CHUNK ? whole_chunk : iq__panel_at(w->format, s->kc));
        t.finish = whole && i == p->steps - 1;
        t.kc = s->kc;
        t.pops = s->pops;
        t.ahead = (const char *)next;
        t.to_row = t.finish ? p->out->ldy : IQ_PANEL;
        for (uint32_t tile = c.tile, row = row0, n; tile < c.tile + c.tiles; tile++, row += n) {
            n = first_row(j, tile + 1) - row;
            float *top = stack + s->depth * t.level + (size_t)(row - row0) * IQ_PANEL;
            iq__tile_fn *kernel = choose(j, p, c, tile, n);
            t.w = kernel == j->isa->following[n] ? (const uint8_t *)t.expanded : chunk;
            t.x = x->room ? x->room + row * x->row_floats + (size_t)s->k0 * n : j->m->x + x->x_at + s->k0;
            t.stack = top;
            t.to = t.finish ? p->out->y + row * p->out->ldy + panel * IQ_PANEL : top - s->pops * t.level;
            kernel(&t);
            if (t.ahead >= (const char *)next + whole_chunk) t.ahead = (const char *)next;
        }
    }
    if (!whole) copy_out(j, p, stack, panel, c);
    if (j->m->act != IQ_ACT_F32) round_out(j, p, panel, c);
}

/* ---- all of it ---- */

/* Items [begin, end) of a part in a block of rows, as pieces of its panels. */
static void run_items(const struct job *j, const struct part *p, uint32_t block, uint64_t begin, uint64_t end,
                      uint8_t *own)
{
    const uint32_t tile0 = cut(j->tiles, j->blocks, block),
                   tiles = cut(j->tiles, j->blocks, block + 1) - tile0;
    while (begin < end) {
        uint32_t panel = (uint32_t)(begin / j->sub), from = (uint32_t)(begin % j->sub);
        uint32_t to = (uint32_t)smaller(j->sub, from + (end - begin));
        begin += to - from;
        struct piece c = {tile0, tiles, 0, IQ_PANEL};
        if (j->tiles == 1) {
            c.begin = from * IQ__HALF_PANEL;
            c.end = to * IQ__HALF_PANEL;
        } else { /* a block may have a tile less than j->sub */
            c.tile = tile0 + (uint32_t)smaller(from, tiles);
            c.tiles = tile0 + (uint32_t)smaller(to, tiles) - c.tile;
        }
        if (c.tiles) run_panel(j, p, panel, c, own);
    }
}

static void run_share(void *ctx, int thread, int threads)
{
    const struct job *j = ctx;
    uint8_t *own = j->threads + (size_t)thread * j->thread_bytes;
    /* Shares of the cost, not of the items: parts of a row-parallel projection differ in k. */
    const uint64_t each = j->cost / (unsigned)threads, rest = j->cost % (unsigned)threads;
    const uint64_t begin = each * (unsigned)thread + smaller(rest, (unsigned)thread);
    const uint64_t end = begin + each + ((unsigned)thread < rest);
    for (uint32_t b = 0; b < j->blocks; b++) {
        uint64_t at = 0;
        for (uint32_t i = 0; i < j->m->parts; i++) {
            const struct part *p = &j->part[i];
            uint64_t items = (uint64_t)p->w->panels * j->sub, all = items * p->cost;
            uint64_t from = begin > at ? smaller(items, ceil_div(begin - at, p->cost)) : 0;
            uint64_t to = end > at ? smaller(items, ceil_div(end - at, p->cost)) : 0;
            run_items(j, p, b, from, to, own);
            at += all;
        }
    }
}

int iq__product_run(const struct iq__tiles *isa, struct iq_exec *exec, const struct iq_matmul *m)
{
    if (!m->rows || !m->parts) return IQ_OK;
    struct job j = describe(isa, m);
    struct iq_pool *pool = j.cost / j.sub * IQ_PANEL * m->rows < IQ__WORTH_THREADS ? NULL : exec->pool;
    uint8_t *scratch = iq_exec_scratch(exec, measure(&j, iq_pool_threads(pool)));
    if (!scratch) return IQ_MEMORY;
    furnish(&j, scratch, iq_pool_threads(pool));
    if (m->rows > 1) {
        size_t bytes = 0;
        for (uint32_t i = 0; i < j.n_x; i++) bytes += m->rows * j.x[i].row_floats * sizeof(float);
        iq_pool_run(bytes < PACK_TOGETHER ? NULL : pool, pack_x, &j);
    }
    iq_pool_run(pool, run_share, &j);
    return IQ_OK;
}

size_t iq__product_bytes(const struct iq__tiles *isa, const struct iq_matmul *m)
{
    struct job j = describe(isa, m);
    return measure(&j, 1);
}

void iq__product_alone(const struct iq__tiles *isa, const struct iq_matmul *m, void *scratch)
{
    struct job j = describe(isa, m);
    measure(&j, 1);
    furnish(&j, scratch, 1);
    if (m->rows > 1) pack_x(&j, 0, 1);
    run_share(&j, 0, 1);
}
