/* Paged KV: a pool of blocks with reference counts, and the prefix cache over it.
 *
 * A block is free, held (refs > 0) or cached (refs 0, in the table, evictable, least recently used first). A full block
 * of computed positions enters the table under its key: the chained digest of the model, contract and position
 * settings and of every token up to the block's end. With recording on, a block also keeps the digests of every cell of
 * its positions, so that a hit can hand them on; the digests of K and V are never copied: they are taken again from the
 * bytes at each hit. Not thread-safe: the engine's thread only.
 */
#ifndef IQ_ENGINE_KV_H
#define IQ_ENGINE_KV_H

#include "kernels/base/digest.h"
#include "kernels/base/status.h"
#include "kernels/ops/kv.h"
#include "kernels/ops/prefix.h"

struct iq_cuda;

struct iq_kv {
    uint32_t blocks, layers, nodes;      /* nodes: cells kept per position, 0 when nothing is recorded */
    struct iq_kv_layer *layer;           /* (layers) */
    struct iq_digest **cells;            /* (blocks) -> (IQ_KV_BLOCK, nodes), or NULL */
    struct iq_digest *key;               /* (blocks) key under which a block is cached, or zero */
    struct iq_prefix_identity *identity; /* (blocks) what that key is made of */
    uint32_t *refs, *free, n_free;       /* free: a stack */
    uint32_t n_idle;                     /* cached blocks that nobody holds */
    struct iq_prefix_entry *entry;       /* the table handed to the prefix op */
    uint32_t capacity, tick, evictions;
    void *map; /* K and V of all layers: demand-zero, or device memory */
    size_t map_bytes;
    struct iq_cuda *cuda; /* borrowed; NULL: the cache is the host's */
};

int iq_kv_open(uint32_t blocks, uint32_t layers, uint32_t kv_heads, uint32_t head_dim, uint32_t nodes,
               struct iq_cuda *, struct iq_kv *, struct iq_err *);
void iq_kv_close(struct iq_kv *);
/* Blocks that could be had now: free or evictable. */
uint32_t iq_kv_available(const struct iq_kv *);
/* Takes a block (evicting if needed) with one reference; UINT32_MAX if none is left. */
uint32_t iq_kv_take(struct iq_kv *);
/* One more holder of a block that the prefix op chose. */
void iq_kv_hold(struct iq_kv *, uint32_t block);
/* Drops a reference; a block that is not cached becomes free. */
void iq_kv_drop(struct iq_kv *, uint32_t block);
/* Puts a full block into the table. If its key is there already, the older block stays the cached one. */
void iq_kv_publish(struct iq_kv *, uint32_t block, struct iq_digest key, struct iq_prefix_identity);
/* The key of a block from its predecessor's (or the root's) and its IQ_KV_BLOCK tokens. */
struct iq_digest iq_kv_key(struct iq_digest before, const uint32_t *tokens);
/* Digests of K and of V of a sequence's first positions as logical rows, taken from the cache's bytes: out (layers, 2,
 * positions). IQ_MEMORY, and what a device's calls say. */
int iq_kv_digests(const struct iq_kv *, const uint32_t *blocks, uint32_t positions, struct iq_digest *out,
                  struct iq_err *err);

#endif
