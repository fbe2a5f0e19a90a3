/* What a trial sends: any bytes, in two pieces. */
#include "golden/wire.h"

static int row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    volatile char *sum = self;
    (void)c, (void)d;
    for (size_t i = 0; bytes && i < n; i++) *sum ^= ((const char *)bytes)[i];
    return IQ_OK;
}
static int position(void *self, const struct iq_position *p)
{
    return *(volatile char *)self ^= (char)p->pos, IQ_OK;
}
static int fired(void *self, const struct iq_firing *f)
{
    return *(volatile char *)self ^= (char)f->rows, IQ_OK;
}
static int done(void *self, const struct iq_request_end *e)
{
    volatile char *sum = self;
    for (uint32_t i = 0; i < e->n_ids; i++) *sum ^= (char)e->ids[i];
    for (const char *s = e->id; *s; s++) *sum ^= *s;
    for (const char *s = e->finish; *s; s++) *sum ^= *s;
    return IQ_OK;
}
static int begin(void *self, const char *manifest, const struct iq_node *nodes, uint32_t n,
                 enum iq_level level, const char *name, struct iq_sink *sink, struct iq_err *err)
{
    (void)level, (void)name, (void)err, (void)manifest;
    for (uint32_t i = 0; i < n; i++) *(volatile char *)self ^= nodes[i].op[0];
    *sink = (struct iq_sink){self, row, position, fired, done};
    return IQ_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char sum = 0;
    struct iq_wire_handler h = {.self = &sum, .begin = begin};
    struct iq_wire_in *in;
    struct iq_err err;
    size_t half = size ? data[0] % size : 0;
    if (iq_wire_in_open(&h, &in, &err)) return 0;
    if (!iq_wire_feed(in, data, half, &err) && !iq_wire_feed(in, data + half, size - half, &err))
        iq_wire_eof(in, &err);
    iq_wire_in_close(in);
    return 0;
}
