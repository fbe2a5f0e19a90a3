/* Kernels of the fake NCCL: what a collective does on a device. All work on memory of the device in use. */
#ifndef IQ_TESTS_FAKE_SUM_H
#define IQ_TESTS_FAKE_SUM_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Half-words, so that a message of any type is a whole number of them. */
void fake_copy(void *to, const void *from, size_t halves, void *stream);

/* to[i] = the sum over ranks of message r (at from + r * stride bytes). ring: a message is in `ranks` shares, and the sum of
 * share c starts at rank c + 1 and goes round; else from the last rank down to the first. bf16: rounded at each addition. */
void fake_sum(void *to, const void *from, size_t stride, size_t n, int ranks, int ring, int bf16,
              void *stream);

#ifdef __cplusplus
}
#endif

#endif
