/* Fast matrix products: what the driver (product.c) and the kernels of an instruction set (product_kernels.h) say to each
 * other. A kernel computes one register tile: up to IQ__TILE_ROWS rows of x by the outputs of (part of) a panel, over
 * one chunk of K; then it does the tree's additions that this chunk completes (sum_plan.h).
 *
 * Rows of x are packed per tile as [k / 16][row][16], copies of cache lines, so that a tile reads one stream and every
 * address is a constant away from one pointer. One row needs no packing. */
#ifndef IQ_CPU_PRODUCT_H
#define IQ_CPU_PRODUCT_H

#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    IQ__TILE_ROWS = 6, /* most rows of a tile, in any instruction set */
    IQ__X_LINE = 16,   /* k values of one row that lie together in packed x: one cache line */
    IQ__HALF_PANEL = IQ_PANEL / 2,
    IQ__WORTH_THREADS = 1 << 17 /* multiplications from which on a call is worth a meeting of threads */
};

struct iq__tile {
    const uint8_t *w;    /* a panel, at the chunk's first k */
    const float *x;      /* packed rows, there too */
    uint32_t kc, pops;   /* k values; additions from the stack after them */
    uint32_t begin, end; /* outputs of the panel, multiples of IQ__HALF_PANEL */
    const float *stack;  /* [row][IQ_PANEL], the level above the stack's top; lower levels lie before it */
    size_t level;        /* floats from level to level */
    float *to;           /* where the sums go: a level of the stack, or y */
    size_t to_row;       /* floats from row to row there */
    const float *bias;   /* of the panel's outputs, or NULL */
    bool finish;         /* these are results: add the bias, make NaN canonical */
    float
        *expanded; /* the chunk's weights as an F32 panel: a leading tile writes it, following ones read it */
    const char *ahead; /* what to prefetch while weights come from cache; moves on */
};
typedef void iq__tile_fn(struct iq__tile *);

/* One instruction set's kernels, by rows of the tile and enum iq_format. */
struct iq__tiles {
    uint32_t rows_alone[IQ_FORMATS]; /* up to so many rows are one tile, which expands in registers only */
    uint32_t rows_many;              /* more rows are cut into tiles of at most this many */
    iq__tile_fn *alone[IQ__TILE_ROWS + 1][IQ_FORMATS];
    iq__tile_fn
        *half[IQ__TILE_ROWS + 1][IQ_FORMATS]; /* the same for half a panel; NULL: `alone` can do that too */
    iq__tile_fn *leading[IQ__TILE_ROWS + 1]
                        [IQ_FORMATS]; /* the first of many tiles: also writes `expanded` (F32: not) */
    iq__tile_fn *following[IQ__TILE_ROWS + 1]; /* the others */
};

/* Computes the call with these kernels. IQ_MEMORY. */
int iq__product_run(const struct iq__tiles *, struct iq_exec *, const struct iq_matmul *);
/* The same on the calling thread alone, for calls that threads make side by side; rows and parts are at least 1. scratch:
 * iq__product_bytes() at a multiple of 64, which depend on rows, k and unit only and rise with the rows. */
void iq__product_alone(const struct iq__tiles *, const struct iq_matmul *, void *scratch);
size_t iq__product_bytes(const struct iq__tiles *, const struct iq_matmul *);
/* Can it? (Each chunk of each part must begin at a whole block of the format and a line of x.) Else the reference runs. */
bool iq__product_supports(const struct iq_matmul *);

#endif
