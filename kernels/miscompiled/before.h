/* What a reference's source sees in front of it as it is built again. The arithmetic's own functions are static, so they are
 * built by the recipe as well. */
#include "kernels/arith.h"
#include "kernels/op.h"

#ifdef AGAIN_HALF
/* Each step of a chain is kept in half precision. */
static inline float again_half(float f) { return iq_f16_to_f32(iq_f32_to_f16(f)); }
#undef IQ_FMAF
#define IQ_FMAF(a, b, c) again_half(__builtin_fmaf(a, b, c))
#define fmaf(a, b, c)    again_half(__builtin_fmaf(a, b, c))
#endif
