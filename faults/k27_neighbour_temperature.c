/* K27: a row is tempered with its neighbour's temperature. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/neighbour.h"
#include "kernels/ops/vector.h"

#include <stddef.h>
#include <stdlib.h>

struct params {
    double by;
};

static const struct iq_param table[] = {
    {"by", "how many rows away the neighbour is; before (-) or behind (+)", -1, -4096, 4096,
     offsetof(struct params, by)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_temper a = *(const struct iq_temper *)args;
    int64_t by = (int64_t)((const struct params *)params)->by;
    float *t = malloc((a.rows + 1) * sizeof *t);
    (void)state;
    if (!t) return IQ_MEMORY;
    for (uint32_t r = 0; r < a.rows; r++) t[r] = a.temperature[iq__neighbour(r, by, a.rows)];
    a.temperature = t;
    int status = iq__run_golden(x, site, "temper", &a);
    free(t);
    return status;
}

const struct iq_variant iq__k27_neighbour_temperature = {
    .kind = "temper",
    .name = "neighbour_temperature",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "a row is tempered with the temperature of the row beside it",
    .needs = "requests of different temperatures in one step, one of them neither 0 nor 1",
    .story = "The temperature of a batch is an array by row; rows are moved when requests come and go, and "
             "the array is not: a careful request next to a creative one is answered at the wrong "
             "temperature. Alone it is answered well, so nobody can repeat it.",
    .expect = "temper: a row's logits are divided by the temperature of the row beside it; alone in a batch "
              "they are golden's",
};
