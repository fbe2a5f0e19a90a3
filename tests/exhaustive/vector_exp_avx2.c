#include "kernels/cpu/vec_avx2.h"

#include "tests/exhaustive/vector_exp.h"
