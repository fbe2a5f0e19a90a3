/* The kinds seed, product and adamw: what firing logs and triggers see of them. */
#include "kernels/ops/train.h"
#include "kernels/kind/rows.h"
#include "kernels/tables.h"

/* ---- seed: one number a call ---- */

static uint32_t one_row(const void *args) { return (void)args, 1; }

static struct iq_run seed_at(const void *args, unsigned point)
{
    return (struct iq_run){((const struct iq_seed *)args)->seed, 0, point == 0 ? 2 : 0};
}
IQ__ROWS(seed_, seed_at)

static const char *const seed_fields[] = {"given", NULL};

static uint64_t seed_field(const void *args, unsigned index)
{
    (void)index;
    return ((const struct iq_seed *)args)->given;
}

const struct iq_kind iq__kind_seed = {.name = "seed",
                                      .args_size = sizeof(struct iq_seed),
                                      .rows = one_row,
                                      .row_bytes = seed_row_bytes,
                                      .get = seed_get,
                                      .put = seed_put,
                                      .runs = seed_runs,
                                      .elem = sizeof(uint32_t),
                                      .fields = seed_fields,
                                      .field = seed_field};

/* ---- product ---- */

static uint32_t product_rows(const void *args) { return ((const struct iq_train_product *)args)->m; }

static struct iq_run product_at(const void *args, unsigned point)
{
    const struct iq_train_product *p = args;
    return (struct iq_run){p->y, p->ldy, point == 0 ? p->n : 0};
}
IQ__ROWS(product_, product_at)

static const char *const product_fields[] = {"m", "n", "k", "unit", NULL};

static uint64_t product_field(const void *args, unsigned index)
{
    const struct iq_train_product *p = args;
    const uint64_t value[] = {p->m, p->n, p->k, p->unit};
    return value[index];
}

const struct iq_kind iq__kind_product = {.name = "product",
                                         .args_size = sizeof(struct iq_train_product),
                                         .rows = product_rows,
                                         .row_bytes = product_row_bytes,
                                         .get = product_get,
                                         .put = product_put,
                                         .runs = product_runs,
                                         .elem = sizeof(float),
                                         .fields = product_fields,
                                         .field = product_field};

/* ---- adamw: one row, a tensor's weights, means and squares ---- */

static struct iq_run adamw_at(const void *args, unsigned point)
{
    const struct iq_train_adamw *a = args;
    float *const of[] = {a->w, a->m, a->v};
    return point < 3 ? (struct iq_run){of[point], a->n, a->n} : (struct iq_run){0};
}
IQ__ROWS(adamw_, adamw_at)

static const char *const adamw_fields[] = {"n", NULL};

static uint64_t adamw_field(const void *args, unsigned index)
{
    (void)index;
    return ((const struct iq_train_adamw *)args)->n;
}

const struct iq_kind iq__kind_adamw = {.name = "adamw",
                                       .args_size = sizeof(struct iq_train_adamw),
                                       .rows = one_row,
                                       .row_bytes = adamw_row_bytes,
                                       .get = adamw_get,
                                       .put = adamw_put,
                                       .runs = adamw_runs,
                                       .elem = sizeof(float),
                                       .fields = adamw_fields,
                                       .field = adamw_field};
