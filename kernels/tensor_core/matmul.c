/* Matrix products by tensor-core arithmetic: the op's y = x W^T with x and W rounded to the operand format and one chain
 * of blocks over all of a part's K.
 *
 * x is decoded once per call and range of columns. Work is cut into pieces of panels, dealt to the threads by cost; a
 * thread decodes IQ__TC_COLUMNS columns of a piece at a time and takes all rows through them. No bit depends on the cut:
 * every output is its own chain. */
#include "kernels/arith.h"
#include "kernels/tensor_core/tile.h"

#include <stdbool.h>
#include <string.h>

enum {
    LINE = 64, /* bytes of a cache line */
    PIECES = IQ_PANEL / IQ__TC_PIECE,
    WORTH_THREADS = 1 << 14, /* products, or values of x, from which on a meeting of threads pays */
};

static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

/* A range of columns of x, decoded. */
struct range {
    uint32_t x_at, k;
    size_t stride; /* k rounded up to whole blocks */
    float *value;
    int16_t *exponent;
};

struct job {
    const struct iq__tc_form *form;
    const struct iq_tc_profile *profile;
    enum iq_tc_format format;
    const struct iq_matmul *m;
    struct range range[IQ_MATMUL_PARTS];
    uint32_t ranges, of_part[IQ_MATMUL_PARTS]; /* index of the part's range */
    uint64_t cost;                             /* of all pieces, in columns */
    uint8_t *own;                              /* each thread's scratch */
    size_t own_bytes;
};

uint32_t iq__tc_exact(const struct iq__tc_tile *t, uint32_t row, uint32_t column, uint32_t output, uint32_t c)
{
    const float *x = t->x.value + row * t->x.stride + column;
    const uint32_t n = t->profile->products;
    uint16_t a[IQ_TC_BLOCK], b[IQ_TC_BLOCK];
    for (uint32_t i = 0; i < n; i++) {
        float w = t->w->value[column + i][output];
        bool half = t->format == IQ_TC_F16;
        a[i] = half ? iq_f32_to_f16(x[i]) : iq_f32_to_bf16(x[i]);
        b[i] = half ? iq_f32_to_f16(w) : iq_f32_to_bf16(w);
    }
    return iq_tc_block(t->profile, t->format, a, b, n, c);
}

static uint32_t range_of(struct job *j, uint32_t x_at, uint32_t k)
{
    uint32_t i = 0, n = j->profile->products;
    while (i < j->ranges && (j->range[i].x_at != x_at || j->range[i].k != k)) i++;
    if (i == j->ranges)
        j->range[j->ranges++] = (struct range){x_at, k, ((size_t)k + n - 1) / n * n, NULL, NULL};
    return i;
}

/* Gives out the scratch. None of these sizes overflows: decoded x is at most 16 times twice an x that is in memory. */
static int furnish(struct job *j, struct iq_exec *exec, int threads)
{
    const size_t rows = j->m->rows;
    size_t x = 0;
    for (uint32_t i = 0; i < j->ranges; i++)
        x += lines(rows * j->range[i].stride * sizeof(float)) +
             lines(rows * j->range[i].stride * sizeof(int16_t));
    j->own_bytes = lines(sizeof(struct iq__tc_weights)) + rows * sizeof(float[IQ_PANEL]);
    uint8_t *at = iq_exec_scratch(exec, x + (size_t)threads * j->own_bytes);
    if (!at) return IQ_MEMORY;
    j->own = at;
    at += (size_t)threads * j->own_bytes;
    for (uint32_t i = 0; i < j->ranges; i++) {
        const size_t elements = rows * j->range[i].stride;
        j->range[i].value = (float *)at;
        j->range[i].exponent = (int16_t *)(at + lines(elements * sizeof(float)));
        at += lines(elements * sizeof(float)) + lines(elements * sizeof(int16_t));
    }
    return IQ_OK;
}

static void decode_x(void *ctx, int thread, int threads)
{
    const struct job *j = ctx;
    const struct iq_matmul *m = j->m;
    int begin, end;
    iq_slice((int)m->rows, thread, threads, &begin, &end);
    for (uint32_t i = 0; i < j->ranges; i++) {
        const struct range *g = &j->range[i];
        for (size_t r = (size_t)begin; r < (size_t)end; r++)
            j->form->row(j->format, m->x + r * m->ldx + g->x_at, g->k, (uint32_t)g->stride,
                         g->value + r * g->stride, g->exponent + r * g->stride);
    }
}

static void write_out(const struct iq_matmul *m, const struct iq_matmul_part *p, const float *sum,
                      uint32_t first, uint32_t end)
{
    for (uint32_t r = 0; r < m->rows; r++, sum += IQ_PANEL) {
        float *y = p->y + r * p->ldy;
        for (uint32_t o = first; o < end; o++) {
            float s = sum[o % IQ_PANEL];
            if (p->bias) s = s + p->bias[o];
            y[o] = iq_act_round(s, m->act);
        }
    }
}

static void run_piece(const struct job *j, uint32_t part, uint32_t piece, uint8_t *own)
{
    const struct iq_matmul_part *p = &j->m->part[part];
    const struct iq_matrix *w = p->w;
    const struct range *g = &j->range[j->of_part[part]];
    const uint32_t first = piece * IQ__TC_PIECE, panel = piece / PIECES, present = w->n - first;
    struct iq__tc_weights *decoded = (struct iq__tc_weights *)own;
    struct iq__tc_tile t = {.profile = j->profile,
                            .format = j->format,
                            .w = decoded,
                            .rows = j->m->rows,
                            .first = first % IQ_PANEL,
                            .sum = (float *)(own + lines(sizeof *decoded))};
    memset(t.sum, 0, t.rows * sizeof(float[IQ_PANEL]));
    for (uint32_t k = 0; k < g->stride; k += t.columns) {
        const uint8_t *columns = w->data + panel * w->panel_bytes + iq__panel_at(w->format, k);
        const uint32_t left = w->k - k;
        t.columns = g->stride - k < IQ__TC_COLUMNS ? (uint32_t)(g->stride - k) : IQ__TC_COLUMNS;
        t.x = (struct iq__tc_rows){g->value + k, g->exponent + k, g->stride};
        j->form->weights(j->format, w->format, columns, left < t.columns ? left : t.columns, t.columns,
                         t.first, decoded);
        j->form->tile(&t);
    }
    write_out(j->m, p, t.sum, first, first + (present < IQ__TC_PIECE ? present : IQ__TC_PIECE));
}

static uint32_t pieces_of(const struct iq_matrix *w)
{
    return w->n / IQ__TC_PIECE + (w->n % IQ__TC_PIECE != 0);
}

/* A thread takes the pieces that begin in its share of the cost. */
static void run_share(void *ctx, int thread, int threads)
{
    const struct job *j = ctx;
    const uint64_t begin = j->cost * (unsigned)thread / (unsigned)threads,
                   end = j->cost * ((unsigned)thread + 1) / (unsigned)threads;
    uint64_t at = 0;
    for (uint32_t part = 0; part < j->m->parts; part++)
        for (uint32_t i = 0; i < pieces_of(j->m->part[part].w); i++, at += j->m->part[part].w->k)
            if (at >= begin && at < end) run_piece(j, part, i, j->own + (size_t)thread * j->own_bytes);
}

int iq__tc_run(const struct iq__tc_form *form, enum iq_tc_profile_id profile, enum iq_tc_format format,
               struct iq_exec *exec, const struct iq_matmul *m)
{
    struct job j = {.form = form, .profile = &iq_tc_profiles[profile], .format = format, .m = m};
    if (!m->rows || !m->parts) return IQ_OK;
    uint64_t values = 0;
    for (uint32_t i = 0; i < m->parts; i++) {
        const struct iq_matrix *w = m->part[i].w;
        j.of_part[i] = range_of(&j, m->part[i].x_at, w->k);
        j.cost += (uint64_t)pieces_of(w) * w->k;
    }
    for (uint32_t i = 0; i < j.ranges; i++) values += m->rows * (uint64_t)j.range[i].k;
    struct iq_pool *pool = j.cost * IQ__TC_PIECE * m->rows < WORTH_THREADS ? NULL : exec->pool;
    IQ_TRY(furnish(&j, exec, iq_pool_threads(pool)));
    iq_pool_run(values < WORTH_THREADS ? NULL : pool, decode_x, &j);
    iq_pool_run(pool, run_share, &j);
    return IQ_OK;
}
