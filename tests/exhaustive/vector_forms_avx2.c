#include "kernels/cpu/vec_avx2.h"

#include "tests/exhaustive/vector_forms_body.h"

FORMS(avx2, iq_cpu_has_avx2);
