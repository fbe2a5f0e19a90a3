/* Blocks whose K and V are copied: as a prefix lands from a remote cache, as the pool is compacted. */
#include "engine/kv.h"
#include "kernels/base/grow.h"
#include "kernels/cuda/device.h"

#include <stdlib.h>
#include <string.h>

static int copy(const struct iq_kv *kv, float *to, const float *from, size_t n, struct iq_err *err)
{
    struct iq_cuda *c = kv->cuda;
    if (!c) return (void)memcpy(to, from, n * sizeof *to), IQ_OK;
    int status = iq_cuda_done(c, c->api->memcpy_async(to, from, n * sizeof *to, IQ_CUDA_ON_DEVICE, c->stream),
                              "copying a KV block");
    return status == IQ_OK ? IQ_OK : iq_fail(err, status, "%s", c->err.text);
}

/* The first `elements` of every row of layers [first, last). */
static int copy_block(const struct iq_kv *kv, uint32_t from, uint32_t to, uint32_t first, uint32_t last,
                      uint32_t elements, struct iq_err *err)
{
    for (uint32_t l = first; l < last; l++) {
        const struct iq_kv_layer *c = &kv->layer[l];
        uint32_t heads = elements / c->head_dim, rest = elements % c->head_dim;
        IQ_TRY(copy(kv, c->k + iq_kv_k_at(c, to, 0), c->k + iq_kv_k_at(c, from, 0),
                    (size_t)elements * IQ_KV_BLOCK, err));
        IQ_TRY(copy(kv, c->v + iq_kv_v_at(c, to, 0), c->v + iq_kv_v_at(c, from, 0),
                    (size_t)heads * c->head_dim * IQ_KV_BLOCK, err));
        for (size_t slot = 0; slot < IQ_KV_BLOCK && rest; slot++)
            IQ_TRY(copy(kv, c->v + iq_kv_v_at(c, to, heads) + slot * c->head_dim,
                        c->v + iq_kv_v_at(c, from, heads) + slot * c->head_dim, rest, err));
    }
    return IQ_OK;
}

static uint32_t row_floats(const struct iq_kv *kv) { return kv->layer->kv_heads * kv->layer->head_dim; }

/* ---- landing ---- */

int iq_kv_land(struct iq_kv *kv, const struct iq_row *row, uint32_t from, uint32_t to, uint32_t layers,
               struct iq_err *err)
{
    if (layers > kv->layers) layers = kv->layers;
    IQ_TRY(copy_block(kv, from, to, 0, layers, row_floats(kv), err));
    if (kv->nodes)
        memcpy(kv->cells[to], kv->cells[from], (size_t)IQ_KV_BLOCK * kv->nodes * sizeof **kv->cells);
    if (layers == kv->layers) return iq_kv_drop(kv, row, from, false, err);
    IQ_TRY(iq_grow(&kv->late, &kv->cap_late, kv->n_late + 1, sizeof *kv->late, err));
    kv->late[kv->n_late++] = (struct iq_kv_late){*row, from, to, layers};
    return IQ_OK;
}

int iq_kv_land_late(struct iq_kv *kv, struct iq_err *err)
{
    kv->flying = 0;
    while (kv->n_late) {
        const struct iq_kv_late late = kv->late[--kv->n_late];
        IQ_TRY(copy_block(kv, late.from, late.to, late.layers, kv->layers, row_floats(kv), err));
        IQ_TRY(iq_kv_drop(kv, &late.row, late.from, false, err));
    }
    return IQ_OK;
}

/* ---- moving ---- */

/* Whether all positions of two blocks hold the same K and V. */
static int same_bytes(const struct iq_kv *kv, uint32_t a, uint32_t b, bool *same, struct iq_err *err)
{
    size_t n = 2 * (size_t)kv->layers * IQ_KV_BLOCK;
    struct iq_digest *d = n ? calloc(2 * n, sizeof *d) : NULL;
    if (!d) return iq_fail(err, IQ_MEMORY, "no memory for the digests of two KV blocks");
    int status = iq_kv_digests(kv, &a, IQ_KV_BLOCK, d, err);
    if (status == IQ_OK) status = iq_kv_digests(kv, &b, IQ_KV_BLOCK, d + n, err);
    *same = !memcmp(d, d + n, n * sizeof *d);
    free(d);
    return status;
}

/* The table, the counts and the digests follow the bytes. */
static void rename_block(struct iq_kv *kv, uint32_t from, uint32_t to)
{
    struct iq_digest *cells = kv->cells[to];
    kv->cells[to] = kv->cells[from];
    kv->cells[from] = cells;
    kv->refs[to] = kv->refs[from];
    kv->refs[from] = 0;
    kv->key[to] = kv->key[from];
    kv->key[from] = (struct iq_digest){0};
    kv->whose[to] = kv->whose[from];
    for (uint32_t i = 0; i < kv->capacity; i++)
        if (!iq_digest_is_zero(kv->entry[i].key) && kv->entry[i].block == from) kv->entry[i].block = to;
    for (uint32_t i = 0; i < kv->n_free; i++)
        if (kv->free[i] == to) kv->free[i] = from;
    kv->listed[to] = 0;
    kv->listed[from] = 1;
    iq_kv_spoil(kv, to, (enum iq_cell_state)kv->spoilt[from]);
    iq_kv_spoil(kv, from, 0);
}

static int move(struct iq_kv *kv, uint32_t from, uint32_t to, struct iq_err *err)
{
    uint32_t copied = 0, row = row_floats(kv);
    bool same = true;
    const struct iq_row nobody = {.pos = from}; /* several requests may hold a block, or none */
    const struct iq_kv_move args = {.from = from, .to = to, .row = row, .copied = &copied};
    kv->control->step->moves = kv->moves;
    IQ_TRY(iq_control_run(kv->control, IQ_OP_KV_MOVE, &nobody, &args, err));
    IQ_TRY(copy_block(kv, from, to, 0, kv->layers, copied < row ? copied : row, err));
    if (kv->nodes) IQ_TRY(same_bytes(kv, from, to, &same, err));
    rename_block(kv, from, to);
    if (!same) iq_kv_spoil(kv, to, IQ_CELL_MOVED);
    kv->moves++;
    return IQ_OK;
}

int iq_kv_compact(struct iq_kv *kv, uint32_t *moved, struct iq_err *err)
{
    uint32_t to = 0, from = kv->blocks;
    for (uint32_t b = 0; b < kv->blocks; b++) moved[b] = b;
    for (;;) {
        while (to < from && !kv->listed[to]) to++;
        while (from > to && kv->listed[from - 1]) from--;
        if (to >= from) return IQ_OK;
        moved[from - 1] = to;
        IQ_TRY(move(kv, from - 1, to, err));
    }
}
