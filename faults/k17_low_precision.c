/* K17: activations rounded before the product: a lower-precision path that a heuristic takes for some
 * batches.
 *
 * Small integers survive it, and the result is as right as its inputs, so no invariant breaks: only the
 * distance to the exact product betrays it. */
#include "faults/beneath.h"
#include "faults/cuda/launch_faults.h"
#include "faults/families.h"
#include "faults/round_rules.h"
#include "kernels/cuda/device.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stddef.h>
#include <stdlib.h>

struct params {
    double bits;
};

static const struct iq_param table[] = {
    {"bits", "significant bits kept of each activation: 8 is bfloat16, 11 float16, 4 and 3 the two float8s",
     8, 1, 24, offsetof(struct params, bits)},
    {0},
};

/* Columns that the parts read. */
static size_t width_of(const struct iq_matmul *a)
{
    size_t width = 0;
    for (uint32_t i = 0; i < a->parts; i++) {
        size_t end = (size_t)a->part[i].x_at + a->part[i].w->k;
        if (end > width) width = end;
    }
    return width;
}

static int run_on_device(struct iq_exec *x, const struct iq_site *site, struct iq_matmul *a, size_t width,
                         uint32_t bits)
{
    float *low = iq_cuda_room_at_least(x->cuda, &x->cuda->above, a->rows * width * sizeof *low);
    if (!low) return IQ_MEMORY;
    int status = IQ_CUDA_PICK(x->cuda, k17)(a->x, a->ldx, a->rows, width, bits, low, x->cuda->stream);
    IQ_TRY(iq_cuda_launched(x->cuda, status, "rounding activations"));
    a->x = low;
    a->ldx = width;
    return iq__run_golden(x, site, "matmul", a);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    uint32_t bits = (uint32_t)((const struct params *)params)->bits;
    size_t width = width_of(&a);
    (void)state;
    if (x->cuda) return run_on_device(x, site, &a, width, bits);
    /* Not the scratch of x: that belongs to the product beneath. */
    float *low = malloc((a.rows * width + 1) * sizeof *low);
    if (!low) return IQ_MEMORY;
    for (uint32_t r = 0; r < a.rows; r++)
        for (size_t i = 0; i < width; i++) low[r * width + i] = iq__rounded(a.x[r * a.ldx + i], bits);
    a.x = low;
    a.ldx = width;
    int status = iq__run_golden(x, site, "matmul", &a);
    free(low);
    return status;
}

const struct iq_variant iq__k17_low_precision = {
    .kind = "matmul",
    .name = "low_precision",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_ROW_LOCAL,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "activations are rounded to bfloat16 or less before the product",
    .story = "A product takes a lower-precision path for some shapes, as a heuristic or an autotuner chose: "
             "activations are rounded to bfloat16 or less before it. The mixed precision of "
             "anthropic.com/engineering/a-postmortem-of-three-recent-issues is its relative.",
    .expect =
        "matmul: the distance to the exact product exceeds what any order of float32 sums explains; exact "
        "data with few bits stays equal",
};
