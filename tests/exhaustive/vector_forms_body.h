/* Included after a vec_*.h. */
#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_math.h"
#include "tests/exhaustive/vector_forms.h"

static void each_exp(const float *x, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += VL) v_store(y + i, v_exp(v_load(x + i)));
}

static void each_max(const float *a, const float *b, float *y, size_t n)
{
    for (size_t i = 0; i < n; i += VL) v_store(y + i, v_max(v_load(a + i), v_load(b + i)));
}

static void each_act_round(const float *x, float *y, size_t n, uint32_t act)
{
    for (size_t i = 0; i < n; i += VL) v_store(y + i, v_act_round(v_load(x + i), act));
}

#define FORMS(isa, usable)                                                                                   \
    const struct vector_forms vector_forms_##isa = {#isa, usable, each_exp, each_max, each_act_round}
