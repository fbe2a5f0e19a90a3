#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vector_kernels.h"

VARIANTS(iq_cpu_has_avx512);
