/* cuBLAS's place taken, for tests without a GPU: a table whose answers come from a record (kernels/cublas/survey.h) and
 * whose products run on the shim, each in the order of summation that its algorithm's settings claim: K in slices
 * (split_k), a slice in stages, slices added up as the reduction scheme says. So other algorithms give other bits, of the
 * same sum. What calls are wrong (a layout that does not fit, settings that an algorithm lacks) is refused as the
 * library refuses it. */
#ifndef IQ_TESTS_CUBLAS_FAKE_H
#define IQ_TESTS_CUBLAS_FAKE_H

#include "kernels/cublas/api.h"

/* The table; put it in place with iq_cublas_replace. One record at a time. */
const struct iq_cublas_api *fake_open(const char *path);
void fake_close(void);

/* The nth call (1: the next) of a function, by its field in the table, returns `status` and does nothing. */
void fake_fail(const char *field, unsigned nth, int status);
/* Calls of a function since fake_open. */
unsigned fake_calls(const char *field);
/* Handles, descriptors, layouts and preferences that nobody has destroyed. */
int fake_live(void);
void fake_versions(int cublas, size_t lt);

#endif
