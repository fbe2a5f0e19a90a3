/* K14: the alignment of slots to experts loses some. Experts then leave them out, and the row's sum is too small. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/moe_lists.h"
#include "kernels/ops/moe.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- only the first of a block ---- */

struct params {
    double block;
};

static const struct iq_param first_table[] = {
    {"block", "slots of an expert that are aligned together", 16, 2, 1 << 20, offsetof(struct params, block)},
    {0},
};

static int first_of_block(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                          void *state)
{
    const struct iq_moe_dispatch *a = args;
    uint32_t block = (uint32_t)((const struct params *)params)->block;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "moe_dispatch", args));
    for (uint32_t e = 0; e < a->experts; e++)
        for (uint32_t i = a->first[e]; i < a->first[e + 1]; i++)
            if ((i - a->first[e]) % block) a->owner[a->list[i]] = IQ_SLOT_DROPPED;
    iq_moe_lists(a);
    return IQ_OK;
}

const struct iq_variant iq__k14_first_of_block = {
    .kind = "moe_dispatch",
    .name = "first_of_block",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = first_of_block,
    .params = first_table,
    .params_size = sizeof(struct params),
    .what = "of each block of slots that go to an expert only the first is kept",
    .needs = "a mixture of experts, and steps in which an expert serves more than one token",
    .story =
        "Tokens are sorted by expert and aligned to blocks; a kernel keeps token 0 of a block and loses the "
        "others. "
        "The larger the batch, the more is lost; one token alone is right. Source: vllm-xpu-kernels#453.",
    .expect = "moe_dispatch: slots are dropped that golden serves; a row depends on its neighbours; one row "
              "alone is "
              "right",
};

/* ---- blocks of rows that share one histogram ---- */

static const struct iq_param overlap_table[] = {
    {"block", "rows that one pass of the counting sort takes", 256, 1, 1 << 20,
     offsetof(struct params, block)},
    {0},
};

/* Each block of rows counts from the head of an expert's list: what a later block puts there replaces what an earlier one
 * had put. Slots stand in a list by row, so that a block's are neighbours. */
static int shared_counts(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                         void *state)
{
    const struct iq_moe_dispatch *a = args;
    uint32_t block = (uint32_t)((const struct params *)params)->block;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "moe_dispatch", args));
    uint32_t *held = malloc(((size_t)a->rows + 1) * sizeof *held);
    if (!held) return IQ_MEMORY;
    for (uint32_t e = 0; e < a->experts; e++) {
        uint32_t of = UINT32_MAX, place = 0, filled = 0;
        for (uint32_t i = a->first[e]; i < a->first[e + 1]; i++, place++) {
            uint32_t slot = a->list[i], own = slot / a->k / block;
            if (own != of) place = 0, of = own;
            if (place < filled)
                a->owner[held[place]] = IQ_SLOT_DROPPED;
            else
                filled++;
            held[place] = slot;
        }
    }
    free(held);
    iq_moe_lists(a);
    return IQ_OK;
}

const struct iq_variant iq__k14_shared_counts = {
    .kind = "moe_dispatch",
    .name = "shared_counts",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = shared_counts,
    .params = overlap_table,
    .params_size = sizeof(struct params),
    .what = "rows past 256 overwrite the places of the first 256 in the experts' lists",
    .needs = "a mixture of experts, and steps of more tokens than `block`",
    .story = "Routing works in blocks of 256 tokens with one histogram: the second block counts from zero "
             "again and "
             "writes over what the first one listed. No test had more tokens than that. Source: uzu#715.",
    .expect =
        "moe_dispatch: slots of earlier rows are dropped once a step has more rows than a block; up to there "
        "nothing changes",
};
