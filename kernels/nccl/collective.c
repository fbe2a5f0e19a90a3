#include "kernels/nccl/collective.h"

#include "kernels/arith.h"
#include "kernels/nccl/pack.h"

#include <string.h>

/* ---- what both collectives share ---- */

static int number_ranks(struct iq__nccl_call *c)
{
    const struct iq_all_reduce *a = c->a;
    struct iq_err *err = &c->x->cuda->err;
    if (a->pieces == 0 || a->pieces > IQ_REDUCE_PIECES)
        return iq_fail(err, IQ_SHAPE, "all_reduce: found %u pieces, expected 1 to %d", a->pieces,
                       IQ_REDUCE_PIECES);
    for (uint32_t p = 0; p < a->pieces; p++) {
        int r = 0;
        while (r < c->ranks && c->name[r] != a->piece[p].rank) r++;
        if (r == IQ_NCCL_RANKS)
            return iq_fail(err, IQ_LIMIT, "NCCL: more than %d ranks in one all_reduce", IQ_NCCL_RANKS);
        if (r == c->ranks) c->name[c->ranks++] = a->piece[p].rank;
        c->rank[p] = (uint8_t)r;
        c->pieces[r]++;
    }
    if (__builtin_mul_overflow((size_t)a->rows, (size_t)a->n, &c->elements) ||
        c->elements > SIZE_MAX / sizeof(float) / (2 * IQ_REDUCE_PIECES))
        return iq_fail(err, IQ_LIMIT, "all_reduce: %u rows of %u elements are more than memory has", a->rows,
                       a->n);
    return IQ_OK;
}

int iq__nccl_call_open(struct iq__nccl_call *c, struct iq_exec *x, const struct iq_all_reduce *a,
                       const struct iq_nccl_options *options)
{
    struct iq_cuda *cuda = x->cuda;
    int capturing;
    memset(c, 0, sizeof *c);
    c->x = x, c->a = a;
    IQ_TRY(number_ranks(c));
    IQ_TRY(iq__nccl_world(cuda, c->ranks, options, &c->world));
    if (c->ranks == 1 || options->capture) return IQ_OK;
    IQ_TRY(iq_cuda_done(cuda, cuda->api->stream_capturing(cuda->stream, &capturing), "asking for a capture"));
    if (!capturing) return IQ_OK;
    return iq_fail(&cuda->err, IQ_UNSUPPORTED,
                   "NCCL: a collective over %d GPUs is not captured into a graph, as NCCL warns of deadlocks "
                   "where one thread drives several GPUs; run without captured batches, or set the variant's "
                   "parameter capture to 1",
                   c->ranks);
}

int iq__nccl_sum(struct iq__nccl_call *c, const struct iq_piece *from, uint32_t n, float *to)
{
    struct iq_cuda *cuda = c->x->cuda;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    struct iq_all_reduce sum = {.rows = c->a->rows, .n = c->a->n, .units = n, .pieces = n, .act = IQ_ACT_F32};
    for (uint32_t p = 0; p < n; p++) {
        piece[p] = from[p];
        piece[p].unit = p, piece[p].units = 1;
    }
    sum.piece = piece, sum.y = to, sum.ldy = c->a->n;
    return iq_cuda_launched(cuda, cuda->kernels->all_reduce(&sum, cuda->stream), "gathering a rank's sums");
}

int iq__nccl_scratch(struct iq__nccl_call *c, size_t floats, float **out)
{
    *out = iq_cuda_scratch(c->x->cuda, floats * sizeof **out);
    return *out ? IQ_OK : c->x->cuda->err.status;
}

int iq__nccl_ship(struct iq__nccl_call *c, int rank, void *to, const void *from, size_t bytes)
{
    struct iq_cuda *cuda = c->x->cuda;
    return iq_cuda_done(
        cuda, cuda->api->memcpy_async(to, from, bytes, IQ_CUDA_ON_DEVICE, c->world->rank[rank].stream),
        "copying partial sums to a rank's GPU");
}

/* ---- NCCL's own sum ---- */

/* A message is padded, so that every rank's share of a scatter is as long. */
struct message {
    const struct iq_nccl_options *options;
    int type;
    size_t bytes;               /* of an element */
    size_t share, padded;       /* elements: a rank's; ranks * share */
    void *at[IQ_NCCL_RANKS];    /* each on its rank's device; in place */
    float *wide[IQ_NCCL_RANKS]; /* the float32 that they were made of, on the engine's device */
};

static size_t dense(size_t elements) { return (elements + 63) / 64 * 64; } /* 256 bytes of float32 */

/* On the engine's device: float32 messages of all ranks, then their bf16 forms. */
static int lay_out(struct iq__nccl_call *c, struct message *m)
{
    size_t ranks = (size_t)c->ranks;
    float *base;
    m->type = m->options->bf16 ? IQ_NCCL_BFLOAT16 : IQ_NCCL_FLOAT32;
    m->bytes = m->options->bf16 ? sizeof(uint16_t) : sizeof(float);
    m->share = (c->elements + ranks - 1) / ranks;
    m->padded = m->share * ranks;
    size_t step = dense(m->padded);
    IQ_TRY(iq__nccl_scratch(c, step * ranks * (m->options->bf16 ? 2 : 1), &base));
    for (size_t r = 0; r < ranks; r++) {
        m->wide[r] = base + r * step;
        m->at[r] = base + (ranks + r) * step; /* of bf16 */
    }
    return IQ_OK;
}

/* What a rank has computed: the sum of its pieces. More than one are nodes of the tree, of ranks that are no power of two. */
static int pack(struct iq__nccl_call *c, struct message *m, int r, const struct iq_nccl_hook *hook)
{
    struct iq_cuda *cuda = c->x->cuda;
    struct iq_piece piece[IQ_REDUCE_PIECES];
    uint32_t n = 0;
    for (uint32_t p = 0; p < c->a->pieces; p++)
        if (c->rank[p] == r) piece[n++] = c->a->piece[p];
    IQ_TRY(iq__nccl_sum(c, piece, n, m->wide[r]));
    size_t pad = (m->padded - c->elements) * sizeof(float);
    if (pad)
        IQ_TRY(iq_cuda_done(cuda, cuda->api->memset_async(m->wide[r] + c->elements, 0, pad, cuda->stream),
                            "padding a message"));
    float *sent = m->wide[r];
    if (hook) IQ_TRY(hook->message(hook->self, c->x, c->name[r], &sent, c->elements));
    if (!m->options->bf16) {
        m->at[r] = sent;
        return IQ_OK;
    }
    return iq_cuda_launched(cuda, IQ_CUDA_PICK(cuda, nccl_narrow)(sent, m->at[r], m->padded, cuda->stream),
                            "rounding a message to bf16");
}

/* The other ranks' messages go to their GPUs. */
static int ship(struct iq__nccl_call *c, struct message *m)
{
    size_t bytes = m->padded * m->bytes;
    for (int r = 1; r < c->ranks; r++) {
        void *there;
        IQ_TRY(iq__nccl_buffer(c->world, r, bytes, &there));
        IQ_TRY(iq__nccl_ship(c, r, there, m->at[r], bytes));
        m->at[r] = there;
    }
    return IQ_OK;
}

typedef int queue_fn(const struct iq_nccl_api *, const struct message *, const struct iq__nccl_rank *, int r);

static int queue_all_reduce(const struct iq_nccl_api *api, const struct message *m,
                            const struct iq__nccl_rank *k, int r)
{
    return api->all_reduce(m->at[r], m->at[r], m->padded, m->type, IQ_NCCL_SUM, k->comm, k->stream);
}

static char *share_of(const struct message *m, int r)
{
    return (char *)m->at[r] + (size_t)r * m->share * m->bytes;
}

static int queue_scatter(const struct iq_nccl_api *api, const struct message *m,
                         const struct iq__nccl_rank *k, int r)
{
    return api->reduce_scatter(m->at[r], share_of(m, r), m->share, m->type, IQ_NCCL_SUM, k->comm, k->stream);
}

static int queue_gather(const struct iq_nccl_api *api, const struct message *m, const struct iq__nccl_rank *k,
                        int r)
{
    return api->all_gather(share_of(m, r), m->at[r], m->share, m->type, k->comm, k->stream);
}

/* A group is always ended, whatever failed in it. */
static int group(struct iq__nccl_call *c, const struct message *m, queue_fn *queue, const char *what)
{
    struct iq__nccl_world *w = c->world;
    int failed = 0, at = -1, end;
    IQ_TRY(iq__nccl_done(w, w->api->group_start(), -1, what));
    for (int r = 0; r < c->ranks && !failed; r++)
        if ((failed = queue(w->api, m, &w->rank[r], r))) at = r;
    end = w->api->group_end();
    return iq__nccl_done(w, failed ? failed : end, at, what);
}

static int reduce(struct iq__nccl_call *c, struct message *m, const struct iq_nccl_hook *hook)
{
    struct iq_cuda *cuda = c->x->cuda;
    IQ_TRY(lay_out(c, m));
    for (int r = 0; r < c->ranks; r++) IQ_TRY(pack(c, m, r, hook));
    IQ_TRY(iq__nccl_fork(c->world));
    IQ_TRY(ship(c, m));
    if (m->options->scatter) {
        IQ_TRY(group(c, m, queue_scatter, "a reduce-scatter"));
        IQ_TRY(group(c, m, queue_gather, "an all-gather"));
    } else {
        IQ_TRY(group(c, m, queue_all_reduce, "an all-reduce"));
    }
    IQ_TRY(iq__nccl_join(c->world));
    if (m->options->bf16)
        IQ_TRY(iq_cuda_launched(
            cuda, IQ_CUDA_PICK(cuda, nccl_widen)(m->at[0], m->wide[0], c->elements, cuda->stream),
            "widening the sum"));
    for (int r = 0; r < c->ranks && hook; r++)
        IQ_TRY(hook->sent(hook->self, c->x, c->name[r], m->wide[r], c->elements));
    struct iq_piece piece = {.units = 1, .x = m->options->bf16 ? m->wide[0] : m->at[0], .ldx = c->a->n};
    struct iq_all_reduce out = *c->a;
    out.units = out.pieces = 1, out.piece = &piece;
    return iq_cuda_launched(cuda, cuda->kernels->all_reduce(&out, cuda->stream), "rounding the sum");
}

int iq_nccl_all_reduce(struct iq_exec *x, const struct iq_all_reduce *a,
                       const struct iq_nccl_options *options, const struct iq_nccl_hook *hook)
{
    struct iq__nccl_call c;
    struct message m = {.options = options};
    if (a->rows == 0 || a->n == 0) return IQ_OK;
    IQ_TRY(iq__nccl_call_open(&c, x, a, options));
    int status = reduce(&c, &m, hook);
    if (status) c.world->failed = true;
    return status;
}
