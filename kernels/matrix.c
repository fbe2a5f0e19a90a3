#include "kernels/matrix.h"
#include "kernels/arith.h"

#include <string.h>

enum { QUANT = 32, HALF = 2 }; /* elements of a quantised block; bytes of its float16 */

static inline uint16_t load16(const uint8_t *p)
{
    uint16_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load32(const uint8_t *p)
{
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline float load_half(const uint8_t *p) { return iq_f16_to_f32(load16(p)); }

/* ---- one stored block of 32 to values ---- */

static void values_f32(const uint8_t *raw, uint32_t k, float *out) { memcpy(out, raw, 4 * (size_t)k); }

static void values_f16(const uint8_t *raw, uint32_t k, float *out)
{
    for (uint32_t i = 0; i < k; i++) out[i] = load_half(raw + HALF * (size_t)i);
}

static void values_bf16(const uint8_t *raw, uint32_t k, float *out)
{
    for (uint32_t i = 0; i < k; i++) out[i] = iq_bits_f32((uint32_t)load16(raw + HALF * (size_t)i) << 16);
}

static inline float value_q8_0(float d, int q) { return d * (float)q; }       /* exact: 11 + 8 bits */
static inline float value_q4_0(float d, int q) { return d * (float)(q - 8); } /* exact */
static inline float value_q4_1(float d, float m, int q) { return IQ_FMAF(d, (float)q, m); } /* one rounding */

static inline int stored_nibble(const uint8_t *q, int i) { return i < 16 ? q[i] & 15 : q[i - 16] >> 4; }

static void values_q8_0(const uint8_t *raw, uint32_t k, float *out)
{
    for (; k; k -= QUANT, raw += 34, out += QUANT)
        for (int i = 0; i < QUANT; i++) out[i] = value_q8_0(load_half(raw), (int8_t)raw[HALF + i]);
}

static void values_q4_0(const uint8_t *raw, uint32_t k, float *out)
{
    for (; k; k -= QUANT, raw += 18, out += QUANT)
        for (int i = 0; i < QUANT; i++) out[i] = value_q4_0(load_half(raw), stored_nibble(raw + HALF, i));
}

static void values_q4_1(const uint8_t *raw, uint32_t k, float *out)
{
    for (; k; k -= QUANT, raw += 20, out += QUANT)
        for (int i = 0; i < QUANT; i++)
            out[i] = value_q4_1(load_half(raw), load_half(raw + HALF), stored_nibble(raw + 2 * HALF, i));
}

/* ---- stored rows to a panel: k outside, outputs inside, so that whole cache lines are written ---- */

static void pack_f32(uint8_t *to, const uint8_t *const *row, uint32_t rows, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++, to += 4 * IQ_PANEL)
        for (uint32_t j = 0; j < rows; j++) memcpy(to + 4 * j, row[j] + 4 * (size_t)i, 4);
}

static void pack_f16(uint8_t *to, const uint8_t *const *row, uint32_t rows, uint32_t k)
{
    for (uint32_t i = 0; i < k; i++, to += HALF * IQ_PANEL)
        for (uint32_t j = 0; j < rows; j++) memcpy(to + HALF * j, row[j] + HALF * (size_t)i, HALF);
}

static void pack_bf16(uint8_t *to, const uint8_t *const *row, uint32_t rows, uint32_t k)
{
    uint32_t i = 0;
    for (; i + 2 <= k; i += 2, to += 4 * IQ_PANEL)
        for (uint32_t j = 0; j < rows; j++) memcpy(to + 4 * j, row[j] + HALF * (size_t)i, 4);
    if (i < k)
        for (uint32_t j = 0; j < rows; j++) memcpy(to + 4 * j, row[j] + HALF * (size_t)i, HALF);
}

static void pack_q8_0(uint8_t *to, const uint8_t *const *row, uint32_t rows, uint32_t k)
{
    for (size_t at = 0; k; k -= QUANT, at += 34) {
        for (uint32_t j = 0; j < rows; j++) memcpy(to + HALF * j, row[j] + at, HALF);
        to += HALF * IQ_PANEL;
        for (size_t i = 0; i < QUANT; i++, to += IQ_PANEL)
            for (uint32_t j = 0; j < rows; j++) to[j] = row[j][at + HALF + i];
    }
}

/* The low nibbles of 8 bytes, the first byte's lowest. */
static inline uint32_t gather_nibbles(uint64_t x)
{
    x &= 0x0f0f0f0f0f0f0f0fu;
    x = (x | x >> 4) & 0x00ff00ff00ff00ffu;
    x = (x | x >> 8) & 0x0000ffff0000ffffu;
    return (uint32_t)(x | x >> 16);
}

static inline void pack_nibbles(uint8_t *to, uint32_t j, const uint8_t *q)
{
    uint64_t half[2];
    memcpy(half, q, sizeof half);
    const uint32_t word[4] = {gather_nibbles(half[0]), gather_nibbles(half[1]), gather_nibbles(half[0] >> 4),
                              gather_nibbles(half[1] >> 4)};
    for (uint32_t i = 0; i < 4; i++) memcpy(to + 4 * (i * IQ_PANEL + j), &word[i], 4);
}

static void pack_q4_0(uint8_t *to, const uint8_t *const *row, uint32_t rows, uint32_t k)
{
    for (size_t at = 0; k; k -= QUANT, at += 18, to += 18 * IQ_PANEL)
        for (uint32_t j = 0; j < rows; j++) {
            memcpy(to + HALF * j, row[j] + at, HALF);
            pack_nibbles(to + HALF * IQ_PANEL, j, row[j] + at + HALF);
        }
}

static void pack_q4_1(uint8_t *to, const uint8_t *const *row, uint32_t rows, uint32_t k)
{
    for (size_t at = 0; k; k -= QUANT, at += 20, to += 20 * IQ_PANEL)
        for (uint32_t j = 0; j < rows; j++) {
            const uint8_t *block = row[j] + at;
            memcpy(to + HALF * j, block, HALF);
            memcpy(to + HALF * (IQ_PANEL + j), block + HALF, HALF);
            pack_nibbles(to + 2 * HALF * IQ_PANEL, j, block + 2 * HALF);
        }
}

/* ---- a row of a panel to values; the panel's pointer stands at the row's own place in each line ---- */

static void unpack_f32(const uint8_t *p, uint32_t j, uint32_t k, float *out)
{
    for (uint32_t i = 0; i < k; i++, p += 4 * IQ_PANEL) memcpy(out + i, p + 4 * j, 4);
}

static void unpack_f16(const uint8_t *p, uint32_t j, uint32_t k, float *out)
{
    for (uint32_t i = 0; i < k; i++, p += HALF * IQ_PANEL) out[i] = load_half(p + HALF * j);
}

static void unpack_bf16(const uint8_t *p, uint32_t j, uint32_t k, float *out)
{
    for (uint32_t i = 0; i < k; i++)
        out[i] = iq_bits_f32((uint32_t)load16(p + 4 * ((size_t)i / 2 * IQ_PANEL + j) + HALF * (i % 2)) << 16);
}

static void unpack_q8_0(const uint8_t *p, uint32_t j, uint32_t k, float *out)
{
    for (; k; k -= QUANT, p += 34 * IQ_PANEL)
        for (uint32_t i = 0; i < QUANT; i++)
            *out++ = value_q8_0(load_half(p + HALF * j), (int8_t)p[(HALF + i) * IQ_PANEL + j]);
}

static inline int packed_nibble(const uint8_t *q, uint32_t j, uint32_t i)
{
    return load32(q + 4 * (i / 8 * IQ_PANEL + j)) >> 4 * (i % 8) & 15;
}

static void unpack_q4_0(const uint8_t *p, uint32_t j, uint32_t k, float *out)
{
    for (; k; k -= QUANT, p += 18 * IQ_PANEL)
        for (uint32_t i = 0; i < QUANT; i++)
            *out++ = value_q4_0(load_half(p + HALF * j), packed_nibble(p + HALF * IQ_PANEL, j, i));
}

static void unpack_q4_1(const uint8_t *p, uint32_t j, uint32_t k, float *out)
{
    for (; k; k -= QUANT, p += 20 * IQ_PANEL)
        for (uint32_t i = 0; i < QUANT; i++)
            *out++ = value_q4_1(load_half(p + HALF * j), load_half(p + HALF * (IQ_PANEL + j)),
                                packed_nibble(p + 2 * HALF * IQ_PANEL, j, i));
}

/* ---- the table, and what is made from it ---- */

static const struct layout {
    uint32_t elements, bytes; /* of one output's share of a panel's block */
    void (*values)(const uint8_t *raw, uint32_t k, float *out);
    void (*pack)(uint8_t *panel, const uint8_t *const *row, uint32_t rows, uint32_t k);
    void (*unpack)(const uint8_t *panel, uint32_t j, uint32_t k, float *out);
} layouts[IQ_FORMATS] = {
    [IQ_F32] = {1, 4, values_f32, pack_f32, unpack_f32},
    [IQ_F16] = {1, 2, values_f16, pack_f16, unpack_f16},
    [IQ_BF16] = {2, 4, values_bf16, pack_bf16, unpack_bf16},
    [IQ_Q8_0] = {32, 34, values_q8_0, pack_q8_0, unpack_q8_0},
    [IQ_Q4_0] = {32, 18, values_q4_0, pack_q4_0, unpack_q4_0},
    [IQ_Q4_1] = {32, 20, values_q4_1, pack_q4_1, unpack_q4_1},
};

static uint32_t panels_of(uint32_t n) { return n / IQ_PANEL + (n % IQ_PANEL != 0); }

size_t iq__panel_at(enum iq_format format, uint32_t k)
{
    const struct layout *l = &layouts[format];
    return ((size_t)k + l->elements - 1) / l->elements * l->bytes * IQ_PANEL;
}

size_t iq_matrix_bytes(enum iq_format format, uint32_t n, uint32_t k)
{
    size_t bytes;
    if (k % iq_format_info(format)->elements) return 0;
    return __builtin_mul_overflow(iq__panel_at(format, k), panels_of(n), &bytes) ? 0 : bytes;
}

static int check(enum iq_format format, uint32_t n, uint32_t k, uint32_t unit,
                 const struct iq_matrix_source *from, const void *into, struct iq_err *err)
{
    const struct iq_format_info *f = iq_format_info(format);
    if (!n || !k || !unit)
        return iq_fail(err, IQ_SHAPE, "matrix: n %u, k %u, unit %u; each must be at least 1", n, k, unit);
    if (k % f->elements || from->k0 % f->elements)
        return iq_fail(err, IQ_SHAPE, "matrix: %u columns from column %u are not whole %s blocks of %zu", k,
                       from->k0, f->name, f->elements);
    if (!iq_matrix_bytes(format, n, k))
        return iq_fail(err, IQ_LIMIT, "matrix: %u x %u %s has no size that fits", n, k, f->name);
    if ((uintptr_t)into % IQ_MATRIX_ALIGN)
        return iq_fail(err, IQ_USAGE, "matrix: memory at %p, expected a multiple of %d", into,
                       IQ_MATRIX_ALIGN);
    return IQ_OK;
}

int iq_matrix_pack(struct iq_matrix *out, enum iq_format format, uint32_t n, uint32_t k, uint32_t unit,
                   const struct iq_matrix_source *from, void *into, struct iq_err *err)
{
    *out = (struct iq_matrix){0};
    IQ_TRY(check(format, n, k, unit, from, into, err));
    const struct layout *l = &layouts[format];
    const size_t panel_bytes = iq__panel_at(format, k), column = iq_format_row_bytes(format, from->k0);
    uint8_t *panel = into;
    for (uint32_t done = 0; done < n; done += IQ_PANEL, panel += panel_bytes) {
        const uint8_t *row[IQ_PANEL];
        uint32_t rows = n - done < IQ_PANEL ? n - done : IQ_PANEL;
        for (uint32_t j = 0; j < rows; j++) {
            size_t r = from->rows ? from->rows[done + j] : (size_t)from->row0 + done + j;
            row[j] = from->raw + r * from->row_bytes + column;
        }
        if (rows < IQ_PANEL || k % l->elements) memset(panel, 0, panel_bytes);
        l->pack(panel, row, rows, k);
    }
    *out = (struct iq_matrix){format, n, k, unit, panels_of(n), panel_bytes, into};
    return IQ_OK;
}

void iq_matrix_row(const struct iq_matrix *m, uint32_t row, float *out)
{
    layouts[m->format].unpack(m->data + row / IQ_PANEL * m->panel_bytes, row % IQ_PANEL, m->k, out);
}

void iq_format_row_to_f32(enum iq_format format, const uint8_t *raw, uint32_t k, float *out)
{
    layouts[format].values(raw, k, out);
}
