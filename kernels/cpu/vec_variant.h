/* For files of kernels that are written once and compiled once per instruction set, after one of the vec_*.h: the record
 * iq__KIND_ISA of a golden variant that is run by the function of its kind's name. */
#ifndef IQ_CPU_VEC_VARIANT_H
#define IQ_CPU_VEC_VARIANT_H

#include "kernels/op.h"

#define INLINE static inline __attribute__((always_inline))

#define JOIN_(kind, isa) iq__##kind##_##isa
#define JOIN(kind, isa)  JOIN_(kind, isa)
/* VARIANT(kind, .usable = ..., other members) */
#define VARIANT(k, ...)                                                                                      \
    const struct iq_variant JOIN(k, IQ_ISA) = {                                                              \
        .kind = #k, .name = IQ_ISA_NAME, .device = "cpu", .flags = IQ_V_GOLDEN, .run = k, __VA_ARGS__}

/* Calls f(..., act) with act a constant, so that its loop has no branch on it. */
#define FOR_EACH_ACT(act, f, ...)                                                                            \
    do {                                                                                                     \
        if ((act) == IQ_ACT_BF16)                                                                            \
            f(__VA_ARGS__, IQ_ACT_BF16);                                                                     \
        else if ((act) == IQ_ACT_F16)                                                                        \
            f(__VA_ARGS__, IQ_ACT_F16);                                                                      \
        else                                                                                                 \
            f(__VA_ARGS__, IQ_ACT_F32);                                                                      \
    } while (0)

#endif
