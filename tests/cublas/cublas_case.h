/* A product on a device by one of cuBLAS's variants, and by the reference on the host. */
#ifndef IQ_TESTS_CUBLAS_CASE_H
#define IQ_TESTS_CUBLAS_CASE_H

#include "kernels/cublas/handle.h"
#include "kernels/cublas/unpack.h"
#include "kernels/cublas/variants.h"
#include "kernels/matrix.h"
#include "tests/cuda/device_case.h"
#include "tests/kernels/matmul_case.h"

#include <math.h>

static struct iq_cuda *cuda;
static struct iq_exec on_device;

/* The device of device_case.h, as variants see it. */
static inline void cuda_open(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_cuda_open(device.shim, 0, &cuda, &err), "%s", err.text);
    on_device = (struct iq_exec){.cuda = cuda};
}

static inline void cuda_close(void)
{
    device_release();
    iq_cublas_close(cuda);
    iq_cuda_close(cuda);
    cuda = NULL;
}

static inline const struct iq_variant *variant(const char *name)
{
    for (size_t i = 0; iq_cublas_variants[i]; i++)
        if (!strcmp(iq_cublas_variants[i]->name, name)) return iq_cublas_variants[i];
    ck_abort_msg("no variant %s", name);
    return NULL;
}

/* A variant with its parameters; the rest as by default. */
struct chosen {
    const struct iq_variant *v;
    double params[32];
};

static inline void choose(struct chosen *c, const char *param, double value)
{
    for (const struct iq_param *p = c->v->params; p->name; p++)
        if (!strcmp(p->name, param)) {
            ck_assert_msg(p->lo <= value && value <= p->hi, "%s = %g is out of range", param, value);
            c->params[p->offset / sizeof(double)] = value;
            return;
        }
    ck_abort_msg("%s has no parameter %s", c->v->name, param);
}

static inline struct chosen chosen(const char *name, unsigned type)
{
    struct chosen c = {.v = variant(name)};
    ck_assert_uint_le(c.v->params_size, sizeof c.params);
    for (const struct iq_param *p = c.v->params; p->name; p++) choose(&c, p->name, p->def);
    choose(&c, "type", type);
    return c;
}

static inline void pin(struct chosen *c, const struct iq_cublas_algo *a)
{
#define X(field, theirs, attribute, type) choose(c, #field, a->field);
    IQ_CUBLAS_ALGO_MAP(X)
#undef X
}

/* One part: y (rows, n). w: packed, on the host. */
struct product {
    uint32_t rows;
    struct iq_matrix host, moved;
    float *x; /* (rows, k) on the host */
    const float *x_moved;
};

static inline void product_open(struct product *p, uint32_t rows, struct iq_matrix w, float *x)
{
    *p = (struct product){rows, w, w, x, NULL};
    p->moved.data = to_device(w.data, w.panels * w.panel_bytes);
    p->x_moved = to_device(x, (size_t)rows * w.k * sizeof *x);
}

static inline struct iq_matmul product_args(const struct product *p, uint32_t rows, float *y)
{
    struct iq_matmul m = {.rows = rows, .parts = 1, .x = p->x_moved, .ldx = p->host.k};
    m.part[0] = (struct iq_matmul_part){&p->moved, NULL, y, p->host.n, 0};
    return m;
}

/* The first `rows` rows by a variant; the caller frees y. */
static inline float *product_run(const struct product *p, const struct chosen *c, uint32_t rows)
{
    size_t bytes = (size_t)rows * p->host.n * sizeof(float);
    float *y = malloc(bytes), *moved = device_room(bytes);
    struct iq_matmul m = product_args(p, rows, moved);
    ck_assert_msg(!c->v->run(&on_device, NULL, &m, c->params, NULL), "%s", cuda->err.text);
    device_ok(cuda->api->stream_sync(cuda->stream), "a product");
    from_device(y, moved, bytes);
    return y;
}

/* A float as the type's numbers hold it. */
static inline double held(unsigned type, float f)
{
    if (type == IQ_CUBLAS_BF16) return iq_bf16_to_f32(iq_f32_to_bf16(f));
    if (type == IQ_CUBLAS_FP16) return iq_f16_to_f32(iq_f32_to_f16(f));
    return f;
}

/* The largest distance to the exact products, in units of what rounding may do: operands to the type's significand, then a
 * sum of k terms whose every addition may lose 2^-22 of the sizes so far (tensor cores cut where a CPU rounds). At most 1:
 * within. */
static inline double product_distance(const struct product *p, unsigned type, const float *y, uint32_t rows)
{
    double worst = 0, unit = ldexp(1, -(int)iq_cublas_types[type].significand);
    float *w = malloc(p->host.k * sizeof *w);
    if (type == IQ_CUBLAS_TF32) unit *= 2; /* cut, not rounded */
    if (type == IQ_CUBLAS_FP32) unit = 0;
    for (uint32_t o = 0; o < p->host.n; o++) {
        iq_matrix_row(&p->host, o, w);
        for (uint32_t r = 0; r < rows; r++) {
            double sum = 0, size = 0;
            for (uint32_t k = 0; k < p->host.k; k++) {
                double term = (double)p->x[(size_t)r * p->host.k + k] * w[k];
                sum += term, size += fabs(term);
            }
            double most = size * (2 * unit + unit * unit + p->host.k * 0x1p-22) + 0x1p-120;
            double far = fabs(y[(size_t)r * p->host.n + o] - sum) / most;
            worst = far > worst || far != far ? far : worst;
        }
    }
    free(w);
    return worst;
}

#endif
