/* K15 in an all-reduce: ranks' sums added in another order than the contract's tree. Benign controls.
 *
 * A ring cuts the message into as many parts as there are pieces; part p starts behind piece p and collects one piece a hop, so
 * that the order, and with it the bits, follows from a part's place and from how many ranks there are. */
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/ops/reduce.h"

#include <string.h>

/* Columns [begin, end) of a row: piece `first`, then `hop` pieces further each time. */
static void collect(const struct iq_all_reduce *a, uint32_t r, size_t begin, size_t end, uint32_t first,
                    uint32_t hop)
{
    float *y = a->y + r * a->ldy;
    for (uint32_t i = 0, p = first; i < a->pieces; i++, p = (p + hop) % a->pieces) {
        const float *x = a->piece[p].x + r * a->piece[p].ldx;
        if (i == 0)
            memcpy(y + begin, x + begin, (end - begin) * sizeof *y);
        else
            for (size_t c = begin; c < end; c++) y[c] = y[c] + x[c];
    }
    iq_act_round_row(y + begin, end - begin, a->act);
}

static int ring(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    const struct iq_all_reduce *a = args;
    const uint64_t n = a->n, parts = a->pieces;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t p = 0; p < parts; p++)
            collect(a, r, n * p / parts, n * (p + 1) / parts, (p + 1) % a->pieces, 1);
    return IQ_OK;
}

static int backwards(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                     void *state)
{
    const struct iq_all_reduce *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t r = 0; r < a->rows; r++) collect(a, r, 0, a->n, a->pieces - 1, a->pieces - 1);
    return IQ_OK;
}

const struct iq_variant iq__k15_ring = {
    .kind = "all_reduce",
    .name = "ring",
    .device = "cpu",
    .flags = IQ_V_BENIGN | IQ_V_ROW_LOCAL,
    .run = ring,
    .what = "ranks' sums are added around a ring: a benign control",
    .needs = "three ranks or more: two terms have one order",
    .story =
        "A ring all-reduce adds what each rank holds in the order in which the message passes them, another "
        "for each part of it: the bits depend on the number of ranks. Libraries change between ring and tree "
        "by message size. Not a fault.",
    .expect = "all_reduce: other bits within the rounding bound of any order; equal bits on exact data and "
              "with two ranks",
};

const struct iq_variant iq__k15_backwards = {
    .kind = "all_reduce",
    .name = "backwards",
    .device = "cpu",
    .flags = IQ_V_BENIGN | IQ_V_ROW_LOCAL,
    .run = backwards,
    .what = "ranks' sums are added one by one from the last: a benign control",
    .needs = "three ranks or more: two terms have one order",
    .story =
        "Sums over ranks that are added as they arrive have the order of arrival. Here it is fixed, from the "
        "last rank to the first, so that a run can be repeated; it is no tree. Not a fault.",
    .expect = "all_reduce: other bits within the rounding bound of any order; equal bits on exact data and "
              "with two ranks",
};
