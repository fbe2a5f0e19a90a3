/* Fragments of 32 lanes as matrices, and their product block by block (mma.h). Source of the layout: PTX ISA, "Matrix
 * Fragments for mma.m16n8k16 with floating point type". */
#include "kernels/cuda/shim/mma.h"
#include "kernels/cuda/shim/state.h"
#include "kernels/tensor_core/block.h"

enum { LANES = 32, M = 16, N = 8, K = 16 };

static struct iq_shim_mma *lanes[LANES]; /* of the operation that is being completed */

struct operand {
    uint16_t value[K];
    bool zero, finite; /* all of it */
};

/* In a fragment lane 4 * i + q holds of row i the columns 2 * q, 2 * q + 1 (one register) and those plus 8 (another). */
static struct operand gather(unsigned i, unsigned k, bool b, unsigned low, unsigned high)
{
    const struct iq_shim_mma *any = lanes[0];
    const uint16_t infinite = any->format == IQ_TC_F16 ? 0x7c00 : 0x7f80;
    struct operand o = {{}, true, true};
    for (unsigned c = 0; c < k; c++) {
        const struct iq_shim_mma *from = lanes[4 * i + c % 8 / 2];
        uint32_t pair = (b ? from->b : from->a)[c < 8 ? low : high];
        uint16_t v = (uint16_t)(c % 2 ? pair >> 16 : pair);
        o.value[c] = v;
        o.zero = o.zero && !(v & 0x7fff);
        o.finite = o.finite && (v & infinite) != infinite;
    }
    return o;
}

/* Zeros against finite numbers are products that count for nothing: a tile's padding, most often. */
static void product(void)
{
    const struct iq_shim_mma *any = lanes[0];
    const struct iq_tc_profile *profile = &iq_tc_profiles[any->profile];
    const enum iq_tc_format format = (enum iq_tc_format)any->format;
    struct operand b[N];
    for (unsigned n = 0; n < N; n++) b[n] = gather(n, any->k, true, 0, 1);
    for (unsigned m = 0; m < M; m++) {
        const struct operand a = gather(m % 8, any->k, false, m / 8, m / 8 + 2);
        for (unsigned n = 0; n < N; n++) {
            float *d = &lanes[m % 8 * 4 + n / 2]->d[m / 8 * 2 + n % 2];
            const unsigned k = a.zero && b[n].finite ? 0 : any->k;
            uint32_t c = __float_as_uint(*d);
            c = k ? iq_tc_dot(profile, format, a.value, b[n].value, k, c)
                  : iq_tc_block(profile, format, a.value, b[n].value, 0, c);
            *d = __uint_as_float(c);
        }
    }
}

/* Called with lanes 1 to 31 in turn; `so_far` is lane 0. */
static uint64_t meet(uint64_t so_far, uint64_t lane)
{
    struct iq_shim_mma *self = (struct iq_shim_mma *)(uintptr_t)lane;
    lanes[0] = (struct iq_shim_mma *)(uintptr_t)so_far;
    lanes[self->lane] = self;
    if (self->profile != lanes[0]->profile || self->format != lanes[0]->format || self->k != lanes[0]->k)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED, "mma: lane %u has another product in mind than lane 0",
                          self->lane);
    if (self->lane == LANES - 1) product();
    return so_far;
}

void iq_shim_mma(struct iq_shim_mma *self, const char *file, int line)
{
    self->lane = iq_shim_thread->lane;
    iq_shim_collective(0xffffffffu, (uintptr_t)self, IQ_SHIM_NO_SOURCE, meet, file, line);
}
