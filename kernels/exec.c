#include "kernels/exec.h"

#include <stdlib.h>

void *iq_exec_scratch(struct iq_exec *x, size_t bytes)
{
    if (bytes > SIZE_MAX / 2) return NULL;
    if (bytes > x->scratch_cap) {
        size_t cap = (bytes + bytes / 4 + 4095) / 4096 * 4096;
        void *fresh = aligned_alloc(4096, cap);
        if (!fresh) return NULL;
        free(x->scratch);
        x->scratch = fresh;
        x->scratch_cap = cap;
    }
    return x->scratch;
}

void iq_exec_close(struct iq_exec *x)
{
    free(x->scratch);
    x->scratch = NULL;
    x->scratch_cap = 0;
}
