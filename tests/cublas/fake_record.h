/* What the fake answers from; internal to it. */
#ifndef IQ_TESTS_CUBLAS_FAKE_RECORD_H
#define IQ_TESTS_CUBLAS_FAKE_RECORD_H

#include "kernels/cublas/algo.h"

struct fake_algorithm { /* what one may be set to */
    int algo;
    uint32_t *tiles, *stages;
    size_t tiles_n, stages_n;
    uint32_t split_k, reductions, swizzle, custom_max;
};

struct fake_step {
    uint32_t rows;
    struct iq_cublas_algo choice[16];
    size_t workspace[16];
    float waves[16];
    unsigned found;
};

struct fake_survey {
    unsigned type;
    uint32_t n, k; /* both 0: every shape that has no survey of its own */
    struct fake_step *step;
    size_t steps;
};

struct fake_record {
    int cublas;
    size_t cublaslt;
    struct fake_algorithm *algorithm[IQ_CUBLAS_TYPES];
    size_t algorithms[IQ_CUBLAS_TYPES];
    struct fake_survey *survey;
    size_t surveys;
};

int fake_record_load(const char *path, struct fake_record *out, struct iq_err *err);
void fake_record_free(struct fake_record *);
const struct fake_algorithm *fake_record_algorithm(const struct fake_record *, unsigned type, int algo);
/* The step for a shape; NULL: the record has none. */
const struct fake_step *fake_record_step(const struct fake_record *, unsigned type, uint32_t rows, uint32_t n,
                                         uint32_t k);

#endif
