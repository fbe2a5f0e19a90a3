/* Weight formats as model files hold them. A matrix is rows of k elements; a row is a whole number of blocks, and a
 * block's elements run along k. Values are exact: F32 as it is; F16 and BF16 widened; Q8_0 is d*q, Q4_0 d*(q-8), Q4_1
 * d*q+m with d and m float16 and q the file's integers. In Q4 blocks of 32 the low nibble of byte i is element i, the
 * high nibble element i+16. Layouts (little endian): Q8_0 {f16 d; int8 q[32]}, Q4_0 {f16 d; uint8 q[16]}, Q4_1 {f16 d;
 * f16 m; uint8 q[16]}. Source: ggml-common.h of llama.cpp. */
#ifndef IQ_OPS_FORMAT_H
#define IQ_OPS_FORMAT_H

#include <stddef.h>

enum iq_format { IQ_FORMAT_NONE = -1, IQ_F32, IQ_F16, IQ_BF16, IQ_Q8_0, IQ_Q4_0, IQ_Q4_1, IQ_FORMATS };

struct iq_format_info {
    const char *name;
    size_t elements, bytes; /* of a block */
};

#ifndef __cplusplus /* its tables are C's */
/* f: IQ_F32 .. IQ_Q4_1. */
static inline const struct iq_format_info *iq_format_info(enum iq_format f)
{
    static const struct iq_format_info table[IQ_FORMATS] = {
        [IQ_F32] = {"F32", 1, 4},     [IQ_F16] = {"F16", 1, 2},     [IQ_BF16] = {"BF16", 1, 2},
        [IQ_Q8_0] = {"Q8_0", 32, 34}, [IQ_Q4_0] = {"Q4_0", 32, 18}, [IQ_Q4_1] = {"Q4_1", 32, 20}};
    return &table[f];
}

/* Bytes of a row of k elements; k is a multiple of the block's elements. */
static inline size_t iq_format_row_bytes(enum iq_format f, size_t k)
{
    const struct iq_format_info *i = iq_format_info(f);
    return k / i->elements * i->bytes;
}
#endif

#endif
