#include "kernels/cpu/vec_portable.h"

#include "tests/exhaustive/vector_exp.h"
