/* Calls of matmul for the tests of its variants: random weights and activations in several parts, outputs with gaps, and
 * what they should hold. All values come from a seed. */
#ifndef IQ_TESTS_MATMUL_CALL_H
#define IQ_TESTS_MATMUL_CALL_H

#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/matmul.h"
#include "tests/kernels/matmul_case.h"

enum { CALL_PARTS = 3, CALL_OUTPUTS = 256, CALL_THREADS = 3 };

struct call {
    struct iq_matmul m; /* its outputs are `want` */
    struct iq_matrix w[CALL_PARTS];
    float *x, *bias;
    float *want[CALL_PARTS]; /* (floats); 0x55 until somebody writes them, the gaps between rows for good */
    size_t floats[CALL_PARTS];
};

/* A part to be made. */
struct call_part {
    enum iq_format format;
    uint32_t n, k, unit, x_at; /* n: at most CALL_OUTPUTS */
};

static inline uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

/* rows, parts and act are there. */
static inline void call_begin(struct call *c, struct random *r, struct iq_matmul m, int odd)
{
    *c = (struct call){.m = m};
    c->bias = malloc(CALL_OUTPUTS * sizeof *c->bias);
    for (int o = 0; o < CALL_OUTPUTS; o++) c->bias[o] = value(r, odd);
}

static inline void call_part(struct call *c, struct random *r, uint32_t p, struct call_part as, int odd)
{
    uint8_t *raw = random_rows(r, as.format, as.n, as.k, odd);
    c->w[p] = packed(as.format, as.n, as.k, as.unit, raw);
    free(raw);
    const size_t ldy = as.n + below(r, 3), width = as.x_at + as.k;
    c->floats[p] = c->m.rows * ldy;
    c->want[p] = malloc(c->floats[p] * sizeof(float));
    memset(c->want[p], 0x55, c->floats[p] * sizeof(float));
    c->m.part[p] = (struct iq_matmul_part){
        .w = &c->w[p], .y = c->want[p], .ldy = ldy, .x_at = as.x_at, .bias = below(r, 3) ? NULL : c->bias};
    if (width > c->m.ldx) c->m.ldx = width;
}

/* x, when all parts are there. */
static inline void call_end(struct call *c, struct random *r, int odd, float (*element)(struct random *, int))
{
    c->m.ldx += below(r, 3);
    c->x = malloc(c->m.rows * c->m.ldx * sizeof(float));
    for (size_t i = 0; i < c->m.rows * c->m.ldx; i++) c->x[i] = element(r, odd);
    c->m.x = c->x;
}

static inline void call_free(struct call *c)
{
    for (uint32_t p = 0; p < c->m.parts; p++) {
        free((void *)c->w[p].data);
        free(c->want[p]);
    }
    free(c->x);
    free(c->bias);
}

/* Runs a variant into fresh outputs and compares all of them, the gaps between rows too. */
static inline void call_compare(const struct call *c, const struct iq_variant *v, struct iq_exec *exec,
                                uint64_t seed)
{
    struct iq_matmul m = c->m;
    float *y[CALL_PARTS];
    for (uint32_t p = 0; p < m.parts; p++) {
        m.part[p].y = y[p] = malloc(c->floats[p] * sizeof(float));
        memset(y[p], 0x55, c->floats[p] * sizeof(float));
    }
    if (exec->scratch)
        memset(exec->scratch, 0xff, exec->scratch_cap); /* NaN: shows a read of what nobody wrote */
    ck_assert_int_eq(v->run(exec, NULL, &m, NULL, NULL), IQ_OK);
    for (uint32_t p = 0; p < m.parts; p++) {
        ck_assert_msg(!memcmp(y[p], c->want[p], c->floats[p] * sizeof(float)),
                      "%s with %d threads: part %u of %u (%s, rows %u, n %u, k %u, unit %u, act %u) differs; "
                      "replay: IQ_TEST_SEED=%llu IQ_TEST_CASES=1",
                      v->name, iq_pool_threads(exec->pool), p, m.parts, iq_format_info(c->w[p].format)->name,
                      m.rows, c->w[p].n, c->w[p].k, c->w[p].unit, m.act, (unsigned long long)seed);
        free(y[p]);
    }
}

/* Of 1, 2 and 3 threads. */
static inline void call_pools_open(struct iq_exec exec[CALL_THREADS])
{
    memset(exec, 0, CALL_THREADS * sizeof *exec);
    for (int t = 1; t < CALL_THREADS; t++) ck_assert_int_eq(iq_pool_open(t + 1, &exec[t].pool, NULL), IQ_OK);
}

static inline void call_pools_close(struct iq_exec exec[CALL_THREADS])
{
    for (int t = 0; t < CALL_THREADS; t++) {
        iq_pool_close(exec[t].pool);
        iq_exec_close(&exec[t]);
    }
}

#endif
