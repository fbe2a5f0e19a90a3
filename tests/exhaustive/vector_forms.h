/* The vector forms of the contract's functions over arrays, one record per instruction set: for the proof and for
 * test_arith. n is a multiple of 16. */
#ifndef IQ_TESTS_VECTOR_FORMS_H
#define IQ_TESTS_VECTOR_FORMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct vector_forms {
    const char *name;
    bool (*usable)(void); /* NULL: everywhere */
    void (*exp)(const float *x, float *y, size_t n);
    void (*max)(const float *a, const float *b, float *y, size_t n);
    void (*act_round)(const float *x, float *y, size_t n, uint32_t act);
};

extern const struct vector_forms vector_forms_scalar, vector_forms_avx2, vector_forms_avx512;

static const struct vector_forms *const all_vector_forms[] = {
    &vector_forms_scalar,
#ifdef __x86_64__
    &vector_forms_avx2,
    &vector_forms_avx512,
#endif
};
enum { VECTOR_FORMS = sizeof all_vector_forms / sizeof *all_vector_forms };

static inline bool vector_forms_usable(const struct vector_forms *f) { return !f->usable || f->usable(); }

#endif
