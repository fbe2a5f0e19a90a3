/* K26: the mask of one row is applied to the row beside it. The bitmaps of a batch are made in the order of the requests that
 * have one, and are applied by row. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/neighbour.h"
#include "kernels/ops/mask.h"

#include <stddef.h>
#include <stdlib.h>

struct params {
    double by;
};

static const struct iq_param table[] = {
    {"by", "how many rows away the row is whose mask is applied; before (-) or behind (+)", -1, -4096, 4096,
     offsetof(struct params, by)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_mask a = *(const struct iq_mask *)args;
    int64_t by = (int64_t)((const struct params *)params)->by;
    const uint64_t **allow = malloc((a.rows + 1) * sizeof *allow);
    (void)state;
    if (!allow) return IQ_MEMORY;
    for (uint32_t r = 0; r < a.rows; r++) allow[r] = a.allow[iq__neighbour(r, by, a.rows)];
    a.allow = allow;
    int status = iq__run_golden(x, site, "mask", &a);
    free(allow);
    return status;
}

const struct iq_variant iq__k26_neighbour_mask = {
    .kind = "mask",
    .name = "neighbour_mask",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the mask of one row is applied to the row beside it",
    .needs = "requests with bad_words or allowed beside others in one step",
    .story =
        "Bitmaps of structured output and of bad words are built for the requests that have one and "
        "applied by row of the batch; when the two orders part, a free answer is forced into a stranger's "
        "grammar, and the request that asked for one is not held to it. Structured-output back ends have "
        "had it where batches reorder, and with speculation, where a request has several rows.",
    .expect = "mask: a forbidden token keeps its logit, or an allowed one loses it; alone in a batch nothing "
              "changes",
};
