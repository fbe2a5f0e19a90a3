/* Who has which block: the prefix table, taking, holding, dropping. */
#include "engine/kv.h"

#include <stdlib.h>
#include <string.h>

/* ---- the table: open addressing, linear probes from key.lo; deletion closes the gap ---- */

static uint32_t home(const struct iq_kv *kv, struct iq_digest key)
{
    return (uint32_t)key.lo & (kv->capacity - 1);
}

static uint32_t slot_of(const struct iq_kv *kv, struct iq_digest key)
{
    uint32_t i = home(kv, key);
    while (!iq_digest_is_zero(kv->entry[i].key) && !iq_digest_equal(kv->entry[i].key, key))
        i = (i + 1) & (kv->capacity - 1);
    return i;
}

static void erase(struct iq_kv *kv, uint32_t hole)
{
    uint32_t mask = kv->capacity - 1;
    for (uint32_t i = (hole + 1) & mask; !iq_digest_is_zero(kv->entry[i].key); i = (i + 1) & mask) {
        uint32_t from_home = (i - home(kv, kv->entry[i].key)) & mask;
        if (from_home < ((i - hole) & mask)) continue; /* its home lies behind the hole: it may stay */
        kv->entry[hole] = kv->entry[i];
        hole = i;
    }
    kv->entry[hole] = (struct iq_prefix_entry){0};
    kv->entries--;
}

/* The table's entry of a cached block, or NULL. */
static struct iq_prefix_entry *entry_of_block(struct iq_kv *kv, uint32_t block)
{
    if (iq_digest_is_zero(kv->key[block])) return NULL;
    struct iq_prefix_entry *e = &kv->entry[slot_of(kv, kv->key[block])];
    return iq_digest_is_zero(e->key) ? NULL : e;
}

void iq_kv_publish(struct iq_kv *kv, uint32_t block, struct iq_digest key, struct iq_digest whose)
{
    struct iq_prefix_entry *e = &kv->entry[slot_of(kv, key)];
    /* Wrong decisions leave entries that no block knows of: the table stays loose, so that probes end. */
    if (!iq_digest_is_zero(e->key) || kv->entries >= kv->capacity / 4 * 3) return;
    *e = (struct iq_prefix_entry){key, block, ++kv->tick};
    kv->entries++;
    kv->key[block] = key;
    kv->whose[block] = whose;
}

struct iq_digest iq_kv_key(struct iq_digest before, const uint32_t *tokens)
{
    struct {
        struct iq_digest before;
        uint32_t token[IQ_KV_BLOCK];
    } link = {.before = before};
    memcpy(link.token, tokens, sizeof link.token);
    return iq_digest_bytes(&link, sizeof link);
}

/* ---- blocks ---- */

uint32_t iq_kv_available(const struct iq_kv *kv) { return kv->n_free + kv->n_idle; }

void iq_kv_spoil(struct iq_kv *kv, uint32_t block, enum iq_cell_state state)
{
    if (kv->spoilt[block]) kv->n_spoilt--;
    kv->spoilt[block] = (uint8_t)state;
    if (state) kv->n_spoilt++;
}

static bool is_idle(const struct iq_kv *kv, uint32_t block)
{
    return !kv->refs[block] && !kv->listed[block] && !iq_digest_is_zero(kv->key[block]);
}

static void unlist(struct iq_kv *kv, uint32_t block)
{
    uint32_t i = kv->n_free;
    if (!kv->listed[block]) return;
    kv->listed[block] = 0;
    while (kv->free[i - 1] != block) i--; /* the last, where the decision is right */
    memmove(&kv->free[i - 1], &kv->free[i], (kv->n_free - i) * sizeof *kv->free);
    kv->n_free--;
}

static int allocate(struct iq_kv *kv, const struct iq_row *row, uint32_t index, uint32_t *block,
                    struct iq_err *err)
{
    const struct iq_kv_alloc args = {.request = row->request,
                                     .index = index,
                                     .free = kv->free,
                                     .n_free = kv->n_free,
                                     .refs = kv->refs,
                                     .blocks = kv->blocks,
                                     .block = block};
    IQ_TRY(iq_control_run(kv->control, IQ_OP_KV_ALLOC, row, &args, err));
    if (*block >= kv->blocks)
        return iq_fail(err, IQ_CRASHED, "request %u: kv_alloc handed out block %u of %u", row->request,
                       *block, kv->blocks);
    bool shared = kv->refs[*block] || !iq_digest_is_zero(kv->key[*block]);
    iq_kv_spoil(kv, *block, !shared ? 0 : kv->listed[*block] ? IQ_CELL_FREED : IQ_CELL_REALLOCATED);
    if (is_idle(kv, *block)) kv->n_idle--;
    unlist(kv, *block);
    return IQ_OK;
}

static int evict(struct iq_kv *kv, const struct iq_row *row, uint32_t *block, struct iq_err *err)
{
    const struct iq_kv_evict args = {.request = row->request,
                                     .entry = kv->entry,
                                     .capacity = kv->capacity,
                                     .refs = kv->refs,
                                     .blocks = kv->blocks,
                                     .block = block};
    IQ_TRY(iq_control_run(kv->control, IQ_OP_KV_EVICT, row, &args, err));
    if (*block == UINT32_MAX) return IQ_OK;
    if (*block >= kv->blocks)
        return iq_fail(err, IQ_CRASHED, "request %u: kv_evict gave up block %u of %u", row->request, *block,
                       kv->blocks);
    const struct iq_prefix_entry *e = entry_of_block(kv, *block);
    iq_kv_spoil(kv, *block, kv->refs[*block] || !e ? IQ_CELL_EVICTED : 0);
    if (is_idle(kv, *block)) kv->n_idle--;
    if (e) erase(kv, (uint32_t)(e - kv->entry));
    kv->key[*block] = (struct iq_digest){0};
    kv->evictions++;
    return IQ_OK;
}

int iq_kv_take(struct iq_kv *kv, const struct iq_row *row, uint32_t index, uint32_t *block,
               struct iq_err *err)
{
    IQ_TRY(kv->n_free ? allocate(kv, row, index, block, err) : evict(kv, row, block, err));
    if (*block == UINT32_MAX) return IQ_OK;
    if (kv->nodes && !kv->cells[*block] &&
        !(kv->cells[*block] = calloc((size_t)IQ_KV_BLOCK * kv->nodes, sizeof **kv->cells)))
        return iq_fail(err, IQ_MEMORY, "no memory for the digests of a KV block");
    kv->refs[*block]++;
    return IQ_OK;
}

void iq_kv_hold(struct iq_kv *kv, uint32_t block)
{
    struct iq_prefix_entry *e = entry_of_block(kv, block);
    if (e) e->used = ++kv->tick;
    if (is_idle(kv, block)) kv->n_idle--;
    kv->refs[block]++;
}

int iq_kv_drop(struct iq_kv *kv, const struct iq_row *row, uint32_t block, bool cancelled, struct iq_err *err)
{
    uint32_t fate = IQ_KV_HELD;
    struct iq_prefix_entry *e = entry_of_block(kv, block);
    const struct iq_kv_free args = {.request = row->request,
                                    .block = block,
                                    .refs = --kv->refs[block],
                                    .cached = e != NULL,
                                    .cancelled = cancelled,
                                    .fate = &fate};
    IQ_TRY(iq_control_run(kv->control, IQ_OP_KV_FREE, row, &args, err));
    if (fate == IQ_KV_FREE && !kv->listed[block]) {
        kv->listed[block] = 1;
        kv->free[kv->n_free++] = block;
    }
    if (fate == IQ_KV_CACHED && e) e->used = ++kv->tick;
    if (is_idle(kv, block)) kv->n_idle++;
    return IQ_OK;
}
