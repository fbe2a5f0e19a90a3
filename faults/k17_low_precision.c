/* K17: activations rounded before the product: a lower-precision path that a heuristic takes for some
 * batches.
 *
 * Small integers survive it, and the result is as right as its inputs, so no invariant breaks: only the
 * distance to the exact product betrays it. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
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

/* Nearest even to `bits` significant bits; the exponent keeps its range, as bfloat16's does. */
static float rounded(float f, uint32_t bits)
{
    uint32_t u = iq_f32_bits(f), drop = 24 - bits;
    if (!drop || (u & 0x7f800000u) == 0x7f800000u) return f;
    u += (1u << (drop - 1)) - 1 + (u >> drop & 1u);
    return iq_bits_f32(u >> drop << drop);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    const struct params *p = params;
    size_t width = 0;
    (void)state;
    for (uint32_t i = 0; i < a.parts; i++) {
        size_t end = (size_t)a.part[i].x_at + a.part[i].w->k;
        if (end > width) width = end;
    }
    /* Not the scratch of x: that belongs to the product beneath. */
    float *low = malloc((a.rows * width + 1) * sizeof *low);
    if (!low) return IQ_MEMORY;
    for (uint32_t r = 0; r < a.rows; r++)
        for (size_t i = 0; i < width; i++)
            low[r * width + i] = rounded(a.x[r * a.ldx + i], (uint32_t)p->bits);
    a.x = low;
    a.ldx = width;
    int status = iq__run_golden(x, site, "matmul", &a);
    free(low);
    return status;
}

const struct iq_variant iq__k17_low_precision = {
    .kind = "matmul",
    .name = "low_precision",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "activations are rounded to bfloat16 or less before the product",
    .story = "A product takes a lower-precision path for some shapes, as a heuristic or an autotuner chose: "
             "activations "
             "are rounded to bfloat16 or less before it. The mixed precision of "
             "anthropic.com/engineering/a-postmortem-of-three-recent-issues is its relative.",
    .expect =
        "matmul: the distance to the exact product exceeds what any order of float32 sums explains; exact "
        "data with few bits stays equal",
};
