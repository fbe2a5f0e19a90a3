#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/moe_kernels.h"

VARIANTS(iq_cpu_has_avx2);
