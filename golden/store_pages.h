/* A careful reader of LMDB 0.9 data files. LMDB trusts its pages: a cut file or a zeroed page is a crash there. This
 * walk reads with pread (so a short file is an error, never SIGBUS) and follows a pointer only after checking it.
 * Source: the page layout in LMDB's mdb.c, data format version 1, 64-bit little endian. */
#ifndef IQ_GOLDEN_STORE_PAGES_H
#define IQ_GOLDEN_STORE_PAGES_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

struct iq__walk {
    uint64_t pages, branch, leaf, overflow, freed; /* reachable pages, and ids in the free list */
    uint64_t need_bytes;                           /* the file must be at least this long */
};

/* Both meta pages are sane and the file is not shorter than they say. *empty: a store without any data yet. */
int iq__pages_meta(int fd, const char *path, bool *empty, struct iq_err *);
/* Every page that the snapshot `txnid` reaches. `full`: overflow pages and the free list too, as a writer needs. The
 * caller holds a read transaction of that id. */
int iq__pages_walk(int fd, const char *path, uint64_t txnid, bool full, struct iq__walk *out,
                   struct iq_err *);

#endif
