/* Mixture of experts: route -> dispatch -> all_to_all -> grouped products -> all_to_all back -> combine.
 *
 * A row (a position) is served by k of the layer's experts. Its *slots* 0 to k - 1 name them by ascending id, so that sums
 * over experts have one order, whatever the batch holds. What belongs to a slot lies at (row, slot), never where a batch's
 * sorting put it: a row's bytes depend on the row alone. No row is dropped in golden; faulty variants may drop a slot, which
 * all later ops then leave out.
 *
 * Experts are owned by expert-parallel ranks in equal contiguous runs; tokens too, in contiguous runs of rows, as a
 * data-parallel front has them. Golden's bits depend on neither. Sources: Switch (arXiv 2101.03961), Mixtral (2401.04088). */
#ifndef IQ_OPS_MOE_H
#define IQ_OPS_MOE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iq_matrix; /* packed weights: kernels/matrix.h */

enum { IQ_EXPERTS = 1024, IQ_EXPERT_SLOTS = 16 }; /* most of a layer; most of a row */
#define IQ_SLOT_DROPPED UINT32_MAX

/* The k experts with the largest logits, ties by lower id (topk's order: NaN last, -0 and +0 one value), then sorted by id.
 * With m the first one's logit (NaN only where all are) and e_i = exp(l_i - m):
 *   renormalise       weight = e_i / (e of the slots, added by ascending id from the first)
 *   not renormalise   weight = e_i / (vector rule over all experts' e)
 * NaN weights are canonical. IQ_SHAPE: k > experts; IQ_LIMIT: more than IQ_EXPERTS or IQ_EXPERT_SLOTS. */
struct iq_route {
    uint32_t rows, experts, k; /* k <= experts */
    bool renormalise;
    const float *logits; /* (rows, experts), row stride ld floats */
    size_t ld;
    uint32_t *expert; /* (rows, k) ascending */
    float *weight;    /* (rows, k) */
};

/* Slots by expert, and of one expert by row: a counting sort. An id that is no expert of the layer drops its slot. Faults set
 * `owner` alone and let iq_moe_lists (kernels/moe_lists.h) make the lists. IQ_LIMIT as route. */
struct iq_moe_dispatch {
    uint32_t rows, experts, k;
    const uint32_t *expert; /* (rows, k) */
    uint32_t *owner;        /* (rows, k): the expert that serves the slot; IQ_SLOT_DROPPED: none does */
    uint32_t *first;        /* (experts + 1): expert e has list[first[e] .. first[e + 1]) */
    uint32_t *list;         /* (rows * k): row * k + slot */
};

/* Out: y(row, slot) = x(row), from the rank that has the row to the one that has the slot's expert. Back: y(row, slot) =
 * x(row, slot), the other way. A dropped slot's y is +0. IQ_SHAPE: ranks do not divide experts. */
struct iq_all_to_all {
    uint32_t rows, n, k, experts, ranks; /* ranks divide experts */
    bool back;
    const float *x; /* out: (rows, n), row stride ldx floats; back: (rows, k, n), contiguous */
    size_t ldx;
    const uint32_t *owner; /* (rows, k) */
    float *y;              /* (rows, k, n), contiguous */
};
/* Row r of `rows` is on rank r * ranks / rows; expert e of `experts` on e * ranks / experts. */

/* For experts [expert0, expert0 + experts) of one rank: y(row, slot) = x(row, slot) W_e^T for each slot in e's list, by the
 * contract's sum, as matmul. Slots of other experts are left as they are; dropped ones are +0, written by the call that has
 * expert 0. Parts share x (gate, up). */
enum { IQ_GROUPED_PARTS = 2 };
struct iq_grouped_part {
    const struct iq_matrix *w; /* (experts) matrices (n, columns) of the rank's experts in order, all alike */
    float *y;                  /* (rows, slots, n), contiguous */
};
struct iq_grouped_matmul {
    uint32_t rows, slots, parts, act; /* slots of a row; act: enum iq_act, rounding of y */
    uint32_t expert0, experts;
    const float *x;                       /* (rows, slots, w->k), contiguous */
    const uint32_t *owner, *first, *list; /* as moe_dispatch gives them, of all experts */
    struct iq_grouped_part part[IQ_GROUPED_PARTS];
};

/* y = weight_0 * x(row, 0), then y = fmaf(weight_s, x(row, s), y) by ascending slot; dropped slots are left out, and a row
 * without any is +0. Rounded to the activation type once, at the end. */
struct iq_combine {
    uint32_t rows, n, k, act;
    const float *x;        /* (rows, k, n), contiguous */
    const float *weight;   /* (rows, k) */
    const uint32_t *owner; /* (rows, k) */
    float *y;              /* (rows, n), row stride ldy floats */
    size_t ldy;
};

#endif
