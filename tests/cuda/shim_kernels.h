/* Kernels that show what the shim's device language and its streams do. */
#ifndef IQ_TESTS_CUDA_SHIM_KERNELS_H
#define IQ_TESTS_CUDA_SHIM_KERNELS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* x[i] = x[i] * factor + term, i < n */
int shim_affine(uint32_t *x, uint32_t n, uint32_t factor, uint32_t term, void *stream);

/* One warp: column c of out (WARP_COLUMNS, 32) is one warp operation, a result a lane. */
enum { WARP_COLUMNS = 16 };
int shim_warp_operations(uint32_t *out, void *stream);

/* Eight blocks of 64 threads on eight counters: add, sub, min, max, and, or, xor, compare-and-swap. */
int shim_atomics(uint32_t *counters, void *stream);

/* Two instantiations of one helper in a kernel: each has its own shared array. out: 64. */
int shim_template_arrays(uint32_t *out, void *stream);

/* A grid and block of three dimensions: out[linear index] = linear index, through all six coordinates. */
enum { SHAPE_THREADS = 2 * 3 * 4 * 5 * 2 * 3 };
int shim_shape(uint32_t *out, void *stream);

/* Any shape, a kernel that does nothing. */
int shim_nothing(const uint32_t grid[3], const uint32_t block[3], uint64_t shared_bytes, void *stream);

/* `rounds` barriers by each thread of `blocks` blocks of 256 threads. */
int shim_barriers(uint32_t *out, uint32_t blocks, uint32_t rounds, void *stream);

/* When each of 4 blocks' 64 threads came to an atomic counter. out: 256, then the counter, 0 at first. */
int shim_arrivals(uint32_t *out, void *stream);

/* A block waits for a flag that only the other of the grid's two sets. out: 2 flags, 0 at first. */
int shim_spin(uint32_t *out, void *stream);

/* n / divisor in a thread. */
int shim_divide(uint32_t *out, uint32_t n, uint32_t divisor, void *stream);

#ifdef __cplusplus
}
#endif

#endif
