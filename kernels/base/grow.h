/* Lists that grow by doubling: pointer, count and capacity stay in the owner's struct. */
#ifndef IQ_BASE_GROW_H
#define IQ_BASE_GROW_H

#include "kernels/base/status.h"

#include <stddef.h>

/* Makes room for `need` elements of `size` bytes. list: address of the list's pointer (NULL while *cap is 0), freed by
 * its owner with free. New room is zero. IQ_MEMORY: nothing was changed. */
int iq_grow(void *list, size_t *cap, size_t need, size_t size, struct iq_err *);

#endif
