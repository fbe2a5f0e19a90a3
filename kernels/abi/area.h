/* Memory that a trial shares with the process of a user's kernel: files in memory, which grow and never shrink. Offsets are
 * stable, addresses are not: each reservation may move an area. */
#ifndef IQ_ABI_AREA_H
#define IQ_ABI_AREA_H

#include "kernels/base/status.h"

#include <stdint.h>

enum iq_abi_area_id { IQ_ABI_IN, IQ_ABI_KEPT, IQ_ABI_OUT, IQ_ABI_AREAS };

struct iq_abi_area {
    int fd;
    char *base; /* mapped whole */
    size_t used, cap;
};

/* On error *out is closed: fd -1. */
int iq_abi_area_open(const char *name, struct iq_abi_area *out, struct iq_err *err);
void iq_abi_area_close(struct iq_abi_area *);
/* `bytes` more, at a multiple of 64; their offset, or SIZE_MAX: no memory. */
size_t iq_abi_area_take(struct iq_abi_area *, size_t bytes);

#endif
