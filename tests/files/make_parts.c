/* Parts of model files: weights in every format, GGUF keys. */
#include "kernels/base/digest.h"
#include "kernels/base/rng.h"
#include "tests/files/make_model.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

float iq_test_weight(uint64_t seed, const char *name, uint64_t i, float mean, float deviation)
{
    /* Four uniform numbers added: near enough to a normal one, and only exact steps. Variance 4/12. */
    uint64_t bits = iq_draw(seed ^ iq_digest_bytes(name, strlen(name)).lo, i, IQ_DRAW_DATA);
    int sum = 0;
    for (int k = 0; k < 4; k++) sum += (int)(bits >> 16 * k & 0xffff);
    return mean + deviation * 1.7320508f * ((float)sum - 131070.0f) / 65536.0f;
}

static uint16_t to_bf16(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* Finite values only; nearest even. */
static uint16_t to_f16(float x)
{
    uint16_t sign = signbit(x) ? 0x8000 : 0;
    int exponent;
    float fraction = frexpf(fabsf(x), &exponent); /* [0.5, 1) */
    if (fraction == 0) return sign;
    int unit = exponent - 11 < -24 ? -24 : exponent - 11; /* weight of the last bit */
    uint32_t q = (uint32_t)nearbyintf(ldexpf(fraction, exponent - unit));
    if (q == 2048) q = 1024, unit++;
    if (unit > 5) return sign | 0x7c00;
    return sign | (uint16_t)(q < 1024 ? q : (uint32_t)(unit + 25) << 10 | (q - 1024));
}

static float from_f16(uint16_t h)
{
    int e = h >> 10 & 31, m = h & 1023;
    float v = e ? ldexpf((float)(1024 + m), e - 25) : ldexpf((float)m, -24);
    return h & 0x8000 ? -v : v;
}

static void put16(struct iq_buf *b, uint16_t v) { iq_buf_put(b, &v, sizeof v); }

static int nearest(float x, float d, int lo, int hi)
{
    int q = d != 0 ? (int)nearbyintf(x / d) : 0;
    return q < lo ? lo : q > hi ? hi : q;
}

static void block_q8_0(struct iq_buf *b, const float *x)
{
    float most = 0;
    for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
    uint16_t d = to_f16(most / 127);
    put16(b, d);
    for (int i = 0; i < 32; i++) {
        signed char q = (signed char)nearest(x[i], from_f16(d), -127, 127);
        iq_buf_put(b, &q, 1);
    }
}

static void nibbles(struct iq_buf *b, const float *x, float d, float base)
{
    for (int i = 0; i < 16; i++) {
        int lo = nearest(x[i] - base, d, 0, 15), hi = nearest(x[i + 16] - base, d, 0, 15);
        unsigned char both = (unsigned char)(lo | hi << 4);
        iq_buf_put(b, &both, 1);
    }
}

static void block_q4_0(struct iq_buf *b, const float *x)
{
    float extreme = 0; /* the value of largest magnitude, with its sign, becomes -8 */
    for (int i = 0; i < 32; i++)
        if (fabsf(x[i]) > fabsf(extreme)) extreme = x[i];
    uint16_t d = to_f16(extreme / -8);
    put16(b, d);
    nibbles(b, x, from_f16(d), -8 * from_f16(d));
}

static void block_q4_1(struct iq_buf *b, const float *x)
{
    float lo = x[0], hi = x[0];
    for (int i = 1; i < 32; i++) lo = fminf(lo, x[i]), hi = fmaxf(hi, x[i]);
    uint16_t d = to_f16((hi - lo) / 15), m = to_f16(lo);
    put16(b, d);
    put16(b, m);
    nibbles(b, x, from_f16(d), from_f16(m));
}

static void one_f32(struct iq_buf *b, const float *x) { iq_buf_put(b, x, sizeof *x); }
static void one_f16(struct iq_buf *b, const float *x) { put16(b, to_f16(*x)); }
static void one_bf16(struct iq_buf *b, const float *x) { put16(b, to_bf16(*x)); }

void iq_test_encode(struct iq_buf *b, enum iq_format f, const float *x, size_t n)
{
    static void (*const block[IQ_FORMATS])(struct iq_buf *, const float *) = {
        [IQ_F32] = one_f32,     [IQ_F16] = one_f16,     [IQ_BF16] = one_bf16,
        [IQ_Q8_0] = block_q8_0, [IQ_Q4_0] = block_q4_0, [IQ_Q4_1] = block_q4_1};
    size_t step = iq_format_info(f)->elements;
    for (size_t i = 0; i + step <= n; i += step) block[f](b, x + i);
}

void iq_test_put_u32(struct iq_buf *b, uint32_t v) { iq_buf_put(b, &v, sizeof v); }
void iq_test_put_u64(struct iq_buf *b, uint64_t v) { iq_buf_put(b, &v, sizeof v); }

void iq_test_put_text(struct iq_buf *b, const char *s)
{
    iq_test_put_u64(b, strlen(s));
    iq_buf_put(b, s, strlen(s));
}

void iq_test_key_text(struct iq_buf *b, const char *key, const char *value)
{
    iq_test_put_text(b, key);
    iq_test_put_u32(b, 8);
    iq_test_put_text(b, value);
}

void iq_test_key_u32(struct iq_buf *b, const char *key, uint32_t value)
{
    iq_test_put_text(b, key);
    iq_test_put_u32(b, 4);
    iq_test_put_u32(b, value);
}

void iq_test_key_f32(struct iq_buf *b, const char *key, float value)
{
    iq_test_put_text(b, key);
    iq_test_put_u32(b, 6);
    iq_buf_put(b, &value, sizeof value);
}

void iq_test_key_bool(struct iq_buf *b, const char *key, bool value)
{
    iq_test_put_text(b, key);
    iq_test_put_u32(b, 7);
    iq_buf_put(b, value ? "\1" : "\0", 1);
}

int iq_test_write_file(const char *path, const void *bytes, size_t n, struct iq_err *err)
{
    FILE *f = fopen(path, "wb");
    if (!f) return iq_fail(err, IQ_IO, "%s: cannot be written: %s", path, strerror(errno));
    size_t wrote = fwrite(bytes, 1, n, f);
    int closed = fclose(f);
    return wrote == n && !closed ? IQ_OK : iq_fail(err, IQ_IO, "%s: write failed", path);
}
