#include "kernels/cpu/vec_portable.h"

#include "kernels/cpu/vector_kernels.h"

VARIANTS(NULL);
