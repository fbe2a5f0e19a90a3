/* The kinds all_to_all, grouped_matmul and combine: what taps, firing logs and triggers see of them. */
#include "kernels/kind/rows.h"
#include "kernels/matrix.h"
#include "kernels/op.h"
#include "kernels/ops/moe.h"
#include "kernels/tables.h"

/* ---- all_to_all ---- */

static uint32_t exchange_rows(const void *args) { return ((const struct iq_all_to_all *)args)->rows; }

static struct iq_run exchange_at(const void *args, unsigned point)
{
    const struct iq_all_to_all *a = args;
    size_t n = (size_t)a->k * a->n;
    return (struct iq_run){a->y, n, point == 0 ? n : 0};
}
IQ__ROWS(exchange_, exchange_at)

static const char *const exchange_fields[] = {"rows", "n", "k", "experts", "ranks", "back", "bytes", NULL};

/* bytes: of all slots, whether they change ranks or not. */
static uint64_t exchange_field(const void *args, unsigned index)
{
    const struct iq_all_to_all *a = args;
    const uint64_t value[] = {
        a->rows, a->n, a->k, a->experts, a->ranks, a->back, (uint64_t)a->rows * a->k * a->n * sizeof(float)};
    return value[index];
}

const struct iq_kind iq__kind_all_to_all = {.name = "all_to_all",
                                            .args_size = sizeof(struct iq_all_to_all),
                                            .rows = exchange_rows,
                                            .row_bytes = exchange_row_bytes,
                                            .get = exchange_get,
                                            .put = exchange_put,
                                            .runs = exchange_runs,
                                            .elem = sizeof(float),
                                            .fields = exchange_fields,
                                            .field = exchange_field};

/* ---- grouped_matmul ---- */

static uint32_t grouped_rows(const void *args) { return ((const struct iq_grouped_matmul *)args)->rows; }

/* Point p is the output of part p: all slots of the row, those of other ranks' experts as well. */
static struct iq_run grouped_at(const void *args, unsigned point)
{
    const struct iq_grouped_matmul *a = args;
    if (point >= a->parts) return (struct iq_run){0};
    size_t n = (size_t)a->slots * a->part[point].w->n;
    return (struct iq_run){a->part[point].y, n, n};
}
IQ__ROWS(grouped_, grouped_at)

/* Of the whole call: rows, slots, parts, the rank's experts; of the first part's weights: n, k, unit, format. */
static const char *const grouped_fields[] = {"rows",   "slots", "n",       "k",       "unit",
                                             "format", "parts", "expert0", "experts", NULL};

static uint64_t grouped_field(const void *args, unsigned index)
{
    const struct iq_grouped_matmul *a = args;
    const struct iq_matrix *w = a->part[0].w;
    const uint64_t value[] = {a->rows,   a->slots, w->n,       w->k,      w->unit,
                              w->format, a->parts, a->expert0, a->experts};
    return value[index];
}

const struct iq_kind iq__kind_grouped_matmul = {.name = "grouped_matmul",
                                                .args_size = sizeof(struct iq_grouped_matmul),
                                                .rows = grouped_rows,
                                                .row_bytes = grouped_row_bytes,
                                                .get = grouped_get,
                                                .put = grouped_put,
                                                .runs = grouped_runs,
                                                .elem = sizeof(float),
                                                .fields = grouped_fields,
                                                .field = grouped_field};

/* ---- combine ---- */

static uint32_t combine_rows(const void *args) { return ((const struct iq_combine *)args)->rows; }

static struct iq_run combine_at(const void *args, unsigned point)
{
    const struct iq_combine *a = args;
    return (struct iq_run){a->y, a->ldy, point == 0 ? a->n : 0};
}
IQ__ROWS(combine_, combine_at)

static const char *const combine_fields[] = {"rows", "n", "k", NULL};

static uint64_t combine_field(const void *args, unsigned index)
{
    const struct iq_combine *a = args;
    const uint64_t value[] = {a->rows, a->n, a->k};
    return value[index];
}

const struct iq_kind iq__kind_combine = {.name = "combine",
                                         .args_size = sizeof(struct iq_combine),
                                         .rows = combine_rows,
                                         .row_bytes = combine_row_bytes,
                                         .get = combine_get,
                                         .put = combine_put,
                                         .runs = combine_runs,
                                         .elem = sizeof(float),
                                         .fields = combine_fields,
                                         .field = combine_field};
