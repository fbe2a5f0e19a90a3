/* The variants of route, moe_dispatch, all_to_all, grouped_matmul and combine. A dispatch sorts some hundred ids and an
 * exchange copies rows that are in cache: no instruction set has a variant of its own of these. */
#include "kernels/tables.h"

#define EACH_KIND(X) X(route) X(grouped_matmul) X(combine)
#ifdef __x86_64__
#define EACH_VARIANT(X, k) X(k, reference) X(k, scalar) X(k, avx2) X(k, avx512)
#else
#define EACH_VARIANT(X, k) X(k, reference) X(k, scalar)
#endif
#define EACH_PLAIN(X) X(moe_dispatch, reference) X(all_to_all, reference)

#define DECLARE(k, v)   extern const struct iq_variant iq__##k##_##v;
#define DECLARE_KIND(k) EACH_VARIANT(DECLARE, k)
EACH_KIND(DECLARE_KIND)
EACH_PLAIN(DECLARE)

#define ROW(k, v)    &iq__##k##_##v,
#define ROWS_KIND(k) EACH_VARIANT(ROW, k)
const struct iq_variant *const iq__variants_moe[] = {EACH_KIND(ROWS_KIND) EACH_PLAIN(ROW) NULL};
