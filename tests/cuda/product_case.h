/* A matmul on the device beside the same on the host: random weights, bias and strides. */
#ifndef IQ_TESTS_PRODUCT_CASE_H
#define IQ_TESTS_PRODUCT_CASE_H

#include "kernels/matrix.h"
#include "tests/cuda/device_case.h"
#include "tests/kernels/matmul_case.h"

struct product_case {
    struct iq_matmul host, on_device;
    struct iq_matrix matrix[IQ_MATMUL_PARTS], moved[IQ_MATMUL_PARTS];
    float *bias[IQ_MATMUL_PARTS], *x;
    uint8_t *raw[IQ_MATMUL_PARTS];
    struct output y[IQ_MATMUL_PARTS];
    /* NULL: the reference of matmul and its golden kernel. */
    int (*expect)(struct product_case *), (*launch)(struct product_case *);
    uint32_t profile, operand; /* theirs */
    bool special;              /* NaN and infinities among the weights */
    float scale;               /* of x; 0: 1 */
};

/* One block in forty: its element, or what its elements share. */
static inline void rows_spoil(uint8_t *raw, enum iq_format f, size_t bytes, uint64_t *seed)
{
    static const uint32_t odd[] = {0x7f800000, 0xff800000, 0x7fc00000, 0x80000000, 0x7f7fffff, 0x00000001};
    static const uint16_t odd_half[] = {0x7c00, 0xfc00, 0x7e01, 0x8000, 0x7bff, 0x0001};
    for (size_t i = 0; i < bytes; i += iq_format_info(f)->bytes) {
        uint32_t pick = dice(seed, 240);
        if (pick >= 6) continue;
        uint16_t half = f == IQ_BF16 ? (uint16_t)(odd[pick] >> 16) : odd_half[pick];
        if (f == IQ_F32)
            memcpy(raw + i, &odd[pick], 4);
        else
            put_half(raw + i, half);
    }
}

static inline void part_open(struct product_case *c, uint32_t p, enum iq_format f, uint32_t n, uint32_t k,
                             uint32_t sum_unit, bool odd, uint64_t *seed)
{
    struct random r = {*seed, 0};
    c->raw[p] = random_rows(&r, f, n, k, odd);
    if (c->special) rows_spoil(c->raw[p], f, n * iq_format_row_bytes(f, k), seed);
    c->matrix[p] = packed(f, n, k, sum_unit, c->raw[p]);
    c->moved[p] = c->matrix[p];
    c->moved[p].data = to_device(c->matrix[p].data, c->matrix[p].panels * c->matrix[p].panel_bytes);
    c->bias[p] = dice(seed, 2) ? new_floats(seed, n, odd) : NULL;
    struct iq_matmul_part *part = &c->host.part[p];
    *part = (struct iq_matmul_part){&c->matrix[p], c->bias[p], NULL, n + 1 + dice(seed, 3), dice(seed, 4)};
    part->y = malloc(c->host.rows * part->ldy * 4);
    c->y[p] = output_open(part->y, c->host.rows * part->ldy * 4);
    c->on_device.part[p] = *part;
    c->on_device.part[p].w = &c->moved[p];
    if (c->bias[p]) c->on_device.part[p].bias = to_device(c->bias[p], n * 4);
}

/* Fills x, takes what `expect` says and compares with what `launch` does, under every schedule; closes the case. */
static inline void product_check(struct product_case *c, uint64_t replay, uint64_t *seed, bool odd,
                                 const char *what)
{
    uint32_t width = 0;
    for (uint32_t p = 0; p < c->host.parts; p++) {
        uint32_t end = c->matrix[p].k + c->host.part[p].x_at;
        width = end > width ? end : width;
    }
    c->host.ldx = c->on_device.ldx = width + dice(seed, 3);
    c->x = new_floats(seed, c->host.rows * c->host.ldx, odd);
    for (size_t i = 0; c->scale != 0 && i < c->host.rows * c->host.ldx; i++) c->x[i] *= c->scale;
    c->host.x = c->x;
    ck_assert_int_eq(c->expect ? c->expect(c) : reference("matmul", &c->host), IQ_OK);
    c->on_device.rows = c->host.rows, c->on_device.parts = c->host.parts, c->on_device.act = c->host.act;
    c->on_device.x = to_device(c->x, c->host.rows * c->host.ldx * 4);
    for (unsigned s = 0; use_schedule(s, *seed); s++) {
        for (uint32_t p = 0; p < c->host.parts; p++) c->on_device.part[p].y = output_fresh(&c->y[p]);
        ck_assert_int_eq(c->launch ? c->launch(c) : device.kernels->matmul(&c->on_device, NULL), IQ_OK);
        for (uint32_t p = 0; p < c->host.parts; p++) output_check(&c->y[p], replay, s, what);
    }
    device_release();
    for (uint32_t p = 0; p < c->host.parts; p++)
        output_close(&c->y[p]), free(c->host.part[p].y), free(c->bias[p]), free(c->raw[p]),
            free((void *)c->matrix[p].data);
    free(c->x);
}

#endif
