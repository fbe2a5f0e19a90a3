/* Random weights and activations for the tests of packed matrices and products. All values come from a seed. */
#ifndef IQ_TESTS_MATMUL_CASE_H
#define IQ_TESTS_MATMUL_CASE_H

#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/matrix.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

struct random {
    uint64_t seed, at;
};

static inline uint32_t draw(struct random *r)
{
    return (uint32_t)(iq_draw(r->seed, r->at++, IQ_DRAW_DATA) >> 16);
}
static inline uint32_t below(struct random *r, uint32_t n) { return draw(r) % n; }
static inline float unit(struct random *r) { return (float)((int32_t)draw(r) >> 7) * 0x1p-24f; }

/* Ordinary values; or, `odd`, a wide range with subnormals and signed zeros, all finite. */
static inline float value(struct random *r, int odd)
{
    float f = unit(r);
    if (!odd) return f;
    switch (below(r, 8)) {
    case 0:
        return 0.0f;
    case 1:
        return -0.0f;
    case 2:
        return f * 0x1p-140f;
    case 3:
        return f * 0x1p-126f;
    case 4:
        return f * 0x1p30f;
    default:
        return f * iq_bits_f32((97 + below(r, 60)) << 23);
    }
}

static inline uint16_t half_value(struct random *r, int odd)
{
    uint16_t h = (uint16_t)draw(r);
    if (odd) return (h & 0x7c00) == 0x7c00 ? h & 0x83ff : h;
    return (uint16_t)((0x2000 + (h & 0x7ff)) | (h & 0x8000));
}

static inline void put_half(uint8_t *p, uint16_t h) { memcpy(p, &h, sizeof h); }

/* n stored rows of k, as a model file has them. */
static inline uint8_t *random_rows(struct random *r, enum iq_format f, uint32_t n, uint32_t k, int odd)
{
    const struct iq_format_info *info = iq_format_info(f);
    size_t bytes = n * iq_format_row_bytes(f, k);
    uint8_t *raw = malloc(bytes + !bytes);
    for (size_t i = 0; i < bytes; i++) raw[i] = (uint8_t)draw(r);
    for (size_t i = 0; i < bytes; i += info->bytes) {
        float v = value(r, odd);
        uint16_t top;
        memcpy(&top, (uint8_t *)&v + 2, sizeof top);
        if (f == IQ_F32) memcpy(raw + i, &v, sizeof v);
        if (f == IQ_BF16) put_half(raw + i, top);
        if (f == IQ_F16 || f >= IQ_Q8_0) put_half(raw + i, half_value(r, odd));
        if (f == IQ_Q4_1) put_half(raw + i + 2, half_value(r, odd));
    }
    return raw;
}

static inline void *aligned(size_t bytes)
{
    void *p = aligned_alloc(IQ_MATRIX_ALIGN, (bytes + IQ_MATRIX_ALIGN) / IQ_MATRIX_ALIGN * IQ_MATRIX_ALIGN);
    ck_assert_ptr_nonnull(p);
    return p;
}

/* The matrix owns its panels; free((void *)m.data). */
static inline struct iq_matrix packed(enum iq_format f, uint32_t n, uint32_t k, uint32_t sum_unit,
                                      const uint8_t *raw)
{
    struct iq_matrix m;
    struct iq_err err = {0};
    const struct iq_matrix_source from = {.raw = raw, .row_bytes = iq_format_row_bytes(f, k)};
    void *into = aligned(iq_matrix_bytes(f, n, k));
    memset(into, 0xff, iq_matrix_bytes(f, n, k));
    ck_assert_msg(!iq_matrix_pack(&m, f, n, k, sum_unit, &from, into, &err), "%s", err.text);
    return m;
}

#endif
