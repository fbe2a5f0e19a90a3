/* The record behind a reference's source that was built again. `run` is the source's own. */
#ifdef AGAIN_NEEDS_FMA
#include "kernels/cpu/features.h"

static bool again_usable(void)
{
#if defined __x86_64__
    return iq_cpu_has_avx2();
#else
    return true;
#endif
}
#define AGAIN_USABLE again_usable
#else
#define AGAIN_USABLE NULL
#endif

extern const struct iq_variant AGAIN_SYMBOL;
const struct iq_variant AGAIN_SYMBOL = {
    .kind = AGAIN_KIND,
    .name = AGAIN_NAME,
    .device = "cpu",
    .flags = IQ_V_BENIGN,
    .run = run,
    .usable = AGAIN_USABLE,
    .what = "the reference built again: " AGAIN_HOW,
    .story = "The reference's source, unchanged, as another build makes it. A compiler that may reorder, "
             "fuse, or take NaN "
             "and infinity for impossible makes other code of it, at times wrong code. Whether it differs on "
             "this machine "
             "is measured: inquest doctor --variants.",
    .expect = AGAIN_KIND ": nothing, other last bits, or wrong results, as the compiler made it",
};
