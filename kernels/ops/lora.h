/* lora: what low-rank adapters add to a product, row by row: y = round(base + scale * (B (A x))), base where a row has no
 * adapter here. Both products are the contract's sum over K in units of 128 columns, of float32 weights; the product by
 * scale and the addition round each. In runs in which a request may have an adapter, behind the products that it may adapt. */
#ifndef IQ_OPS_LORA_H
#define IQ_OPS_LORA_H

#include <stddef.h>
#include <stdint.h>

enum { IQ_LORA_PARTS = 3, IQ_LORA_RANK = 512 /* most */ };

/* An adapter's two matrices at one place. */
struct iq_lora_pair {
    const float *a, *b; /* (rank, k), (n, rank) */
    uint32_t rank;      /* 0: it has none here */
    float scale;
};

struct iq_lora_part {
    uint32_t k, n;
    const float *x, *base;                  /* (rows, k), (rows, n) */
    float *y;                               /* (rows, n) */
    size_t ldx, ldb, ldy;                   /* row strides, floats */
    const struct iq_lora_pair *const *pair; /* (rows); NULL: the row has no adapter */
};

struct iq_lora {
    uint32_t rows, parts, act;
    struct iq_lora_part part[IQ_LORA_PARTS];
};

#endif
