#include "engine/upload.h"

#include "engine/model_parts.h"

#include <stdlib.h>
#include <string.h>

/* A block of host memory and its copy: pointers into the one become pointers into the other. */
struct block {
    const void *host;
    void *device;
};

static int copy(struct iq_upload *u, const void *host, size_t bytes, void **device, struct iq_err *err)
{
    struct iq_cuda *c = u->cuda;
    if (!c) {
        *device =
            aligned_alloc(IQ_MATRIX_ALIGN, (bytes + IQ_MATRIX_ALIGN) / IQ_MATRIX_ALIGN * IQ_MATRIX_ALIGN);
        if (!*device)
            return iq_fail(err, IQ_MEMORY, "no memory for a copy of %zu MiB of weights", bytes >> 20);
        memcpy(*device, host, bytes);
        return IQ_OK;
    }
    int status =
        iq_cuda_done(c, c->api->malloc(device, bytes ? bytes : 1), "allocating memory for the weights");
    if (status == IQ_OK && bytes)
        status = iq_cuda_done(c, c->api->memcpy_async(*device, host, bytes, IQ_CUDA_TO_DEVICE, c->stream),
                              "copying the weights");
    if (status == IQ_OK) return IQ_OK;
    *err = c->err;
    return iq_err_prefix(err, "%zu MiB of weights: ", bytes >> 20);
}

static const float *moved(struct block b, const float *p)
{
    return p ? (const float *)(const void *)((char *)b.device + ((const char *)p - (const char *)b.host))
             : NULL;
}

static void move_matrix(struct block b, struct iq_matrix *w)
{
    if (w->data) w->data = (const uint8_t *)b.device + (w->data - (const uint8_t *)b.host);
}

static void move_rank(struct block b, struct iq_rank_weights *w)
{
    struct iq_matrix *one[] = {&w->q, &w->k, &w->v, &w->gate, &w->up};
    for (size_t i = 0; i < sizeof one / sizeof *one; i++) move_matrix(b, one[i]);
    for (int i = 0; i < IQ_SHARD_NODES; i++) {
        move_matrix(b, &w->out[i]);
        move_matrix(b, &w->down[i]);
    }
}

/* The experts' own structs, over copied weights. */
static int move_experts(struct iq_upload *u, const struct iq_model *m, struct block arena, struct iq_err *err)
{
    size_t n = (size_t)m->config.layers * 3 * m->config.experts;
    if (!n) return IQ_OK;
    u->model.expert = malloc(n * sizeof *u->model.expert);
    if (!u->model.expert) return iq_fail(err, IQ_MEMORY, "no memory for %zu matrices of experts", n);
    memcpy(u->model.expert, m->expert, n * sizeof *u->model.expert);
    for (size_t i = 0; i < n; i++) move_matrix(arena, &u->model.expert[i]);
    for (uint32_t l = 0; l < m->config.layers; l++) move_matrix(arena, &u->model.layer[l].experts.router);
    iq__model_point_experts(&u->model);
    return IQ_OK;
}

/* The layers' own structs, over copied weights. */
static int move_layers(struct iq_upload *u, const struct iq_model *m, struct block vectors,
                       struct block arena, struct iq_err *err)
{
    struct iq_model *to = &u->model;
    uint32_t layers = m->config.layers;
    to->layer = calloc(layers, sizeof *to->layer);
    for (uint32_t l = 0; to->layer && l < layers; l++) {
        struct iq_layer_weights *w = &to->layer[l];
        *w = m->layer[l];
        w->rank = malloc(m->tp * sizeof *w->rank);
        if (!w->rank) return iq_fail(err, IQ_MEMORY, "no memory for %u ranks", m->tp);
        memcpy(w->rank, m->layer[l].rank, m->tp * sizeof *w->rank);
        for (uint32_t r = 0; r < m->tp; r++) move_rank(arena, &w->rank[r]);
        const float **one[] = {&w->attn_norm, &w->ffn_norm, &w->q_norm, &w->k_norm,
                               &w->q_bias,    &w->k_bias,   &w->v_bias};
        for (size_t i = 0; i < sizeof one / sizeof *one; i++) *one[i] = moved(vectors, *one[i]);
    }
    if (!to->layer) return iq_fail(err, IQ_MEMORY, "no memory for %u layers", layers);
    return move_experts(u, m, arena, err);
}

int iq_upload_open(const struct iq_model *m, struct iq_cuda *cuda, struct iq_upload *u, struct iq_err *err)
{
    *u = (struct iq_upload){.model = *m, .cuda = cuda};
    u->model.layer = NULL;
    u->model.expert = NULL;
    IQ_TRY(copy(u, m->arena.base, m->arena.used, &u->arena, err));
    IQ_TRY(copy(u, m->vectors, m->vectors_bytes, &u->vectors, err));
    IQ_TRY(copy(u, m->rotary, (size_t)m->tables * m->positions * m->config.head_dim * sizeof(float),
                &u->rotary, err));
    struct block arena = {m->arena.base, u->arena}, vectors = {m->vectors, u->vectors};
    IQ_TRY(move_layers(u, m, vectors, arena, err));
    move_matrix(arena, &u->model.embed);
    move_matrix(arena, &u->model.head);
    u->model.final_norm = moved(vectors, m->final_norm);
    u->model.rotary = u->rotary;
    return IQ_OK;
}

void iq_upload_close(struct iq_upload *u)
{

    for (uint32_t l = 0; u->model.layer && l < u->model.config.layers; l++) free(u->model.layer[l].rank);
    free(u->model.layer);
    free(u->model.expert);
    void *all[] = {u->arena, u->vectors, u->rotary};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i] && u->cuda)
            u->cuda->api->free(all[i]);
        else
            free(all[i]);
    *u = (struct iq_upload){0};
}
