/* Numbers and memory for made-up operands. */
#include "kernels/base/rng.h"
#include "kernels/vitro_parts.h"

#include <math.h>
#include <stdlib.h>

#define BYTES_MAX ((uint64_t)1 << 31) /* of any one buffer */

static uint64_t draw(struct iq__vitro *v)
{
    return iq_mix64(v->seed + ++v->drawn * UINT64_C(0x9e3779b97f4a7c15));
}
uint32_t iq__vitro_below(struct iq__vitro *v, uint32_t n) { return (uint32_t)((draw(v) >> 32) * n >> 32); }
int iq__vitro_integer(struct iq__vitro *v, int most)
{
    return (int)iq__vitro_below(v, 2 * (uint32_t)most + 1) - most;
}
/* In (-1, 1), with all of float32's significand in play. */
float iq__vitro_uniform(struct iq__vitro *v) { return ((float)(draw(v) >> 40) + 0.5f) * 0x1p-23f - 1; }

void *iq__vitro_reserve(struct iq__vitro *v, uint64_t count, uint64_t each, struct iq_err *err)
{
    uint64_t bytes;
    if (__builtin_mul_overflow(count, each, &bytes) || bytes > BYTES_MAX) {
        iq_fail(err, IQ_LIMIT, "in vitro: an operand of %llu elements is too large; choose a smaller shape",
                (unsigned long long)count);
        return NULL;
    }
    void *p = aligned_alloc(IQ_MATRIX_ALIGN, (bytes + IQ_MATRIX_ALIGN) / IQ_MATRIX_ALIGN * IQ_MATRIX_ALIGN);
    if (!p)
        iq_fail(err, IQ_MEMORY, "in vitro: no memory for %llu bytes", (unsigned long long)bytes);
    else
        v->buffer[v->buffers++] = p;
    return p;
}

int iq__vitro_refuse(const char *kind, const char *what, struct iq_err *err)
{
    return iq_fail(err, IQ_SHAPE, "in vitro: %s: %s", kind, what);
}

float *iq__vitro_input(struct iq__vitro *v, uint64_t floats, struct iq_err *err)
{
    v->in_floats = floats;
    return iq__vitro_reserve(v, floats, sizeof *v->in, err);
}

/* A row: one that holds a NaN, one that holds infinities, one of subnormals and both zeros, one of three values. */
static float odd_value(struct iq__vitro *v, uint32_t row, float now)
{
    switch (row % 4) {
    case 0:
        return iq__vitro_below(v, 16) ? now : NAN;
    case 1:
        return iq__vitro_below(v, 16) ? now : iq__vitro_below(v, 2) ? INFINITY : -INFINITY;
    case 2:
        return iq__vitro_below(v, 8)   ? ldexpf(iq__vitro_uniform(v), -130)
               : iq__vitro_below(v, 2) ? 0.0f
                                       : -0.0f;
    default:
        return (float)iq__vitro_integer(v, 1);
    }
}

void iq__vitro_odd(struct iq__vitro *v)
{
    uint64_t width = v->in_floats / v->shape.rows;
    for (uint64_t i = 0; width && i < v->in_floats; i++)
        v->in[i] = odd_value(v, (uint32_t)(i / width), v->in[i]);
}
