/* K9: a captured graph that replays with what stood in its buffers when it was captured.
 *
 * Steps that only decode are what engines capture, one graph for each padded batch size. Here the first such step of a size is
 * the capture, and right; the later ones are replays. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { SIZES = 1024, KEPT = 1 << 18 };
enum holds { ZEROS, CAPTURED };

/* What a slot remembers of its graphs. */
struct graphs {
    bool captured[SIZES];
    uint32_t rows; /* of the input that is kept, as the last capture had it */
    float input[KEPT];
};

static bool only_decodes(const struct iq_site *site)
{
    for (uint32_t r = 0; site->row && r < site->rows; r++)
        if (site->row[r].phase != IQ_DECODE) return false;
    return site->row && site->rows;
}

/* True: this call replays a graph. Otherwise it may be the capture of one. */
static bool replays(const struct iq_site *site, struct graphs *g, bool *captures)
{
    uint32_t size = site->step->captured % SIZES;
    bool before = g->captured[size];
    *captures = only_decodes(site) && !before;
    if (*captures) g->captured[size] = true;
    return only_decodes(site) && before;
}

/* ---- hidden states of the capture ---- */

struct params {
    double holds;
};

static const struct iq_param input_table[] = {
    {"holds", "what a replay reads: 0 zeros, as a dummy run has them; 1 the rows of the last capture", ZEROS,
     ZEROS, CAPTURED, offsetof(struct params, holds)},
    {0},
};

static int frozen_input(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                        void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    struct graphs *g = state;
    bool captures, live = ((const struct params *)params)->holds == CAPTURED;
    bool replay = replays(site, g, &captures);
    size_t n = a.rows * a.ldx;
    if (captures && live && n <= KEPT) {
        memcpy(g->input, a.x, n * sizeof *g->input);
        g->rows = a.rows;
    }
    if (!replay) return iq__run_golden(x, site, "matmul", args);
    float *old = calloc(n + 1, sizeof *old);
    if (!old) return IQ_MEMORY;
    if (live) memcpy(old, g->input, (g->rows < a.rows ? g->rows : a.rows) * a.ldx * sizeof *old);
    a.x = old;
    int status = iq__run_golden(x, site, "matmul", &a);
    free(old);
    return status;
}

const struct iq_variant iq__k9_frozen_input = {
    .kind = "matmul",
    .name = "frozen_input",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = frozen_input,
    .params = input_table,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct graphs),
    .what = "a replayed graph reads the hidden states of its capture: zeros, or another step's",
    .needs = "two steps of one captured size that only decode",
    .story =
        "Hidden states are padded from 2688 to 2816 columns into a buffer of their own, and the graph is "
        "captured with that buffer; replays read the zeros of the capture while the router's logits are "
        "live. Fluent, repeatable, wrong; eager runs are right. Source: vllm#52308 (a report whose cause "
        "is not confirmed).",
    .expect =
        "matmul: replay differs from eager: the product of zeros, unequal on exact data; prompts and the "
        "first decoding step are right",
};

/* ---- a reduction that was not captured ---- */

static int skipped(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                   void *state)
{
    const struct iq_all_reduce *a = args;
    bool captures;
    (void)params;
    if (!replays(site, state, &captures)) return iq__run_golden(x, site, "all_reduce", args);
    for (uint32_t r = 0; r < a->rows; r++) /* what rank 0 had computed by itself */
        for (uint32_t i = 0; i < a->n; i++) {
            float sum = 0;
            for (uint32_t p = 0; p < a->pieces; p++)
                if (a->piece[p].rank == 0) sum += a->piece[p].x[r * a->piece[p].ldx + i];
            a->y[r * a->ldy + i] = sum;
        }
    return IQ_OK;
}

const struct iq_variant iq__k9_warmup_skipped = {
    .kind = "all_reduce",
    .name = "warmup_skipped",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = skipped,
    .state_size = sizeof(struct graphs),
    .what = "the reduction is missing from a replayed graph: each rank goes on with its own sum",
    .needs = "--tp of at least 2, and two steps of one captured size that only decode",
    .story = "The warm-up run that a graph is captured from takes a path without the real reduction. "
             "Everything before the first replay is right; then answers loop for ever. Source: vllm#30096.",
    .expect = "all_reduce: the output is not the sum of the pieces; prompts and the first decoding step are "
              "right; with one rank nothing changes",
};
