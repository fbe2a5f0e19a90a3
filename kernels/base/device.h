/* What is one source for the host and for CUDA devices: IQ_HD before a function of a header compiles it for both. */
#ifndef IQ_BASE_DEVICE_H
#define IQ_BASE_DEVICE_H

#ifdef __CUDACC__
#define IQ_HD static __host__ __device__ inline
#else
#define IQ_HD static inline __attribute__((unused))
#endif

#endif
