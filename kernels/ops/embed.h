/* Embedding: y[r] = table[ids[r]], the stored values widened to float32. */
#ifndef IQ_OPS_EMBED_H
#define IQ_OPS_EMBED_H

#include <stddef.h>
#include <stdint.h>

struct iq_matrix;

struct iq_embed {
    uint32_t rows, act;
    const uint32_t *ids;           /* (rows), each below table->n: checked by the engine */
    const struct iq_matrix *table; /* (vocab, hidden), packed */
    float *y;                      /* (rows, hidden), row stride ldy */
    size_t ldy;
};

#endif
