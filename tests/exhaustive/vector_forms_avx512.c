#include "kernels/cpu/vec_avx512.h"

#include "tests/exhaustive/vector_forms_body.h"

FORMS(avx512, iq_cpu_has_avx512);
