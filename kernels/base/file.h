/* Files that are written whole or not at all. */
#ifndef IQ_BASE_FILE_H
#define IQ_BASE_FILE_H

#include "kernels/base/status.h"

#include <stddef.h>

/* Writes the bytes beside `path` (PATH.part), syncs, then renames: a kill, a full disk or any error leaves what was at `path`.
 * IQ_FULL: no space, quota or size limit; IQ_IO: anything else; IQ_MEMORY. */
int iq_file_write_whole(const char *path, const void *bytes, size_t n, struct iq_err *err);

#endif
