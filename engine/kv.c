#define _GNU_SOURCE
#include "engine/kv.h"

#include "kernels/cuda/device.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

static int open_map(struct iq_kv *kv, struct iq_err *err)
{
    if (kv->cuda) {
        if (iq_cuda_alloc(kv->cuda, kv->map_bytes, &kv->map) == IQ_OK) return IQ_OK;
        *err = kv->cuda->err;
        return iq_err_prefix(err, "KV cache of %u blocks (%zu MiB): ", kv->blocks, kv->map_bytes >> 20);
    }
    kv->map =
        mmap(NULL, kv->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (kv->map != MAP_FAILED) return IQ_OK;
    kv->map = NULL;
    return iq_fail(err, IQ_MEMORY, "KV cache: no memory for %u blocks (%zu MiB); use fewer (--kv-blocks)",
                   kv->blocks, kv->map_bytes >> 20);
}

int iq_kv_open(uint32_t blocks, uint32_t spare, uint32_t layers, uint32_t kv_heads, uint32_t head_dim,
               uint32_t nodes, struct iq_cuda *cuda, struct iq_kv *kv, struct iq_err *err)
{
    *kv = (struct iq_kv){.blocks = blocks, .layers = layers, .nodes = nodes, .capacity = 64, .cuda = cuda};
    size_t per_block = (size_t)kv_heads * head_dim * IQ_KV_BLOCK * sizeof(float), side;
    if (!blocks || __builtin_mul_overflow(per_block, (size_t)blocks + spare, &side) ||
        __builtin_mul_overflow(side, 2 * (size_t)layers, &kv->map_bytes))
        return iq_fail(err, IQ_LIMIT, "KV cache: %u blocks of %u positions can't be addressed", blocks,
                       IQ_KV_BLOCK);
    while (kv->capacity < 2 * blocks) kv->capacity *= 2; /* at most half full, so that probes end */
    kv->layer = calloc(layers, sizeof *kv->layer);
    kv->cells = calloc(blocks, sizeof *kv->cells);
    kv->refs = calloc(blocks, sizeof *kv->refs);
    kv->free = calloc(blocks, sizeof *kv->free);
    kv->entry = calloc(kv->capacity, sizeof *kv->entry);
    kv->key = calloc(blocks, sizeof *kv->key);
    kv->listed = calloc(blocks, 1);
    kv->spoilt = calloc(blocks, 1);
    kv->whose = calloc(blocks, sizeof *kv->whose);
    if (!kv->layer || !kv->cells || !kv->refs || !kv->free || !kv->entry || !kv->key || !kv->listed ||
        !kv->spoilt || !kv->whose) {
        iq_kv_close(kv);
        return iq_fail(err, IQ_MEMORY,
                       "KV cache: no memory for the tables of %u blocks; use fewer (--kv-blocks)", blocks);
    }
    int status = open_map(kv, err);
    if (status != IQ_OK) {
        iq_kv_close(kv);
        return status;
    }
    for (uint32_t l = 0; l < layers; l++)
        kv->layer[l] =
            (struct iq_kv_layer){(float *)((char *)kv->map + 2 * l * side),
                                 (float *)((char *)kv->map + (2 * l + 1) * side), blocks, kv_heads, head_dim};
    for (uint32_t b = 0; b < blocks; b++) kv->free[b] = blocks - 1 - b; /* lowest id on top */
    memset(kv->listed, 1, blocks);
    kv->n_free = blocks;
    return IQ_OK;
}

void iq_kv_close(struct iq_kv *kv)
{
    if (kv->cells)
        for (uint32_t b = 0; b < kv->blocks; b++) free(kv->cells[b]);
    free(kv->layer);
    free(kv->cells);
    free(kv->refs);
    free(kv->free);
    free(kv->entry);
    free(kv->key);
    free(kv->listed);
    free(kv->spoilt);
    free(kv->whose);
    free(kv->late);
    if (kv->map && kv->cuda) kv->cuda->api->free(kv->map);
    if (kv->map && !kv->cuda) munmap(kv->map, kv->map_bytes);
    *kv = (struct iq_kv){0};
}

/* ---- digests of what the cache holds ---- */

static struct iq_digest row_digest(const struct iq_kv_layer *c, uint32_t block, uint32_t slot, int v,
                                   float *row)
{
    for (uint32_t h = 0; h < c->kv_heads; h++) {
        const float *k = c->k + iq_kv_k_at(c, block, h) + slot;
        if (v)
            memcpy(row + h * c->head_dim, c->v + iq_kv_v_at(c, block, h) + (size_t)slot * c->head_dim,
                   c->head_dim * 4);
        else
            for (uint32_t d = 0; d < c->head_dim; d++) row[h * c->head_dim + d] = k[(size_t)d * IQ_KV_BLOCK];
    }
    return iq_digest_row(row, (size_t)c->kv_heads * c->head_dim, sizeof *row);
}

static int host_digests(const struct iq_kv *kv, const uint32_t *blocks, uint32_t positions,
                        struct iq_digest *out, struct iq_err *err)
{
    const struct iq_kv_layer *c = kv->layer;
    float *row = malloc((size_t)c->kv_heads * c->head_dim * sizeof *row);
    if (!row) return iq_fail(err, IQ_MEMORY, "no memory for a row of K");
    for (uint32_t l = 0; l < kv->layers; l++)
        for (int v = 0; v < 2; v++)
            for (uint32_t p = 0; p < positions; p++)
                *out++ = row_digest(&c[l], blocks[p / IQ_KV_BLOCK], p % IQ_KV_BLOCK, v, row);
    free(row);
    return IQ_OK;
}

/* The same by a kernel: device memory holds the sequence, its block table and the digests. */
static int device_digests(const struct iq_kv *kv, const uint32_t *blocks, uint32_t positions,
                          struct iq_digest *out)
{
    struct iq_cuda *c = kv->cuda;
    uint32_t n = (positions + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    size_t digests = 2 * (size_t)kv->layers * positions, at = digests * sizeof *out,
           end = at + sizeof(struct iq_seq);
    char *room = iq_cuda_scratch(c, end + n * sizeof *blocks);
    if (!room) return c->err.status;
    struct iq_digest *made = (struct iq_digest *)(void *)room;
    const struct iq_seq seq = {.rows = positions, .blocks = (const uint32_t *)(const void *)(room + end)};
    IQ_TRY(iq_cuda_done(c, c->api->memcpy_async(room + at, &seq, sizeof seq, IQ_CUDA_TO_DEVICE, c->stream),
                        "copying a sequence"));
    IQ_TRY(iq_cuda_done(
        c, c->api->memcpy_async(room + end, blocks, n * sizeof *blocks, IQ_CUDA_TO_DEVICE, c->stream),
        "copying a block table"));
    for (uint32_t l = 0; l < kv->layers; l++) {
        const struct iq_kv_layer *cache = &kv->layer[l];
        const struct iq_kv_write rows = {.rows = positions,
                                         .kv_heads = cache->kv_heads,
                                         .cache = cache,
                                         .seq = (const struct iq_seq *)(const void *)(room + at),
                                         .seqs = 1};
        for (unsigned v = 0; v < 2; v++) {
            const struct iq_cuda_kv_digest d = {&rows, v, made + (2 * (size_t)l + v) * positions};
            IQ_TRY(iq_cuda_launched(c, c->kernels->kv_digest(&d, c->stream), "digesting K and V"));
        }
    }
    IQ_TRY(iq_cuda_done(c, c->api->memcpy_async(out, made, digests * sizeof *out, IQ_CUDA_TO_HOST, c->stream),
                        "reading digests"));
    return iq_cuda_done(c, c->api->stream_sync(c->stream), "digesting K and V");
}

int iq_kv_digests(const struct iq_kv *kv, const uint32_t *blocks, uint32_t positions, struct iq_digest *out,
                  struct iq_err *err)
{
    if (!kv->cuda) return host_digests(kv, blocks, positions, out, err);
    int status = device_digests(kv, blocks, positions, out);
    return status == IQ_OK
               ? IQ_OK
               : iq_fail(err, status, "a cached prefix could not be read: %s", kv->cuda->err.text);
}
