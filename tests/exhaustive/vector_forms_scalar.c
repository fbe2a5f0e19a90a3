#include "kernels/cpu/vec_portable.h"

#include "tests/exhaustive/vector_forms_body.h"

FORMS(scalar, NULL);
