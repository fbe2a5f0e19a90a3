#include "kernels/cpu/vec_avx512.h"

#include "tests/exhaustive/vector_exp.h"
