/* The references of top-k, norm, attention, matmul and all-reduce, built again with flags that break the contract: fast-math,
 * contraction, reassociation, no NaN; with accumulators of half precision; and by the other compiler. What that does to a
 * result is up to the compiler and the machine: all are marked benign and none may serve golden; whether one differs from the
 * reference here, and how, is measured (iq_vitro, `inquest doctor --variants`). */
#ifndef IQ_MISCOMPILED_H
#define IQ_MISCOMPILED_H

#include "kernels/op.h"

extern const struct iq_variant *const iq_miscompiled_variants[]; /* NULL ends */
/* The other compiler, "clang" or "gcc", and its version; "": it was not there when this was built. */
extern const char *const iq_miscompiled_other, *const iq_miscompiled_version;

#endif
