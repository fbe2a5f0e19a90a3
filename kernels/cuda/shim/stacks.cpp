/* The stacks of a block's threads: one mapping, made at first use. Below each lies room that faults, as wide as the local
 * memory that a GPU gives a thread, so that no frame leaps over it. */
#include "kernels/cuda/shim/state.h"

#include <sys/mman.h>

enum { GUARD = 512 << 10, STRIDE = GUARD + IQ__STACK_BYTES };
static char *stacks;

int iq__stacks_open(void)
{
    if (stacks) return IQ_CUDA_OK;
    void *all = mmap(NULL, (size_t)STRIDE * IQ__THREADS, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return IQ_CUDA_NO_MEMORY;
    for (size_t i = 0; i < IQ__THREADS; i++) {
        if (mprotect(static_cast<char *>(all) + i * STRIDE + GUARD, IQ__STACK_BYTES,
                     PROT_READ | PROT_WRITE)) {
            munmap(all, (size_t)STRIDE * IQ__THREADS);
            return IQ_CUDA_NO_MEMORY;
        }
    }
    stacks = static_cast<char *>(all);
    return IQ_CUDA_OK;
}

void *iq__stack_of(unsigned thread) { return stacks + (size_t)thread * STRIDE + GUARD; }

int iq__stack_locate(uintptr_t address, int *guard)
{
    uintptr_t base = reinterpret_cast<uintptr_t>(stacks);
    if (!stacks || address < base || address >= base + (size_t)STRIDE * IQ__THREADS) return -1;
    *guard = (address - base) % STRIDE < GUARD;
    return (int)((address - base) / STRIDE);
}
