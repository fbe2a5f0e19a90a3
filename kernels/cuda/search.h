/* Where NVIDIA's libraries may lie: folders, in the order in which they are tried. */
#ifndef IQ_CUDA_SEARCH_H
#define IQ_CUDA_SEARCH_H

#include "kernels/base/status.h"

struct iq_cuda_folders {
    char **at; /* owned; "" is the loader's own search (LD_LIBRARY_PATH, ld.so.conf) */
    size_t n, cap;
};

/* The loader, CUDA_HOME and CUDA_PATH, /usr/local/cuda, and PyPI's wheels: of VIRTUAL_ENV, CONDA_PREFIX, the python3 on
 * PATH, the user and the system. `wheel`: the folder in which nvidia's wheel of the time before CUDA 13 put it
 * ("cublas"). Only folders that exist. IQ_MEMORY. */
int iq_cuda_folders(const char *wheel, struct iq_cuda_folders *out, struct iq_err *err);
void iq_cuda_folders_free(struct iq_cuda_folders *);

#endif
