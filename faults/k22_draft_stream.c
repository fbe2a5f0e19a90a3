/* K22: rows that verify drafts are drawn from the draft's stream of random numbers.
 *
 * The draw of a token belongs to the request's seed and the position, whatever step computes it. Here a step that verifies
 * draws its tokens as if they were drafts: the candidates are golden's, the choice is another. Greedy rows draw nothing. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/base/rng.h"
#include "kernels/ops/sampling.h"

#include <stdlib.h>
#include <string.h>

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_sample a = *(const struct iq_sample *)args;
    (void)params, (void)state;
    uint64_t *seed = malloc((a.rows + 1) * sizeof *seed);
    if (!seed) return IQ_MEMORY;
    memcpy(seed, a.seed, a.rows * sizeof *seed);
    for (uint32_t r = 0; r < site->rows; r++)
        if (site->row[r].draft) seed[r] = iq_draw(seed[r], a.pos[r], IQ_DRAW_DRAFT);
    a.seed = seed;
    int status = iq__run_golden(x, site, "sample", &a);
    free(seed);
    return status;
}

const struct iq_variant iq__k22_draft_stream = {
    .kind = "sample",
    .name = "draft_stream",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .what = "rows that verify drafts are drawn from the draft's random stream",
    .needs = "speculation (--speculate), drafts, and a temperature above 0",
    .story = "A step that verifies drafts samples through another path than plain decoding, with a generator "
             "of its own "
             "for the draft: a request with a fixed seed gets other tokens as soon as something is drafted, "
             "and its "
             "answer depends on what was. Sources: vllm#54506 and vllm#52522 (speculation changes seeded "
             "answers, causes "
             "unconfirmed).",
    .expect = "sample: with golden's candidates another token is drawn, in rows of requests that have drafts "
              "and sample; "
              "greedy requests and steps without drafts do not change",
};
