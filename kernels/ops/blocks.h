/* Control ops over the KV pool: which block a request gets, which cached one is given up for it, what becomes of a block
 * that its last holder drops, and what is there of one that lands or moves. Ids and counts in, decisions out; the engine applies them.
 *
 * A block is free, held (refs > 0) or cached (in the prefix table and held by nobody). */
#ifndef IQ_OPS_BLOCKS_H
#define IQ_OPS_BLOCKS_H

#include "kernels/ops/kv.h"
#include "kernels/ops/prefix.h"

/* A free block for a request: the last of the list. */
struct iq_kv_alloc {
    uint32_t request, index; /* it becomes the request's block number `index` */
    const uint32_t *free;    /* (n_free), at least one */
    uint32_t n_free;
    const uint32_t *refs; /* (blocks) */
    uint32_t blocks;
    uint32_t *block;
};

/* A cached block to give up, since none is free: of those that nobody holds the one used least recently; UINT32_MAX: all
 * are held. */
struct iq_kv_evict {
    uint32_t request;
    const struct iq_prefix_entry *entry; /* the prefix table, free slots among its `capacity` */
    uint32_t capacity;
    const uint32_t *refs; /* (blocks) */
    uint32_t blocks;
    uint32_t *block;
};

enum iq_kv_fate { IQ_KV_HELD, IQ_KV_CACHED, IQ_KV_FREE };

/* What becomes of a block that a request has just dropped. */
struct iq_kv_free {
    uint32_t request, block;
    uint32_t refs;      /* holders that are left */
    uint32_t cached;    /* 1: the prefix table points at it */
    uint32_t cancelled; /* 1: the request did not end by itself */
    uint32_t *fate;     /* enum iq_kv_fate */
};

/* A prefix hit whose K and V come from a remote cache, layer by layer: how many layers are there when the request may run.
 * The rest lands behind the step. */
struct iq_kv_land {
    uint32_t request, blocks; /* blocks of the hit */
    uint32_t layers;
    uint32_t flying;  /* transfers under way, this one included */
    uint32_t *landed; /* of `layers`: all, for whoever waits */
};

/* A block that moves as the pool is compacted: how much of each position's row of K and of V is copied. */
struct iq_kv_move {
    uint32_t from, to;
    uint32_t row;     /* floats of a row in one layer */
    uint32_t *copied; /* of them, from the first on */
};

#endif
