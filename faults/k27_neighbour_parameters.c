/* K27: a row samples with its neighbour's parameters. The batch's parameters stand in arrays by row; a request ends, rows
 * close the gap, and one array is not moved along. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/neighbour.h"
#include "kernels/ops/sampling.h"

#include <stddef.h>
#include <stdlib.h>

enum which { TOP_K, TOP_P, MIN_P, SEED, ALL };

struct params {
    double which, by;
};

static const struct iq_param table[] = {
    {"which", "what leaks: 0 top_k, 1 top_p, 2 min_p, 3 the seed, 4 all of them", ALL, TOP_K, ALL,
     offsetof(struct params, which)},
    {"by", "how many rows away the neighbour is; before (-) or behind (+)", -1, -4096, 4096,
     offsetof(struct params, by)},
    {0},
};

/* Arrays of a row's own parameters, or the neighbour's where `leaks`. */
struct leaked {
    uint64_t *seed;
    uint32_t *top_k;
    float *top_p, *min_p;
};

static void leak(const struct iq_sample *a, const struct params *p, struct leaked *to)
{
    for (uint32_t r = 0; r < a->rows; r++) {
        uint32_t n = iq__neighbour(r, (int64_t)p->by, a->rows);
        enum which which = (enum which)p->which;
        to->seed[r] = a->seed[which == SEED || which == ALL ? n : r];
        to->top_k[r] = a->top_k[which == TOP_K || which == ALL ? n : r];
        to->top_p[r] = a->top_p[which == TOP_P || which == ALL ? n : r];
        to->min_p[r] = a->min_p[which == MIN_P || which == ALL ? n : r];
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_sample a = *(const struct iq_sample *)args;
    size_t n = a.rows;
    (void)state;
    uint64_t *room = malloc((n + 1) * (sizeof(uint64_t) + 4 * sizeof(float)));
    if (!room) return IQ_MEMORY;
    struct leaked to = {.seed = room, .top_k = (uint32_t *)(room + n)};
    to.top_p = (float *)(to.top_k + n);
    to.min_p = to.top_p + n;
    leak(&a, params, &to);
    a.seed = to.seed;
    a.top_k = to.top_k;
    a.top_p = to.top_p;
    a.min_p = to.min_p;
    int status = iq__run_golden(x, site, "sample", &a);
    free(room);
    return status;
}

const struct iq_variant iq__k27_neighbour_parameters = {
    .kind = "sample",
    .name = "neighbour_parameters",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a row samples with the top_k, top_p, min_p or seed of the row beside it",
    .needs = "a temperature above 0, and requests of different parameters in one step",
    .story =
        "A batch keeps the sampling parameters of its requests in arrays by row. When a request ends and "
        "rows close the gap, an array that is not moved along gives a row the parameters of another: an "
        "answer that was to be cut at top-p 0.5 is drawn from everything. Only a comparison with the "
        "request run alone shows it.",
    .expect = "sample: a row's token depends on the parameters of the row beside it; alone in a batch it is "
              "golden's",
};
