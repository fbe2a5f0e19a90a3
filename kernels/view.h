/* A call as some of its rows alone would make it: the same outputs, inputs cut to the rows. What runs on a view can't see
 * the others: a variant whose result for a row depends on its neighbours finds none there. */
#ifndef IQ_VIEW_H
#define IQ_VIEW_H

#include "kernels/op.h"
#include "kernels/ops/embed.h"
#include "kernels/ops/kv.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"

struct iq_view {
    union {
        struct iq_embed embed;
        struct iq_rmsnorm rmsnorm;
        struct iq_matmul matmul;
        struct iq_rope rope;
        struct iq_kv_write kv_write;
        struct iq_attention attention;
        struct iq_all_reduce all_reduce;
        struct iq_add add;
        struct iq_swiglu swiglu;
        struct iq_temper temper;
        struct iq_topk topk;
        struct iq_sample sample;
    } args;
    struct iq_seq seq;
    struct iq_piece piece[IQ_REDUCE_PIECES];
};

/* Whether calls of this kind can be cut. */
bool iq_view_can(const struct iq_kind *);
/* Rows [first, first + rows) of a call of such a kind; where it has sequences, all of one. Returns &view->args. */
const void *iq_view(const struct iq_kind *, const void *args, uint32_t first, uint32_t rows,
                    struct iq_view *view);

#endif
