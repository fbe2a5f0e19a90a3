/* Dot products as NVIDIA's tensor cores make them, bit for bit, on any machine.
 *
 * The unit takes a block of products and a float32 accumulator. Operands are bf16 or fp16, subnormals kept. Products are
 * exact integers and are not normalised: their exponent is the sum of the operands' exponents; products that are zero are
 * dropped. With emax the largest exponent among products and accumulator, each significand, the accumulator's too, is
 * brought to the unit 2^(emax - fraction) and its magnitude truncated. The exact sum of these integers is normalised
 * once and rounded toward zero to float32; too large gives infinity, an exact zero +0; NaN, infinity times zero and
 * infinities of both signs give IQ_NAN_BITS. A longer K is a chain: the next block takes the result as its accumulator.
 *
 * Values are bit patterns. Nothing here allocates or fails.
 * Sources: arXiv 2511.10909 and arXiv 2512.07004, whose measurements on A100, H100, H200 and B200 are in
 * tests/data/tensor_core. */
#ifndef IQ_TENSOR_CORE_BLOCK_H
#define IQ_TENSOR_CORE_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* name, products of a block, fraction bits kept below the largest exponent */
#define IQ_TC_PROFILE_MAP(X)                                                                                 \
    X(SM80, "sm80", 8, 24)                                                                                   \
    X(SM90, "sm90", 16, 25)                                                                                  \
    X(SM100, "sm100", 16, 25)

enum iq_tc_profile_id {
#define X(id, ...) IQ_TC_##id,
    IQ_TC_PROFILE_MAP(X)
#undef X
        IQ_TC_PROFILES
};

struct iq_tc_profile {
    const char *name;
    uint32_t products; /* of a block: 8 or 16 */
    int fraction;
    int emax_floor; /* IQ_TC_EMAX_FLOOR; a field so that a probe of real hardware can try others */
};
extern const struct iq_tc_profile iq_tc_profiles[IQ_TC_PROFILES];

enum iq_tc_format { IQ_TC_BF16, IQ_TC_F16 };

/* What a user calls products: identifier, name, profile, operand format. */
#define IQ_TC_PRODUCTS_MAP(X)                                                                                \
    X(sm80, "sm80", SM80, BF16)                                                                              \
    X(sm90, "sm90", SM90, BF16)                                                                              \
    X(sm100, "sm100", SM100, BF16)                                                                           \
    X(sm80_f16, "sm80-f16", SM80, F16)                                                                       \
    X(sm90_f16, "sm90-f16", SM90, F16)                                                                       \
    X(sm100_f16, "sm100-f16", SM100, F16)

/* The arithmetic of products in words, for a contract id: equal where the bits are (sm90, sm100). NULL: unknown name. */
const char *iq_tc_arithmetic(const char *products, char *text, size_t size);

enum {
    IQ_TC_BLOCK = 16, /* most products of a block */
    /* The least emax. It decides bits of results below about 2^-126 only. Not settled: public sources say -126, -132 or
     * -133, and no measured row tells them apart. */
    IQ_TC_EMAX_FLOOR = -133
};

/* One block: c + sum of a[i] * b[i], i < n <= profile->products. */
uint32_t iq_tc_block(const struct iq_tc_profile *, enum iq_tc_format, const uint16_t *a, const uint16_t *b,
                     uint32_t n, uint32_t c);
/* k products, block after block, i ascending; the last block may be shorter. */
uint32_t iq_tc_dot(const struct iq_tc_profile *, enum iq_tc_format, const uint16_t *a, const uint16_t *b,
                   uint32_t k, uint32_t c);

#ifdef __cplusplus
}
#endif

#endif
