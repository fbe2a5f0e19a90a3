/* Packed weights: the one form in which CPU kernels read a matrix. Values are the file's, bit for bit; only their places
 * change, so that lanes are outputs and a panel of 64 outputs is one linear stream.
 *
 * A panel holds all k of 64 outputs, k-major (offsets in bytes; j is the output's place in the panel):
 *   F32   per k:    64 floats
 *   F16   per k:    64 halves
 *   BF16  per 2 k:  64 dwords, the even k in the low half, the odd one in the high half
 *   Q8_0  per 32 k: 64 halves d, then per k 64 int8
 *   Q4_0  per 32 k: 64 halves d, then per 8 k 64 dwords
 *   Q4_1  per 32 k: 64 halves d, 64 halves m, then per 8 k 64 dwords
 * A dword of nibbles holds q of k + i at bits 4 i .. 4 i + 3. Outputs past n are zeros.
 *
 * The struct borrows the panels' memory, which the caller gives (an arena) and may share between processes. */
#ifndef IQ_MATRIX_H
#define IQ_MATRIX_H

#include "kernels/base/status.h"
#include "kernels/ops/format.h"

#include <stdint.h>

enum {
    IQ_PANEL = 64,       /* outputs side by side: layout only, no bit depends on it */
    IQ_MATRIX_ALIGN = 64 /* of the memory that panels lie in */
};

struct iq_matrix {
    uint32_t format; /* enum iq_format */
    uint32_t n, k;   /* outputs, columns */
    uint32_t unit;   /* columns of K in a unit of the contract's sum: IQ_UNIT, or one KV group's */
    uint32_t panels;
    size_t panel_bytes;
    const uint8_t *data; /* (panels, panel_bytes), borrowed */
};

/* Where a matrix's values come from: rows of a stored tensor, or a sub-range of their columns. */
struct iq_matrix_source {
    /* The tensor's first byte; the caller has checked that it holds every row named below. */
    const uint8_t *raw;
    size_t row_bytes;     /* from row to row */
    uint32_t k0;          /* first column: a multiple of the format's block */
    uint32_t row0;        /* output i is row row0 + i ... */
    const uint32_t *rows; /* ... or row rows[i], if not NULL */
};

/* Bytes of the packed form; 0 if k is not a whole number of the format's blocks or the size overflows. */
size_t iq_matrix_bytes(enum iq_format, uint32_t n, uint32_t k);

/* Packs n rows of k columns into `into`: iq_matrix_bytes() of memory at a multiple of IQ_MATRIX_ALIGN, which *out borrows.
 * Several threads may pack disjoint matrices. IQ_SHAPE: k or k0 is not a multiple of the block, n, k or unit is 0;
 * IQ_USAGE: alignment; IQ_LIMIT: the size overflows. */
int iq_matrix_pack(struct iq_matrix *out, enum iq_format, uint32_t n, uint32_t k, uint32_t unit,
                   const struct iq_matrix_source *, void *into, struct iq_err *);

/* The k values of one row, exact: of a packed matrix, and of a stored row that begins at `raw`. */
void iq_matrix_row(const struct iq_matrix *, uint32_t row, float *out);
void iq_format_row_to_f32(enum iq_format, const uint8_t *raw, uint32_t k, float *out);

/* For kernels. Bytes of a panel up to column k, a multiple of the format's block or the end. */
size_t iq__panel_at(enum iq_format, uint32_t k);

#endif
