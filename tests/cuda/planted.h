/* Small kernels, each in two forms: right, and with one bug. What the shim has to find, and what it must leave alone. */
#ifndef IQ_TESTS_CUDA_PLANTED_H
#define IQ_TESTS_CUDA_PLANTED_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { PLANTED_WORDS = 256 };

struct planted {
    const char *name;
    int (*launch)(int bug, const uint32_t *in, uint32_t *out,
                  void *stream);                       /* both (PLANTED_WORDS), device memory */
    void (*expect)(const uint32_t *in, uint32_t *out); /* on the host: out starts as zeros */
    int race_only; /* only the race detector finds it: without it the kernel does what it should */
    struct {
        const char *schedule,
            *part; /* of the sentence that the plain build says under it; NULL: the results tell */
    } finding[2];
};
extern const struct planted planted[];
extern const unsigned planted_n;

#ifdef __cplusplus
}
#endif

#endif
