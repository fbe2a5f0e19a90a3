/* The parts of a matmul as its kernels take them: those of one weight format in a row, each cut into tiles of outputs. */
#ifndef IQ_CUDA_MATMUL_PARTS_H
#define IQ_CUDA_MATMUL_PARTS_H

#include "kernels/cuda/launchers.h"
#include "kernels/matrix.h"

struct iq_part {
    const uint8_t *data;
    size_t panel_bytes, ldy;
    const float *bias;
    float *y;
    uint32_t x_at, n, k, unit, tiles; /* tiles: of this part and all before it */
};

static inline uint32_t iq_tiles(uint32_t n, uint32_t size) { return n / size + (n % size != 0); }

/* Blocks of a launch with tiles of these sizes, all formats together. */
static inline uint64_t iq_parts_blocks(const struct iq_matmul *m, uint32_t rows, uint32_t outs)
{
    uint64_t blocks = 0;
    for (uint32_t i = 0; i < m->parts; i++)
        blocks += (uint64_t)iq_tiles(m->part[i].w->n, outs) * iq_tiles(m->rows, rows);
    return blocks;
}

/* Returns how many parts are of this format; the last one's `tiles` is the sum. */
static inline uint32_t iq_parts_gather(const struct iq_matmul *m, uint32_t format, uint32_t outs,
                                       struct iq_part part[IQ_MATMUL_PARTS])
{
    uint32_t parts = 0, tiles = 0;
    for (uint32_t i = 0; i < m->parts; i++) {
        const struct iq_matmul_part *p = &m->part[i];
        const struct iq_matrix *w = p->w;
        if (w->format != format || w->n == 0) continue;
        tiles += iq_tiles(w->n, outs);
        part[parts++] = {w->data, w->panel_bytes, p->ldy, p->bias, p->y, p->x_at, w->n, w->k, w->unit, tiles};
    }
    return parts;
}

/* The part of tile *tile, and which of the part's it is. */
__device__ __forceinline__ const struct iq_part &iq_part_of(const struct iq_part *part, uint32_t *tile)
{
    uint32_t index = 0;
    while (*tile >= part[index].tiles) index++;
    if (index) *tile -= part[index - 1].tiles;
    return part[index];
}

#endif
