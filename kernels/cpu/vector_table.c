/* The variants of rmsnorm, rope, add, swiglu and temper that are built in. */
#include "kernels/tables.h"

#define EACH_KIND(X) X(rmsnorm) X(rope) X(add) X(swiglu) X(temper)
#ifdef __x86_64__
#define EACH_VARIANT(X, k) X(k, reference) X(k, scalar) X(k, avx2) X(k, avx512)
#else
#define EACH_VARIANT(X, k) X(k, reference) X(k, scalar)
#endif

#define DECLARE(k, v)   extern const struct iq_variant iq__##k##_##v;
#define DECLARE_KIND(k) EACH_VARIANT(DECLARE, k)
EACH_KIND(DECLARE_KIND)

#define ROW(k, v)    &iq__##k##_##v,
#define ROWS_KIND(k) EACH_VARIANT(ROW, k)
const struct iq_variant *const iq__variants_vector[] = {EACH_KIND(ROWS_KIND) NULL};
