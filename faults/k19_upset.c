/* K19: one bit of a weight, an activation, a stored key or value, or a rank's sum is upset. For the call: memory is put back,
 * except what the op's result keeps. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/base/rng.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum where { RESULT, INPUT, WEIGHT };

struct params {
    double where, bit, element, row, seed;
};

#define WHERE(help, most)                                                                                    \
    {"where", help, RESULT, RESULT, most, offsetof(struct params, where)},                                   \
        {"bit", "which bit, 31 the sign of a float32; modulo the width of what is stored; -1: drawn",        \
         27,    -1,                                                                                          \
         31,    offsetof(struct params, bit)},                                                               \
        {"element", "which element of the row, or of the weights, modulo their number; -1: drawn",           \
         -1,        -1,                                                                                      \
         0x1p53,    offsetof(struct params, element)},                                                       \
        {"row",  "which row of the call, modulo their number; -1: drawn",                                    \
         -1,     -1,                                                                                         \
         0x1p31, offsetof(struct params, row)},                                                              \
        {"seed", "of what is drawn; each call draws anew", 0, 0, 1e9, offsetof(struct params, seed)},        \
    {                                                                                                        \
        0                                                                                                    \
    }

static const struct iq_param result_table[] = {WHERE("0: the op's result", RESULT)};
static const struct iq_param input_table[] = {
    WHERE("0: the op's result; 1: a rank's sum that it reads", INPUT)};
static const struct iq_param weight_table[] = {
    WHERE("0: the op's result; 1: an activation that it reads; 2: a weight as it is stored", WEIGHT)};

/* What strikes in this call. */
struct upset {
    uint32_t bit, row;
    uint64_t element;
};

static uint64_t choose(double asked, uint64_t drawn, uint64_t n)
{
    uint64_t value = asked < 0 ? drawn : (uint64_t)asked;
    return n ? value % n : 0;
}

static struct upset upset_of(const struct iq_site *site, const struct params *p, uint32_t rows,
                             uint64_t elements)
{
    uint64_t step = site->step ? site->step->step : 0;
    uint64_t place = (uint64_t)iq_op_number(site->op) << 32 | (uint64_t)site->layer << 16 | site->rank;
    struct iq_philox a = iq_philox(iq_mix64((uint64_t)p->seed), (uint64_t)IQ_DRAW_FAULT << 60 | place, step);
    if (site->rows && site->rows < rows) rows = site->rows; /* padding is nobody's */
    return (struct upset){(uint32_t)choose(p->bit, a.v[0], 32), (uint32_t)choose(p->row, a.v[1], rows),
                          choose(p->element, (uint64_t)a.v[3] << 32 | a.v[2], elements)};
}

static void flip(void *word, uint32_t bit)
{
    uint8_t *byte = (uint8_t *)word + bit / 8;
    *byte = (uint8_t)(*byte ^ 1u << bit % 8);
}

/* ---- the result ---- */

/* Which point of the kind holds element `at` of a row, all points one after the other; at becomes its place there. */
static unsigned point_of(const struct iq_kind *kind, const void *args, uint64_t *at)
{
    unsigned point = 0;
    for (size_t n; (n = kind->row_bytes(args, point) / 4) != 0 && *at >= n; point++) *at -= n;
    return point;
}

static int result(const struct iq_site *site, const char *name, const void *args, const struct params *p)
{
    const struct iq_kind *kind = iq_kind_find(name);
    uint64_t elements = 0;
    size_t most = 0;
    for (unsigned point = 0; kind->row_bytes(args, point); point++) {
        size_t n = kind->row_bytes(args, point);
        elements += n / 4;
        most = n > most ? n : most;
    }
    if (!elements || !kind->rows(args)) return IQ_OK;
    struct upset u = upset_of(site, p, kind->rows(args), elements);
    unsigned point = point_of(kind, args, &u.element);
    uint8_t *row = malloc(2 * most); /* what `get` makes, and what is put back */
    if (!row) return IQ_MEMORY;
    size_t n = kind->row_bytes(args, point);
    memmove(row, kind->get(args, point, u.row, row + most), n);
    flip(row + 4 * u.element, u.bit);
    kind->put(args, point, u.row, row);
    free(row);
    return IQ_OK;
}

/* ---- an input ---- */

static int activation(struct iq_exec *x, const struct iq_site *site, const struct iq_matmul *a,
                      const struct params *p)
{
    struct iq_matmul one = *a;
    uint32_t width = a->part[0].w->k; /* all parts of a call read these columns, or each has its own */
    struct upset u = upset_of(site, p, a->rows, width);
    size_t bytes = a->ldx * sizeof(float);
    float *row = malloc(bytes);
    if (!row) return IQ_MEMORY;
    memcpy(row, a->x + u.row * a->ldx, ((size_t)a->part[0].x_at + width) * sizeof *row);
    for (uint32_t i = 1; i < a->parts; i++)
        memcpy(row + a->part[i].x_at, a->x + u.row * a->ldx + a->part[i].x_at, a->part[i].w->k * sizeof *row);
    flip(row + a->part[0].x_at + u.element, u.bit);
    one.rows = 1, one.x = row;
    for (uint32_t i = 0; i < a->parts; i++) one.part[i].y = a->part[i].y + u.row * a->part[i].ldy;
    int status = iq__run_golden(x, site, "matmul", &one);
    free(row);
    return status;
}

static int piece(struct iq_exec *x, const struct iq_site *site, const struct iq_all_reduce *a,
                 const struct params *p)
{
    struct iq_all_reduce one = *a;
    struct iq_piece from[IQ_REDUCE_PIECES] = {{0}};
    struct upset u = upset_of(site, p, a->rows, (uint64_t)a->n * a->pieces);
    if (!a->n || !a->pieces || a->pieces > IQ_REDUCE_PIECES) return IQ_SHAPE;
    float *row = malloc(a->n * sizeof *row);
    if (!row) return IQ_MEMORY;
    for (uint32_t i = 0; i < a->pieces; i++) {
        from[i] = a->piece[i];
        from[i].x += u.row * from[i].ldx;
    }
    memcpy(row, from[u.element / a->n].x, a->n * sizeof *row);
    flip(row + u.element % a->n, u.bit);
    from[u.element / a->n].x = row;
    one.rows = 1, one.piece = from, one.y = a->y + u.row * a->ldy;
    int status = iq__run_golden(x, site, "all_reduce", &one);
    free(row);
    return status;
}

/* ---- a weight ---- */

/* Where element (output j of the panel, column k) is stored, and how many bits it has there. */
static uint8_t *stored(uint8_t *panel, enum iq_format f, uint32_t j, uint32_t k, uint32_t *bits,
                       uint32_t *shift)
{
    uint32_t in = k % (uint32_t)iq_format_info(f)->elements;
    uint8_t *block = panel + iq__panel_at(f, k - in);
    *shift = 0;
    switch (f) {
    case IQ_F32:
        return *bits = 32, block + 4 * (size_t)j;
    case IQ_F16:
        return *bits = 16, block + 2 * (size_t)j;
    case IQ_BF16: /* two columns share a dword, the even one in its low half */
        return *bits = 16, panel + 4 * ((size_t)k / 2 * IQ_PANEL + j) + 2 * (size_t)(k % 2);
    case IQ_Q8_0:
        return *bits = 8, block + 2 * (size_t)IQ_PANEL + (size_t)in * IQ_PANEL + j;
    default: { /* nibbles: eight columns share a dword */
        size_t head = (f == IQ_Q4_1 ? 4 : 2) * (size_t)IQ_PANEL;
        *shift = in % 8 * 4;
        return *bits = 4, block + head + 4 * ((size_t)in / 8 * IQ_PANEL + j);
    }
    }
}

/* The panel of 64 outputs that holds the weight is copied, and its products are made again from the copy. */
static int weight(struct iq_exec *x, const struct iq_site *site, const struct iq_matmul *a,
                  const struct params *p)
{
    const struct iq_matmul_part *part = &a->part[0];
    const struct iq_matrix *w = part->w;
    struct upset u = upset_of(site, p, a->rows, (uint64_t)w->n * w->k);
    uint32_t output = (uint32_t)(u.element / w->k), panel = output / IQ_PANEL, bits, shift;
    struct iq_matrix copy = *w;
    size_t bytes = (w->panel_bytes + IQ_MATRIX_ALIGN - 1) / IQ_MATRIX_ALIGN * IQ_MATRIX_ALIGN;
    uint8_t *made = aligned_alloc(IQ_MATRIX_ALIGN, bytes);
    if (!made) return IQ_MEMORY;
    memcpy(made, w->data + panel * w->panel_bytes, w->panel_bytes);
    uint8_t *at = stored(made, (enum iq_format)w->format, output % IQ_PANEL, (uint32_t)(u.element % w->k),
                         &bits, &shift);
    flip(at, shift + u.bit % bits);
    copy.data = made, copy.panels = 1;
    copy.n = w->n - panel * IQ_PANEL < IQ_PANEL ? w->n - panel * IQ_PANEL : (uint32_t)IQ_PANEL;
    struct iq_matmul one = *a;
    one.parts = 1, one.part[0].w = &copy;
    one.part[0].y = part->y + (size_t)panel * IQ_PANEL;
    one.part[0].bias = part->bias ? part->bias + (size_t)panel * IQ_PANEL : NULL;
    int status = iq__run_golden(x, site, "matmul", &one);
    free(made);
    return status;
}

/* ---- records ---- */

static int run(struct iq_exec *x, const struct iq_site *site, const char *kind, const void *args,
               const struct params *p)
{
    IQ_TRY(iq__run_golden(x, site, kind, args));
    if (p->where == RESULT) return result(site, kind, args, p);
    if (!strcmp(kind, "all_reduce")) return piece(x, site, args, p);
    return p->where == INPUT ? activation(x, site, args, p) : weight(x, site, args, p);
}

#define UPSET(id, of, variant, table, its)                                                                   \
    static int run_##id(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params, \
                        void *state)                                                                         \
    {                                                                                                        \
        (void)state;                                                                                         \
        return run(x, site, of, args, params);                                                               \
    }                                                                                                        \
    const struct iq_variant iq__k19_##id = {                                                                 \
        .kind = of,                                                                                          \
        .name = variant,                                                                                     \
        .device = "cpu",                                                                                     \
        .flags = IQ_V_FAULTY | IQ_V_ROW_LOCAL | IQ_V_COUNTS_ROWS,                                            \
        .run = run_##id,                                                                                     \
        .params = table,                                                                                     \
        .params_size = sizeof(struct params),                                                                \
        .what = "one bit of " its " is upset in each call that it strikes",                                  \
        .needs = "nothing; with a low `rate` it is what cosmic rays and worn-out chips do",                  \
        .story = "A flip-flop or a memory cell turns over, or an arithmetic unit is marginal: one bit is "   \
                 "wrong, nothing "                                                                           \
                 "reports it. Six of 419 interruptions of the training of Llama 3 were silent data "         \
                 "corruption (arXiv "                                                                        \
                 "2407.21783); fleets see it in about one machine of a thousand (arXiv 2102.11245).",        \
        .expect =                                                                                            \
            of ": one element differs, by a power of two or without measure; the same call again is right",  \
    };

UPSET(matmul, "matmul", "matmul_upset", weight_table, "a weight, an activation or a product")
UPSET(add, "add", "add_upset", result_table, "an activation in the residual stream")
UPSET(rmsnorm, "rmsnorm", "norm_upset", result_table, "a normed activation")
UPSET(attention, "attention", "attention_upset", result_table, "attention's result")
UPSET(kv_write, "kv_write", "kv_upset", result_table, "a key or a value, where it stays stored,")
UPSET(all_reduce, "all_reduce", "reduce_upset", input_table, "a rank's sum or of the sum of all")
