#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/vector_kernels.h"

#define USABLE iq_cpu_has_avx2
VARIANT(add);
VARIANT(swiglu);
VARIANT(temper);
VARIANT(rmsnorm);
VARIANT(rope);
