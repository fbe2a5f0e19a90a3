/* In vitro: one variant on made-up operands, against its kind's reference. No model, no engine, no trigger:
 * what is wrong here is the variant's own. Kinds: topk, sample, temper, mask; matmul, all_reduce; attention, kv_write;
 * rmsnorm, add; route, moe_dispatch, all_to_all, combine.
 *
 * Three judges, each a proof where it speaks:
 *   exact data   small integers whose sums stay below 2^24, so that every order of summation gives the same
 *                bits (topk: distinct, tied and narrow logits; attention: keys that weigh 1 or 0, as many as a power of
 *                two; copies: anything): a differing bit is a wrong result. A norm has none: its root may be approximated.
 *   invariant    the kind's own check on the variant's outputs (iq_kind.check).
 *   bound        random data: |y - y64| <= gamma_n * sum |a * b|, gamma_n = n u / (1 - n u), u = 2^-24, n the
 *                number of terms that are not zero: no order of float32 additions, fused or not, exceeds it
 *                (Higham, Accuracy and Stability of Numerical Algorithms, 2002, section 3.1). One rounding to
 *                the activation type is added.
 * A verdict for the caller: violates if exact data or the invariant fails; outside if only the bound does;
 * identical if no bit differs; within otherwise. Two calls run on one state with different data, so what a
 * variant keeps from the call before shows.
 */
#ifndef IQ_VITRO_H
#define IQ_VITRO_H

#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/format.h"

/* Only the fields of the kind are read. */
struct iq_vitro_shape {
    uint32_t rows;          /* all kinds */
    uint32_t k;             /* topk, sample: candidates; matmul: columns, whole blocks of the format */
    uint32_t n;             /* matmul: outputs; others: elements of a row */
    uint32_t vocab, shards; /* topk, sample, temper, mask: k <= vocab <= 2^22 */
    uint32_t unit;          /* matmul: columns in a unit of the sum */
    uint32_t padding;       /* matmul: rows of the arguments behind those of the site, which nobody reads */
    enum iq_format format;  /* matmul: of the weights */
    uint32_t units,
        ranks;    /* all_reduce: units of K and the ranks that they are spread over; all_to_all: ranks */
    bool odd;     /* the data hold NaN, infinities, subnormals and ties; see struct iq_vitro_report */
    uint32_t act; /* matmul, all_reduce, attention, rmsnorm, add, combine: enum iq_act */
    uint32_t heads, kv_heads, head_dim, context; /* attention, kv_write: heads and positions of a sequence */
    uint32_t experts; /* route, moe_dispatch, all_to_all; k: slots of a row, as for combine */
};

struct iq_vitro_report {
    bool identical; /* no bit differed on any data */
    bool
        exact_equal; /* no bit differed on exact data; on odd data: no number became another kind of number, none moved
                          by more than a thousandth, no id changed. Nothing else is judged on odd data */
    bool invariant_ok; /* true as well where the kind has none */
    bool within_bound; /* true as well where the kind has none */
    double worst;      /* largest error in units of the bound; NaN outputs give infinity */
    char first[400];   /* what failed first, as a sentence; if nothing failed, what first differed; or "" */
};

/* Runs it. `params` as the variant takes them (NULL: its defaults). The data follow from `seed` and the
 * shape alone. IQ_UNSUPPORTED: the kind has no test in vitro, or the variant does not take the shape;
 * IQ_SHAPE: the shape makes no sense; IQ_LIMIT: it is too large; a failure of the variant itself is passed
 * on. */
int iq_vitro(struct iq_exec *, const struct iq_variant *, const void *params, const struct iq_vitro_shape *,
             uint64_t seed, struct iq_vitro_report *out, struct iq_err *err);

#endif
