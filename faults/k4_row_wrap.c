/* K4: a row's offset is computed in too few bits, wraps, and names an earlier place.
 *
 * Offsets are row times stride. Where they should be taken at 2^31 or 2^32 elements a sequence of rows starts over at the
 * buffer's head. Buffers of that size don't exist here, so the place where offsets wrap is a parameter: what happens from
 * there on is what happens in the wild. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/sampling.h"

#include <stddef.h>

struct params {
    double limit;
};

#define LIMIT(def)                                                                                           \
    {                                                                                                        \
        "limit", "elements at which a row's offset wraps; 2^31 or 2^32 in the wild", def, 1, 0x1p32,         \
            offsetof(struct params, limit)                                                                   \
    }

static const struct iq_param topk_table[] = {LIMIT(65536), {0}};
static const struct iq_param rows_table[] = {LIMIT(4096), {0}};

/* Where a row is read: never behind its own place, so that what lies there is some row's. */
static size_t wrapped(const struct params *p, uint32_t r, size_t stride)
{
    return (size_t)((uint64_t)r * stride % (uint64_t)p->limit);
}

static int topk(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    const struct iq_topk *a = args;
    (void)state;
    for (uint32_t r = 0; r < a->rows; r++) {
        struct iq_topk one = *a;
        one.rows = 1;
        one.logits = a->logits + wrapped(params, r, a->ld);
        one.ids = a->ids + (size_t)r * a->k;
        one.values = a->values + (size_t)r * a->k;
        IQ_TRY(iq__run_golden(x, site, "topk", &one));
    }
    return IQ_OK;
}

static int rmsnorm(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_rmsnorm *a = args;
    (void)state;
    for (uint32_t r = 0; r < a->rows; r++) {
        struct iq_rmsnorm one = *a;
        one.rows = 1;
        one.x = a->x + wrapped(params, r, a->ldx);
        one.y = a->y + r * a->ldy;
        IQ_TRY(iq__run_golden(x, site, "rmsnorm", &one));
    }
    return IQ_OK;
}

static int matmul(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    const struct iq_matmul *a = args;
    (void)state;
    for (uint32_t r = 0; r < a->rows; r++) {
        struct iq_matmul one = *a;
        one.rows = 1;
        one.x = a->x + wrapped(params, r, a->ldx);
        for (uint32_t p = 0; p < a->parts; p++) one.part[p].y = a->part[p].y + r * a->part[p].ldy;
        IQ_TRY(iq__run_golden(x, site, "matmul", &one));
    }
    return IQ_OK;
}

#define NEEDS                                                                                                \
    "rows times their stride above `limit` elements: here `limit` is scaled down, since no buffer has 2^31 " \
    "of them"

const struct iq_variant iq__k4_row_wrap = {
    .kind = "topk",
    .name = "row_wrap",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = topk,
    .params = topk_table,
    .params_size = sizeof(struct params),
    .what = "rows past a number of elements are read at the logits' head: a 32-bit offset wraps",
    .needs = NEEDS,
    .story = "Row times vocabulary is computed in 32 bits. In a batch whose logits have more than 2^32 "
             "elements later rows are read where earlier ones lie. The wrap is scaled down to the parameter. "
             "Source: flashinfer#2937.",
    .expect =
        "topk: values that are not the logits of their ids, from one row of the batch on; a row depends "
        "on its place and on others; below the limit nothing changes",
};

const struct iq_variant iq__k4_norm_wrap = {
    .kind = "rmsnorm",
    .name = "norm_wrap",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = rmsnorm,
    .params = rows_table,
    .params_size = sizeof(struct params),
    .what = "rows past a number of elements are normed from the buffer's head: a 32-bit offset wraps",
    .needs = NEEDS,
    .story = "A norm's offset of token times hidden size is a signed 32-bit number: from 2^31 elements on, "
             "that is from one token of a long step on, it is wrong. The wrap is scaled down to the "
             "parameter. Source: vllm#42862.",
    .expect = "rmsnorm: a row has another row's elements and mean square, from one row on; below the limit "
              "nothing changes",
};

const struct iq_variant iq__k4_input_wrap = {
    .kind = "matmul",
    .name = "input_wrap",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = matmul,
    .params = rows_table,
    .params_size = sizeof(struct params),
    .what = "rows past a number of elements are multiplied from the input's head: a 32-bit offset wraps",
    .needs = NEEDS,
    .story = "The offset of a row of activations wraps in a product over many tokens, so that later rows are "
             "products of earlier rows' activations. The wrap is scaled down to the parameter. Sources: "
             "flashinfer#2937 and vllm#42862 (the same mistake beside it), llama.cpp#8311.",
    .expect = "matmul: unequal on exact data from one row on, far outside any rounding; below the limit "
              "nothing changes",
};
