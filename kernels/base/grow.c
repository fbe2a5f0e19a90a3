#include "kernels/base/grow.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int iq_grow(void *list, size_t *cap, size_t need, size_t size, struct iq_err *err)
{
    if (need <= *cap) return IQ_OK;
    size_t want = *cap ? *cap : 16, bytes;
    while (want < need && want <= SIZE_MAX / 2) want *= 2;
    void *old;
    memcpy(&old, list, sizeof old); /* the list's own pointer type is not known here */
    char *grown = want < need || __builtin_mul_overflow(want, size, &bytes) ? NULL : realloc(old, bytes);
    if (!grown)
        return iq_fail(err, IQ_MEMORY, "no memory for a list of %zu entries of %zu bytes", need, size);
    memset(grown + *cap * size, 0, bytes - *cap * size);
    memcpy(list, &grown, sizeof grown);
    *cap = want;
    return IQ_OK;
}
