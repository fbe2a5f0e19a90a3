#include "kernels/cuda/device.h"

#include <stdlib.h>

/* The runtime remembers a failure until it is asked; it is told here, and no later launch shall tell it again. */
int iq_cuda_done(struct iq_cuda *c, int code, const char *what)
{
    if (code != IQ_CUDA_OK) c->api->last_error();
    return iq_cuda_check(c->api, code, what, &c->err);
}

int iq_cuda_launched(struct iq_cuda *c, int status, const char *what)
{
    if (status != IQ_OK)
        return iq_fail(&c->err, status, "%s: %s: the call's shape is not one that the kernel takes (%s)",
                       c->api->name, what, iq_status_text(status));
    return iq_cuda_done(c, c->api->last_error(), what);
}

int iq_cuda_alloc(struct iq_cuda *c, size_t bytes, void **out)
{
    *out = NULL;
    IQ_TRY(iq_cuda_done(c, c->api->malloc(out, bytes ? bytes : 1), "allocating device memory"));
    int status =
        iq_cuda_done(c, c->api->memset_async(*out, 0, bytes ? bytes : 1, c->stream), "clearing memory");
    if (status == IQ_OK) return IQ_OK;
    c->api->free(*out);
    *out = NULL;
    return status;
}

void *iq_cuda_room_at_least(struct iq_cuda *c, struct iq_cuda_room *room, size_t bytes)
{
    if (bytes <= room->bytes && room->blocks) return room->block[room->blocks - 1];
    size_t cap = bytes + bytes / 2 + 256;
    void **grown = realloc(room->block, (room->blocks + 1) * sizeof *grown), *fresh;
    if (!grown) {
        iq_fail(&c->err, IQ_MEMORY, "no memory for a list of %zu blocks", room->blocks + 1);
        return NULL;
    }
    room->block = grown;
    if (iq_cuda_done(c, c->api->malloc(&fresh, cap), "allocating scratch memory")) return NULL;
    room->block[room->blocks++] = fresh;
    room->bytes = cap;
    return fresh;
}

void iq_cuda_room_close(struct iq_cuda *c, struct iq_cuda_room *room)
{
    for (size_t i = 0; i < room->blocks; i++) c->api->free(room->block[i]);
    free(room->block);
    *room = (struct iq_cuda_room){0};
}

void *iq_cuda_scratch(struct iq_cuda *c, size_t bytes)
{
    return iq_cuda_room_at_least(c, &c->scratch, bytes);
}

void iq_cuda_attach(struct iq_cuda *c, const struct iq_cuda_library *library)
{
    unsigned i = 0;
    while (i < IQ_CUDA_LIBRARIES && c->library[i] && c->library[i] != library) i++;
    if (i < IQ_CUDA_LIBRARIES) c->library[i] = library; /* there are fewer libraries than places */
}

int iq_cuda_sync(struct iq_cuda *c, const char *what)
{
    IQ_TRY(iq_cuda_done(c, c->api->stream_sync(c->stream), what));
    for (unsigned i = 0; i < IQ_CUDA_LIBRARIES && c->library[i]; i++)
        if (c->library[i]->check) IQ_TRY(c->library[i]->check(c));
    return IQ_OK;
}
