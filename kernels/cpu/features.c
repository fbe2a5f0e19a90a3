#include "kernels/cpu/features.h"

/* __builtin_cpu_supports also asks whether the system saves the registers (XGETBV), so a kernel booted without
 * AVX-512 says no here. It does not know f16c in every compiler, so that bit is read from cpuid; its registers are
 * AVX's. Other architectures have only the portable kernels. */
#if defined __x86_64__ || defined __i386__
#include <cpuid.h>
#define HAS(feature) (__builtin_cpu_supports(feature) != 0)

static bool has_f16c(void)
{
    unsigned a, b, c, d;
    return __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}
#else
#define HAS(feature) false
#define has_f16c()   false
#endif

bool iq_cpu_has_avx2(void) { return HAS("avx2") && HAS("fma") && has_f16c(); }

bool iq_cpu_has_avx512(void)
{
    return iq_cpu_has_avx2() && HAS("avx512f") && HAS("avx512bw") && HAS("avx512vl") && HAS("avx512dq");
}
