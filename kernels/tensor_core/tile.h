/* Tensor-core products at speed: what the driver (matmul.c) and the forms for an instruction set (tile_kernels.h) say
 * to each other.
 *
 * Lanes are outputs, so each output's chain of blocks stays in order. An operand is decoded once, to a float that holds
 * its rounded value and to a 16-bit exponent (zero and what is not finite have exponents of their own, so that the sum of
 * two exponents tells all). A vector of outputs then needs two integer operations per pair of products for emax, and per
 * product: multiply (exact: 16 or 22 bits), multiply by 2^-unit (exact), convert to an integer with truncation, add.
 *
 * float32 holds these steps only while -100 <= emax <= 126, and the sum must stay below 2^31. A lane in which that does
 * not hold, rare in real data, is done by iq_tc_block: iq__tc_exact. */
#ifndef IQ_TENSOR_CORE_TILE_H
#define IQ_TENSOR_CORE_TILE_H

#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/tensor_core/block.h"

enum {
    IQ__TC_COLUMNS = 64, /* of K, expanded at a time: whole blocks of products and of every weight format */
    IQ__TC_PIECE = 32,   /* outputs of a panel that are worked on together */
    /* Exponents of operands, unbiased for x; weights' are higher by 127, so that sums are biased as float32's are. */
    IQ__TC_ZERO = -1000,
    IQ__TC_SPECIAL = 10000,
    IQ__TC_BIAS = 127
};

/* Columns of a panel, decoded. Beyond the matrix's columns: zeros. */
struct iq__tc_weights {
    float value[IQ__TC_COLUMNS][IQ_PANEL];
    int16_t exponent[IQ__TC_COLUMNS / 2][IQ_PANEL][2]; /* of an even and the next odd column */
};

/* Rows of x, decoded; a row is k rounded up to whole blocks, the rest zeros. */
struct iq__tc_rows {
    const float *value;
    const int16_t *exponent;
    size_t stride; /* elements from row to row; even */
};

struct iq__tc_tile {
    const struct iq_tc_profile *profile;
    enum iq_tc_format format;
    const struct iq__tc_weights *w;
    struct iq__tc_rows x;   /* at the tile's first column */
    uint32_t rows, columns; /* columns: whole blocks, at most IQ__TC_COLUMNS */
    uint32_t first;         /* output of the panel; a multiple of IQ__TC_PIECE, of which so many are done */
    float *sum;             /* [row][IQ_PANEL]: accumulators, in and out */
};

struct iq__tc_form {
    /* Decodes n values; those up to `room` become zeros. */
    void (*row)(enum iq_tc_format, const float *x, uint32_t n, uint32_t room, float *value,
                int16_t *exponent);
    /* Decodes n columns, from where `columns` stands in the panel, of a piece of the outputs; those up to `room`
     * become zeros. */
    void (*weights)(enum iq_tc_format, enum iq_format, const uint8_t *columns, uint32_t n, uint32_t room,
                    uint32_t first, struct iq__tc_weights *);
    void (*tile)(const struct iq__tc_tile *);
};

extern const struct iq__tc_form iq__tc_scalar, iq__tc_avx2, iq__tc_avx512;

/* One block of one output, by iq_tc_block: columns from `column` on, of row `row` and output `output` of the panel. */
uint32_t iq__tc_exact(const struct iq__tc_tile *, uint32_t row, uint32_t column, uint32_t output, uint32_t c);

/* Computes the call. IQ_MEMORY. */
int iq__tc_run(const struct iq__tc_form *, enum iq_tc_profile_id, enum iq_tc_format, struct iq_exec *,
               const struct iq_matmul *);

#endif
