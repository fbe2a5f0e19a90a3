/* What triggers ask of the numbers of a row, for the kinds that have them; and of where an operand lies. Internal to
 * kernels/kind. */
#ifndef IQ_KIND_VALUES_H
#define IQ_KIND_VALUES_H

#include "kernels/op.h"

/* A row of an operand. */
struct iq__numbers {
    const float *x;
    size_t n;
};

double iq__values_nans(struct iq__numbers);
double iq__values_infinities(struct iq__numbers);
double iq__values_subnormals(struct iq__numbers);
double iq__values_zeros(struct iq__numbers);
/* The largest |x|, NaN left out; NaN: there is no number. */
double iq__values_absmax(struct iq__numbers);

/* In topk's order (kernels/cpu/topk_order.h). */
double iq__values_largest(struct iq__numbers);
double iq__values_gap(struct iq__numbers);  /* between the best and the second best; NaN: there are no two */
double iq__values_ties(struct iq__numbers); /* others that equal the best */
bool iq__values_rounds_down(struct iq__numbers); /* the best is above its bf16 rounding */
/* Around the k-th best, 1 <= k. */
double iq__values_cut_gap(struct iq__numbers, uint32_t k);  /* to the one after it; NaN: there is none */
double iq__values_cut_ties(struct iq__numbers, uint32_t k); /* left out, though equal to it */
/* Of 256 bins by the high byte of topk's order: how many numbers share the k-th best's bin; are in the fullest. */
double iq__values_cut_bin(struct iq__numbers, uint32_t k);
double iq__values_full_bin(struct iq__numbers);

/* Defines the functions of IQ__NUMBER_VALUES from `struct iq__numbers numbers(const void *args, uint32_t r)`. */
#define IQ__NUMBER_VALUE(numbers, name)                                                                      \
    static double value_##name(const struct iq_site *site, const void *args, uint32_t r)                     \
    {                                                                                                        \
        (void)site;                                                                                          \
        return iq__values_##name(numbers(args, r));                                                          \
    }
#define IQ__NUMBER_VALUES_OF(numbers)                                                                        \
    IQ__NUMBER_VALUE(numbers, nans)                                                                          \
    IQ__NUMBER_VALUE(numbers, infinities)                                                                    \
    IQ__NUMBER_VALUE(numbers, subnormals)                                                                    \
    IQ__NUMBER_VALUE(numbers, zeros)                                                                         \
    IQ__NUMBER_VALUE(numbers, absmax)

/* clang-format off */
#define IQ__NUMBER_VALUES                                                                                    \
    {"nans", "NaNs in the row's operand", IQ_VALUE_COUNT, false, true, value_nans},                          \
    {"infinities", "infinities in it", IQ_VALUE_COUNT, false, true, value_infinities},                       \
    {"subnormals", "subnormal numbers in it", IQ_VALUE_COUNT, false, true, value_subnormals},                \
    {"zeros", "zeros in it", IQ_VALUE_COUNT, false, true, value_zeros},                                      \
    {"absmax", "its largest |x|", IQ_VALUE_NUMBER, false, true, value_absmax}
/* clang-format on */

/* The largest power of two, at most 4096, that divides an address. */
static inline uint64_t iq__align_of(const void *x)
{
    uintptr_t at = (uintptr_t)x | 4096;
    return at & -at;
}

/* Bytes from the first element of `rows` rows of n, stride ld, to the end of the last; elements of 4 bytes. */
static inline uint64_t iq__extent(uint64_t rows, uint64_t ld, uint64_t n)
{
    return rows ? ((rows - 1) * ld + n) * 4 : 0;
}

#endif
