/* Paged KV: a pool of blocks with reference counts, and the prefix cache over it.
 *
 * A block is free, held (refs > 0) or cached (refs 0, in the table, evictable, least recently used first). Which block is
 * handed out, which is given up and what a dropped one becomes are decided by control ops (kernels/ops/blocks.h) and
 * applied here, whatever they say. A block that a decision gave to two parties is spoilt: whoever reads it looks at its
 * bytes again (recorder.h). A full block
 * of computed positions enters the table under its key: the chained digest of the model, contract and position
 * settings and of every token up to the block's end. With recording on, a block also keeps the digests of every cell of
 * its positions, so that a hit can hand them on; the digests of K and V are never copied: they are taken again from the
 * bytes at each hit. Not thread-safe: the engine's thread only.
 */
#ifndef IQ_ENGINE_KV_H
#define IQ_ENGINE_KV_H

#include "engine/control.h"
#include "kernels/base/cell.h"
#include "kernels/ops/blocks.h"

struct iq_cuda;

/* Layers from `layers` on of a block that lands late; `from` is held until then. */
struct iq_kv_late {
    struct iq_row row;
    uint32_t from, to, layers;
};

struct iq_kv {
    uint32_t blocks, layers, nodes; /* nodes: cells kept per position, 0 when nothing is recorded */
    struct iq_kv_layer *layer;      /* (layers) */
    struct iq_digest **cells;       /* (blocks) -> (IQ_KV_BLOCK, nodes), or NULL */
    struct iq_digest *key;          /* (blocks) key under which a block is cached, or zero */
    uint32_t *refs, *free, n_free;  /* free: a stack */
    uint32_t n_idle;                /* cached blocks that nobody holds and that are not free */
    uint8_t *listed;                /* (blocks) 1: in `free` */
    /* (blocks) 0, or the enum iq_cell_state of what is read there: more than one party writes it, or it was copied wrong. */
    uint8_t *spoilt;
    uint32_t n_spoilt;
    struct iq_digest *whose; /* (blocks) what a cached block depends on beside tokens */
    struct iq_kv_late *late; /* (n_late) what a decision let a request read before it was there */
    size_t n_late, cap_late;
    uint32_t flying, moves;        /* prefixes that landed in this step; blocks moved since start */
    struct iq_prefix_entry *entry; /* the table handed to the prefix op */
    uint32_t entries;              /* of them in use */
    uint32_t capacity, tick, evictions;
    const struct iq_control *control; /* borrowed */
    void *map;                        /* K and V of all layers: demand-zero, or device memory */
    size_t map_bytes;
    struct iq_cuda *cuda; /* borrowed; NULL: the cache is the host's */
};

/* `spare`: blocks behind the pool's, with memory and nothing else: whoever asks for them keeps the books. */
int iq_kv_open(uint32_t blocks, uint32_t spare, uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
               uint32_t nodes, struct iq_cuda *, struct iq_kv *, struct iq_err *);
void iq_kv_close(struct iq_kv *);
/* Blocks that could be had now: free or evictable. */
uint32_t iq_kv_available(const struct iq_kv *);
/* Takes a block (evicting if needed) with one more reference, as block number `index` of the row's request;
 * *block is UINT32_MAX if none is left. IQ_CRASHED: an op decided what can't be. */
int iq_kv_take(struct iq_kv *, const struct iq_row *, uint32_t index, uint32_t *block, struct iq_err *err);
/* One more holder of a block that the prefix op chose. */
void iq_kv_hold(struct iq_kv *, uint32_t block);
/* Drops a reference of the row's request; a block that is not cached becomes free. */
int iq_kv_drop(struct iq_kv *, const struct iq_row *, uint32_t block, bool cancelled, struct iq_err *err);
/* Says that what is read in the block may not be what was written; 0: it is sound. */
void iq_kv_spoil(struct iq_kv *, uint32_t block, enum iq_cell_state);
/* Puts a full block into the table. If its key is there already, the older block stays the cached one. */
void iq_kv_publish(struct iq_kv *, uint32_t block, struct iq_digest key, struct iq_digest whose);
/* Block `from`, which the row's request holds, is copied to `to`, which it holds as well; it drops `from`. Layers from
 * `layers` on come late, as if the request had not waited for them. */
int iq_kv_land(struct iq_kv *, const struct iq_row *, uint32_t from, uint32_t to, uint32_t layers,
               struct iq_err *err);
/* After a step: what is late is there. */
int iq_kv_land_late(struct iq_kv *, struct iq_err *err);
/* Moves the last blocks in use into the first free ones; moved: (blocks) where each block is now. */
int iq_kv_compact(struct iq_kv *, uint32_t *moved, struct iq_err *err);
/* The key of a block from its predecessor's (or the root's) and its IQ_KV_BLOCK tokens. */
struct iq_digest iq_kv_key(struct iq_digest before, const uint32_t *tokens);
/* Digests of K and of V of a sequence's first positions as logical rows, taken from the cache's bytes: out (layers, 2,
 * positions). IQ_MEMORY, and what a device's calls say. */
int iq_kv_digests(const struct iq_kv *, const uint32_t *blocks, uint32_t positions, struct iq_digest *out,
                  struct iq_err *err);

#endif
