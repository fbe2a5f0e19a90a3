#include "kernels/cpu/vec_portable.h"

#include "kernels/cpu/moe_kernels.h"

VARIANTS(NULL);
