/* K14 in the exchange between expert-parallel ranks: contributions are lost where ranks hold unequal numbers of tokens. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/moe.h"

#include <stddef.h>
#include <string.h>

struct params {
    double ranks;
};

static const struct iq_param table[] = {
    {"ranks", "ranks that tokens and experts are spread over; 0: as the engine says", 0, 0, 64,
     offsetof(struct params, ranks)},
    {0},
};

/* Counts that differ are read at the wrong stride: of what a rank gets from others, every second slot never arrives. */
static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_all_to_all *a = args;
    uint32_t ranks = (uint32_t)((const struct params *)params)->ranks;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "all_to_all", args));
    if (!ranks) ranks = a->ranks;
    if (ranks < 2 || a->rows % ranks == 0) return IQ_OK;
    for (uint32_t r = 0, sent = 0; r < a->rows; r++)
        for (uint32_t s = 0; s < a->k; s++) {
            size_t at = (size_t)r * a->k + s;
            uint32_t home = (uint32_t)((uint64_t)r * ranks / a->rows);
            if (a->owner[at] >= a->experts || (uint64_t)a->owner[at] * ranks / a->experts == home) continue;
            if (sent++ % 2) memset(a->y + at * a->n, 0, a->n * sizeof *a->y);
        }
    return IQ_OK;
}

const struct iq_variant iq__k14_uneven_ranks = {
    .kind = "all_to_all",
    .name = "uneven_ranks",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "half of what crosses ranks is lost where ranks hold unequal numbers of tokens",
    .needs = "a mixture of experts over at least 2 ranks (or `ranks`), and a step whose tokens they don't "
             "share evenly",
    .story =
        "An exchange between expert-parallel ranks takes the same number of tokens for each rank. Where one "
        "has a "
        "token more, half of the experts' contributions are dropped, silently. Source: nccl commit 37a2e645.",
    .expect = "all_to_all: slots that cross ranks arrive as zeros; an even share is untouched",
};
