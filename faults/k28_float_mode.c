/* K28: the floating-point mode that a loaded library left behind: subnormals flushed, or another rounding mode.
 *
 * The op runs in that mode on the calling thread, all of it, and the mode is put back behind it: so the op is golden's own
 * code, in a process that a library linked with fast-math was loaded into. */
#include "faults/beneath.h"
#include "faults/families.h"

#include <fenv.h>
#include <stddef.h>

#if defined __SSE__
#include <immintrin.h>
#endif

enum { FLUSH = 0, TOWARD_ZERO = 1, UP = 2, DOWN = 3 };

struct params {
    double mode;
};

static const struct iq_param table[] = {
    {"mode",
     "0: subnormals are flushed to zero, as inputs and as results; 1: rounds toward zero; 2: up; 3: down",
     FLUSH, FLUSH, DOWN, offsetof(struct params, mode)},
    {0},
};

static void flush(void)
{
#if defined __SSE__
    enum { FLUSH_TO_ZERO = 0x8000, DENORMALS_ARE_ZERO = 0x40 };
    _mm_setcsr(_mm_getcsr() | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
#elif defined __aarch64__
    uint64_t fpcr, fz = (uint64_t)1 << 24;
    __asm__ volatile("mrs %0, fpcr" : "=r"(fpcr));
    __asm__ volatile("msr fpcr, %0" : : "r"(fpcr | fz));
#endif
}

static int in_mode(struct iq_exec *x, const struct iq_site *site, const char *kind, const void *args,
                   const void *params)
{
    static const int rounding[] = {FE_TONEAREST, FE_TOWARDZERO, FE_UPWARD, FE_DOWNWARD};
    struct iq_exec alone = *x; /* other threads have modes of their own */
    int mode = (int)((const struct params *)params)->mode;
    fenv_t before;
    alone.pool = NULL;
    if (fegetenv(&before)) return IQ_UNSUPPORTED;
    if (mode == FLUSH)
        flush();
    else
        fesetround(rounding[mode]);
    int status = iq__run_golden(&alone, site, kind, args);
    fesetenv(&before);
    x->scratch = alone.scratch, x->scratch_cap = alone.scratch_cap;
    return status;
}

#define FLOAT_MODE(id, of, variant)                                                                          \
    static int run_##id(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params, \
                        void *state)                                                                         \
    {                                                                                                        \
        (void)state;                                                                                         \
        return in_mode(x, site, of, args, params);                                                           \
    }                                                                                                        \
    const struct iq_variant iq__k28_##id = {                                                                 \
        .kind = of,                                                                                          \
        .name = variant,                                                                                     \
        .device = "cpu",                                                                                     \
        .flags = IQ_V_FAULTY,                                                                                \
        .run = run_##id,                                                                                     \
        .params = table,                                                                                     \
        .params_size = sizeof(struct params),                                                                \
        .what = "the op runs with subnormals flushed to zero, or in another rounding mode",                  \
        .needs = "by mode 0 values below 1.2e-38 on the way, which few models have; by the others nothing",  \
        .story = "A shared library that was linked with fast-math sets the processor's floating-point mode " \
                 "as it is loaded: "                                                                         \
                 "from then on subnormals are zeros in the thread that loaded it and in those that it "      \
                 "starts. Source: "                                                                          \
                 "llvm-project#57589. A changed rounding mode has the same ways in.",                        \
        .expect = of ": small values vanish (mode 0), or all errors lean to one side (the others), by less " \
                     "than a unit in "                                                                       \
                     "the last place of each step",                                                          \
    };

FLOAT_MODE(matmul, "matmul", "matmul_mode")
FLOAT_MODE(rmsnorm, "rmsnorm", "norm_mode")
FLOAT_MODE(attention, "attention", "attention_mode")
FLOAT_MODE(add, "add", "add_mode")
FLOAT_MODE(all_reduce, "all_reduce", "reduce_mode")
FLOAT_MODE(swiglu, "swiglu", "swiglu_mode")
FLOAT_MODE(temper, "temper", "temper_mode")
