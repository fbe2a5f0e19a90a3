/* K8: activations are quantised with one scale for the whole step, and rows that are padding take part in it.
 *
 * The scale is a power of two, from the largest magnitude of all rows of the call; eight bits and a sign remain. Padding rows
 * hold what nobody cleared. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stddef.h>
#include <stdlib.h>

enum padding { IGNORED, AS_IT_IS, LARGE, NOT_A_NUMBER };
enum { STEPS = 128 };

struct params {
    double padding, size;
};

static const struct iq_param table[] = {
    {"padding",
     "padding rows in the scale: 0 left out; 1 with what they hold; 2 with finite garbage; 3 with NaN",
     NOT_A_NUMBER, IGNORED, NOT_A_NUMBER, offsetof(struct params, padding)},
    {"size", "by 2, the garbage's magnitude over the real rows' largest", 1000, 0, 1e30,
     offsetof(struct params, size)},
    {0},
};

/* NaN if any is, as a maximum on a device that passes NaN on. */
static float largest(const float *x, size_t ld, size_t width, uint32_t from, uint32_t to)
{
    float most = 0;
    for (uint32_t r = from; r < to; r++)
        for (size_t i = 0; i < width; i++) most = iq_max(most, fabsf(x[r * ld + i]));
    return most;
}

static float scale_of(const struct iq_matmul *a, size_t width, uint32_t real, const struct params *p)
{
    float most = largest(a->x, a->ldx, width, 0, real);
    bool padded = real < a->rows;
    int up;
    if (padded && p->padding == AS_IT_IS) most = iq_max(most, largest(a->x, a->ldx, width, real, a->rows));
    if (padded && p->padding == LARGE) most = most * (float)fmax(p->size, 1);
    if (padded && p->padding == NOT_A_NUMBER) most = iq_nan();
    if (!(most > 0) || !(most < INFINITY)) return most > 0 || most != most ? iq_nan() : 1;
    frexpf(most, &up);
    return ldexpf(1, up) / STEPS;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    uint32_t real = site->rows && site->rows < a.rows ? site->rows : a.rows;
    size_t width = 0;
    (void)state;
    for (uint32_t i = 0; i < a.parts; i++) {
        size_t end = (size_t)a.part[i].x_at + a.part[i].w->k;
        width = end > width ? end : width;
    }
    float scale = scale_of(&a, width, real, params), *low = malloc((a.rows * width + 1) * sizeof *low);
    if (!low) return IQ_MEMORY;
    for (uint32_t r = 0; r < a.rows; r++)
        for (size_t i = 0; i < width; i++) low[r * width + i] = rintf(a.x[r * a.ldx + i] / scale) * scale;
    a.x = low, a.ldx = width;
    int status = iq__run_golden(x, site, "matmul", &a);
    free(low);
    return status;
}

const struct iq_variant iq__k8_shared_scale = {
    .kind = "matmul",
    .name = "shared_scale",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "activations are quantised by one scale of the whole step, padding rows included",
    .needs =
        "a captured batch (--captured) that is larger than the real one; without padding it is a product "
        "of 8-bit activations with one scale for all rows",
    .story = "Kernels skip the padding rows of a captured batch, so that these keep what earlier steps left: "
             "NaN, or finite garbage. A scale that is taken over the whole batch reads them. With NaN every "
             "real row is NaN; with garbage every real row loses its low bits. Sources: vllm#37442, "
             "flashinfer#2883 and #3057.",
    .expect =
        "matmul: changing padding rows changes real rows: NaN, or errors of the garbage's size, unequal "
        "on exact data",
};
