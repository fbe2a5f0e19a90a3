#include "kernels/cpu/vec_portable.h"

#include "kernels/cpu/vector_kernels.h"

#define USABLE NULL
VARIANT(add);
VARIANT(swiglu);
VARIANT(temper);
VARIANT(rmsnorm);
VARIANT(rope);
