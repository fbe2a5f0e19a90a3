/* What vitro.c and vitro_data.c share: made-up operands of a kind. */
#ifndef IQ_VITRO_PARTS_H
#define IQ_VITRO_PARTS_H

#include "kernels/matrix.h"
#include "kernels/ops/mask.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"
#include "kernels/vitro.h"

enum { IQ__VITRO_BUFFERS = 6 };

struct iq__vitro {
    struct iq_vitro_shape shape;
    uint64_t seed, drawn;            /* of the data; numbers drawn so far */
    void *buffer[IQ__VITRO_BUFFERS]; /* owned */
    unsigned buffers;
    union {
        struct iq_topk topk;
        struct iq_sample sample;
        struct iq_temper temper;
        struct iq_mask mask;
        struct iq_matmul matmul;
        struct iq_all_reduce reduce;
    } args;
    struct iq_matrix matrix;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    uint8_t *raw;       /* matmul: stored rows */
    float *in;          /* the input that fill() writes: logits, x, pieces */
    float *weights;     /* matmul: (n, k), exact values of the packed matrix */
    uint32_t *shuffled; /* topk: (vocab) */
};

struct iq__vitro_kind {
    const char *kind;
    enum iq_op_id op;
    unsigned exact_calls, random_calls;
    int (*make)(struct iq__vitro *, struct iq_err *); /* checks the shape, allocates, fills args */
    void (*fill)(struct iq__vitro *, bool exact, unsigned call);
    /* The exact value of element i of row r, and the largest error that any order of float32 sums can
     * make; NULL: no bound. */
    double (*bound)(const struct iq__vitro *, uint32_t r, uint32_t i, double *want);
};

/* The next 64 random bits; `count` elements of memory, owned by the operands. */
uint64_t iq__vitro_draw(struct iq__vitro *);
void *iq__vitro_reserve(struct iq__vitro *, uint64_t count, uint64_t each, struct iq_err *);

/* vitro_sampling.c */
int iq__vitro_sample_make(struct iq__vitro *, struct iq_err *);
void iq__vitro_sample_fill(struct iq__vitro *, bool exact, unsigned call);
int iq__vitro_temper_make(struct iq__vitro *, struct iq_err *);
void iq__vitro_temper_fill(struct iq__vitro *, bool exact, unsigned call);
int iq__vitro_mask_make(struct iq__vitro *, struct iq_err *);
void iq__vitro_mask_fill(struct iq__vitro *, bool exact, unsigned call);

/* kind NULL ends. */
extern const struct iq__vitro_kind iq__vitro_kinds[];

#endif
