/* Golden's tree over NCCL: every piece travels to rank 0 as it is, and golden's kernel adds them there. */
#include "kernels/nccl/collective.h"

/* The pieces, dense, on the engine's device: a rank's stand one after another, ranks likewise. */
struct pieces {
    float *base;                          /* as computed */
    float *back;                          /* as received; rank 0's stay where they are */
    size_t offset[IQ_NCCL_RANKS];         /* in elements, of a rank's first piece */
    struct iq_piece at[IQ_REDUCE_PIECES]; /* what golden's kernel gets */
};

static int collect(struct iq__nccl_call *c, struct pieces *p)
{
    size_t next[IQ_NCCL_RANKS] = {0}, all = (size_t)c->a->pieces * c->elements, at = 0;
    IQ_TRY(iq__nccl_scratch(c, 2 * all, &p->base));
    p->back = p->base + all;
    for (int r = 0; r < c->ranks; r++) {
        p->offset[r] = next[r] = at;
        at += c->pieces[r] * c->elements;
    }
    for (uint32_t i = 0; i < c->a->pieces; i++) {
        int r = c->rank[i];
        IQ_TRY(iq__nccl_sum(c, &c->a->piece[i], 1, p->base + next[r]));
        p->at[i] = c->a->piece[i];
        p->at[i].x = (r ? p->back : p->base) + next[r];
        p->at[i].ldx = c->a->n;
        next[r] += c->elements;
    }
    return IQ_OK;
}

static int queue(struct iq__nccl_call *c, struct pieces *p, void *const there[], int *rank)
{
    const struct iq_nccl_api *api = c->world->api;
    const struct iq__nccl_rank *k = c->world->rank;
    for (int r = 1; r < c->ranks; r++) {
        size_t count = c->pieces[r] * c->elements;
        *rank = r;
        int code = api->send(there[r], count, IQ_NCCL_FLOAT32, 0, k[r].comm, k[r].stream);
        if (code) return code;
        *rank = 0;
        code = api->recv(p->back + p->offset[r], count, IQ_NCCL_FLOAT32, r, k[0].comm, k[0].stream);
        if (code) return code;
    }
    *rank = -1;
    return IQ_NCCL_OK;
}

static int exchange(struct iq__nccl_call *c, struct pieces *p)
{
    const struct iq_nccl_api *api = c->world->api;
    void *there[IQ_NCCL_RANKS] = {0};
    int rank, code, end;
    IQ_TRY(iq__nccl_fork(c->world));
    for (int r = 1; r < c->ranks; r++) {
        size_t bytes = c->pieces[r] * c->elements * sizeof(float);
        IQ_TRY(iq__nccl_buffer(c->world, r, bytes, &there[r]));
        IQ_TRY(iq__nccl_ship(c, r, there[r], p->base + p->offset[r], bytes));
    }
    IQ_TRY(iq__nccl_done(c->world, api->group_start(), -1, "a gather"));
    code = queue(c, p, there, &rank);
    end = api->group_end();
    IQ_TRY(iq__nccl_done(c->world, code ? code : end, rank, "a gather"));
    return iq__nccl_join(c->world);
}

static int gather(struct iq__nccl_call *c)
{
    struct iq_cuda *cuda = c->x->cuda;
    struct pieces p;
    struct iq_all_reduce out = *c->a;
    IQ_TRY(collect(c, &p));
    IQ_TRY(exchange(c, &p));
    out.piece = p.at;
    return iq_cuda_launched(cuda, cuda->kernels->all_reduce(&out, cuda->stream), "golden's tree");
}

int iq_nccl_gather(struct iq_exec *x, const struct iq_all_reduce *a, bool capture)
{
    const struct iq_nccl_options options = {.capture = capture};
    struct iq__nccl_call c;
    if (a->rows == 0 || a->n == 0) return IQ_OK;
    IQ_TRY(iq__nccl_call_open(&c, x, a, &options));
    int status = gather(&c);
    if (status) c.world->failed = true;
    return status;
}
