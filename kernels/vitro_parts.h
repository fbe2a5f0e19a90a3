/* What the files of vitro share: made-up operands of a kind. */
#ifndef IQ_VITRO_PARTS_H
#define IQ_VITRO_PARTS_H

#include "kernels/matrix.h"
#include "kernels/ops/kv.h"
#include "kernels/ops/mask.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"
#include "kernels/vitro.h"

enum { IQ__VITRO_BUFFERS = 8, IQ__VITRO_SEQS = 3 };

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
        struct iq_attention attention;
        struct iq_kv_write kv_write;
        struct iq_rmsnorm norm;
        struct iq_add add;
        struct iq_route route;
        struct iq_moe_dispatch dispatch;
        struct iq_all_to_all exchange;
        struct iq_combine combine;
    } args;
    struct iq_matrix matrix;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    uint64_t in_floats;
    uint8_t *raw;       /* matmul: stored rows */
    float *in;          /* the input that fill() writes: logits, x, pieces, q, k */
    float *weights;     /* matmul: (n, k), exact values of the packed matrix */
    uint32_t *shuffled; /* topk: (vocab); attention, kv_write: block tables; experts: (rows, k) */
    struct iq_kv_layer cache;
    struct iq_seq seq[IQ__VITRO_SEQS];
    double *chance; /* attention: (context), of the keys of the row and head that bound() saw last */
    double spread;  /* attention: what rounding of scores can do to these */
    uint64_t seen;  /* attention: row and head, and 1; 0: none */
};

struct iq__vitro_kind {
    const char *kind;
    enum iq_op_id op;
    unsigned exact_calls, random_calls;
    int (*make)(struct iq__vitro *, struct iq_err *); /* checks the shape, allocates, fills args */
    void (*fill)(struct iq__vitro *, bool exact, unsigned call);
    /* The exact value of element i of row r, and the largest error that any order of float32 sums can
     * make; NULL: no bound. */
    double (*bound)(struct iq__vitro *, uint32_t r, uint32_t i, double *want);
    /* What the site says of the rows; NULL: decoding rows of one key each. */
    void (*rows)(const struct iq__vitro *, struct iq_row *);
    bool ids; /* the first k elements of a row are ids, not floats */
};

/* kind NULL ends. */
extern const struct iq__vitro_kind iq__vitro_sums[], iq__vitro_kv[], iq__vitro_rows[], iq__vitro_sampling[];

uint32_t iq__vitro_below(struct iq__vitro *, uint32_t n);
int iq__vitro_integer(struct iq__vitro *, int most); /* -most to most */
/* In (-1, 1), with all of float32's significand in play. */
float iq__vitro_uniform(struct iq__vitro *);
/* NULL: err says why. */
void *iq__vitro_reserve(struct iq__vitro *, uint64_t count, uint64_t each, struct iq_err *err);
float *iq__vitro_input(struct iq__vitro *, uint64_t floats, struct iq_err *err); /* for `in` */
/* Puts NaN, infinities, subnormals, zeros of both signs and ties into `in`, a kind of these a row. */
void iq__vitro_odd(struct iq__vitro *);
int iq__vitro_refuse(const char *kind, const char *what, struct iq_err *err);
/* gamma_n times the sum of magnitudes, and one rounding of the result (at most |want| + that) to the activation type. */
double iq__vitro_order_bound(double terms, double magnitude, double want, uint32_t act);

#endif
