/* The kind weights: what firing logs and triggers see of it, and its invariant. */
#include "kernels/ops/weights.h"
#include "kernels/op.h"

#include <string.h>

/* One decision a call. */
static uint32_t rows(const void *args) { return (void)args, 1; }

/* A row is the digests of the pieces. */
static size_t row_bytes(const void *args, unsigned point)
{
    return point == 0 ? ((const struct iq_weights *)args)->pieces * sizeof(struct iq_digest) : 0;
}

static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    const struct iq_weights *a = args;
    struct iq_digest *d = scratch;
    (void)point, (void)r;
    for (uint32_t i = 0; i < a->pieces; i++) d[i] = iq_digest_bytes(a->piece[i].to, a->piece[i].bytes);
    return d;
}

/* Nothing but golden's weights can be put back: they are made again where they are not there. */
static void put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_weights *a = args;
    (void)point, (void)r;
    for (uint32_t i = 0; i < a->pieces; i++) {
        const struct iq_weights_piece *p = &a->piece[i];
        struct iq_digest want, found = iq_digest_bytes(p->to, p->bytes);
        memcpy(&want, (const char *)bytes + i * sizeof want, sizeof want);
        if (iq_digest_equal(want, found)) continue;
        if (a->action == IQ_WEIGHTS_LOAD)
            memcpy(p->to, p->from, p->bytes);
        else
            memset(p->to, 0, p->bytes);
    }
}

static const char *const fields[] = {"action", "pieces", "version", NULL};

static uint64_t field(const void *args, unsigned index)
{
    const struct iq_weights *a = args;
    const uint64_t value[] = {a->action, a->pieces, a->version};
    return value[index];
}

/* The weights in memory are the file's. */
static int check(const void *args, struct iq_err *err)
{
    const struct iq_weights *a = args;
    for (uint32_t i = 0; i < a->pieces && a->action == IQ_WEIGHTS_LOAD; i++)
        if (memcmp(a->piece[i].to, a->piece[i].from, a->piece[i].bytes))
            return iq_fail(err, IQ_MISMATCH, "piece %u of %u: the weights in memory are not the file's", i,
                           a->pieces);
    return IQ_OK;
}

const struct iq_kind iq__kind_weights = {.name = "weights",
                                         .args_size = sizeof(struct iq_weights),
                                         .rows = rows,
                                         .row_bytes = row_bytes,
                                         .get = get,
                                         .put = put,
                                         .elem = 16,
                                         .fields = fields,
                                         .field = field,
                                         .check = check};
