/* The variants of matmul that multiply as tensor cores do: for each profile and operand format the fastest form where the op
 * runs ("sm90"), and each form of the CPU by its name ("sm90.avx2"). */
#include "kernels/cpu/features.h"
#include "kernels/cuda/products.h"
#include "kernels/op.h"
#include "kernels/tables.h"
#include "kernels/tensor_core/tile.h"

static bool always(void) { return true; }

#if defined __x86_64__
#define FORMS(X, ...)                                                                                        \
    X(scalar, always, __VA_ARGS__)                                                                           \
    X(avx2, iq_cpu_has_avx2, __VA_ARGS__) X(avx512, iq_cpu_has_avx512, __VA_ARGS__)
static const struct iq__tc_form *fastest(void)
{
    return iq_cpu_has_avx512() ? &iq__tc_avx512 : iq_cpu_has_avx2() ? &iq__tc_avx2 : &iq__tc_scalar;
}
#else
#define FORMS(X, ...) X(scalar, always, __VA_ARGS__)
static const struct iq__tc_form *fastest(void) { return &iq__tc_scalar; }
#endif

#define RUN(id, form, profile, format)                                                                       \
    static int run_##id(struct iq_exec *exec, const struct iq_site *site, const void *args,                  \
                        const void *params, void *state)                                                     \
    {                                                                                                        \
        (void)site, (void)params, (void)state;                                                               \
        return iq__tc_run(form, IQ_TC_##profile, IQ_TC_##format, exec, args);                                \
    }
#define RUN_ANY(id, name, profile, format)                                                                   \
    static int run_##id(struct iq_exec *exec, const struct iq_site *site, const void *args,                  \
                        const void *params, void *state)                                                     \
    {                                                                                                        \
        (void)site, (void)params, (void)state;                                                               \
        if (exec->cuda)                                                                                      \
            return iq__cuda_products_run(exec->cuda, name, IQ_TC_##profile, IQ_TC_##format, args);           \
        return iq__tc_run(fastest(), IQ_TC_##profile, IQ_TC_##format, exec, args);                           \
    }
/* Benign: another rounding of the same sum, which nothing but the operands' precision makes worse. */
#define VARIANT(id, text, where, can, line)                                                                  \
    static const struct iq_variant variant_##id = {.kind = "matmul",                                         \
                                                   .name = text,                                             \
                                                   .device = where,                                          \
                                                   .flags = IQ_V_BENIGN,                                     \
                                                   .what = line,                                             \
                                                   .run = run_##id,                                          \
                                                   .usable = can};
#define LINE "products as this GPU's tensor cores make them: another rounding of the same sum"
#define FORM(form, can, id, name, profile, format)                                                           \
    RUN(id##_##form, &iq__tc_##form, profile, format) VARIANT(id##_##form, name "." #form, "cpu", can, NULL)
#define DEFINE(id, name, profile, format)                                                                    \
    RUN_ANY(id, name, profile, format)                                                                       \
    VARIANT(id, name, "any", always, LINE) FORMS(FORM, id, name, profile, format)
IQ_TC_PRODUCTS_MAP(DEFINE)

#define FORM_ENTRY(form, can, id, name, profile, format) &variant_##id##_##form,
#define ENTRY(id, name, profile, format)                 &variant_##id, FORMS(FORM_ENTRY, id, name, profile, format)
const struct iq_variant *const iq__variants_tensor_core[] = {IQ_TC_PRODUCTS_MAP(ENTRY) NULL};
