#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/vector_kernels.h"

#define USABLE iq_cpu_has_avx512
VARIANT(add);
VARIANT(swiglu);
VARIANT(temper);
VARIANT(rmsnorm);
VARIANT(rope);
