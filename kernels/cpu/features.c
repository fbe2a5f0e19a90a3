#include "kernels/cpu/features.h"

/* __builtin_cpu_supports also asks whether the system saves the registers (XGETBV), so a kernel booted without
 * AVX-512 says no here. Other architectures have only the portable kernels. */
#if defined __x86_64__ || defined __i386__
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)
#else
#define HAS(feature) false
#endif

bool iq_cpu_has_avx2(void) { return HAS("avx2") && HAS("fma") && HAS("f16c"); }

bool iq_cpu_has_avx512(void)
{
    return iq_cpu_has_avx2() && HAS("avx512f") && HAS("avx512bw") && HAS("avx512vl") && HAS("avx512dq");
}
