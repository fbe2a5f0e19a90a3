/* A watched dispatch as it is queued: the op, and behind it kernels that set rows aside, compare, restore and digest. */
#include "kernels/cuda/watch_parts.h"
#include "kernels/ops/kv.h"

#include <stdlib.h>

typedef int rows_launcher(const struct iq_cuda_rows *, iq_cuda_stream);

/* One launch for each run of a point's rows; they stand behind what rows->at says, and move it on. */
static int point_rows(struct iq_cuda *c, const struct iq_kind *kind, const void *args, unsigned point,
                      struct iq_cuda_rows *rows, rows_launcher *launch, const char *what)
{
    struct iq_run run[IQ_RUNS];
    unsigned runs = kind->runs(args, point, run);
    for (unsigned i = 0; i < runs; i++) {
        rows->x = run[i].x, rows->ld = run[i].ld, rows->n = (uint32_t)run[i].n;
        IQ_TRY(iq_cuda_launched(c, launch(rows, c->stream), what));
        rows->at += run[i].n;
    }
    return IQ_OK;
}

/* All points of a call, side by side. */
static int call_rows(struct iq_cuda *c, const struct iq_kind *kind, const void *args,
                     struct iq_cuda_rows *rows, rows_launcher *launch, const char *what)
{
    rows->at = 0;
    for (unsigned p = 0; kind->row_bytes(args, p); p++)
        IQ_TRY(point_rows(c, kind, args, p, rows, launch, what));
    return IQ_OK;
}

static int run_strike(struct iq_exec *x, const struct iq_site *site, const void *args, uint32_t n,
                      const struct iq__strike *k)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cuda_step *s = c->step;
    const struct iq_kind *kind = site->slot->kind;
    uint32_t *changed = (uint32_t *)(void *)iq__mirror_there(&s->changed) + k->changed;
    struct iq_cuda_rows rows = {.rows = n,
                                .stride = iq__row_bytes(kind, args) / sizeof(uint32_t),
                                .saved = s->saved.block[s->saved.blocks - 1],
                                .won = (uint32_t *)(void *)iq__mirror_there(&s->masks) + k->won,
                                .changed = changed};
    IQ_TRY(
        iq_cuda_done(c, c->api->memset_async(changed, 0, n * sizeof *changed, c->stream), "clearing flags"));
    IQ_TRY(call_rows(c, kind, args, &rows, c->kernels->rows_save, "setting rows aside"));
    IQ_TRY(k->pick.variant->run(x, site, args, k->pick.params, k->state));
    IQ_TRY(call_rows(c, kind, args, &rows, c->kernels->rows_settle, "settling rows"));
    if (!kind->derive) return IQ_OK;
    return iq_cuda_launched(c, c->kernels->moe_lists(args, c->stream), "listing slots by expert");
}

static int run_digest(struct iq_cuda *c, const struct iq_slot *slot, const void *args, uint32_t rows,
                      unsigned point, struct iq_digest *out)
{
    struct iq_run run[IQ_RUNS];
    if (!slot->kind->runs) {
        const struct iq_cuda_kv_digest kv = {args, point, out};
        return iq_cuda_launched(c, c->kernels->kv_digest(&kv, c->stream), "digesting K and V");
    }
    struct iq_cuda_digest d = {.rows = rows, .out = out};
    unsigned runs = slot->kind->runs(args, point, run);
    for (unsigned i = 0; i < runs; i++)
        d.run[i].x = run[i].x, d.run[i].ld = run[i].ld, d.run[i].n = (uint32_t)run[i].n;
    return iq_cuda_launched(c, c->kernels->digest(&d, c->stream), "digesting rows");
}

/* Level tensors: the rows that stand aside, and their digests, come to the host at once. */
static int give_bytes(struct iq_cuda *c, const struct iq__call *call, const struct iq__digested *at,
                      size_t bytes, size_t elem)
{
    struct iq_cuda_step *s = c->step;
    const struct iq_tap *tap = call->site.slot->set->tap;
    const struct iq_digest *digest = (struct iq_digest *)(void *)iq__mirror_there(&s->digests) + at->at;
    size_t all = call->rows * (bytes + sizeof *digest) + bytes;
    if (s->row_bytes < all) {
        free(s->row);
        s->row_bytes = 0;
        if (!(s->row = malloc(all))) return IQ_MEMORY;
        s->row_bytes = all;
    }
    struct iq_digest *d = s->row;
    char *row = (char *)(d + call->rows), *into = row + call->rows * bytes;
    IQ_TRY(iq_cuda_done(c,
                        c->api->memcpy_async(row, s->saved.block[s->saved.blocks - 1], call->rows * bytes,
                                             IQ_CUDA_TO_HOST, c->stream),
                        "reading rows"));
    IQ_TRY(iq_cuda_done(c,
                        c->api->memcpy_async(d, digest, call->rows * sizeof *d, IQ_CUDA_TO_HOST, c->stream),
                        "reading digests"));
    IQ_TRY(iq_cuda_sync(c, "reading rows"));
    for (uint32_t r = 0; r < call->site.rows; r++)
        IQ_TRY(tap->bytes(tap->self, &call->site, r, at->node, d[r],
                          iq__canonical_row(row + r * bytes, bytes, elem, into), bytes));
    return IQ_OK;
}

static int run_bytes(struct iq_exec *x, const struct iq__call *call, const void *args, unsigned point,
                     const struct iq__digested *at)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cuda_step *s = c->step;
    const struct iq_kind *kind = call->site.slot->kind;
    size_t bytes = kind->row_bytes(args, point);
    struct iq_cuda_rows rows = {
        .rows = call->rows, .stride = bytes / sizeof(uint32_t), .saved = s->saved.block[s->saved.blocks - 1]};
    if (kind->runs)
        IQ_TRY(point_rows(c, kind, args, point, &rows, c->kernels->rows_save, "reading rows"));
    else
        IQ_TRY(iq_cuda_launched(c, c->kernels->rows_kv(&rows, args, point, c->stream), "reading K and V"));
    return give_bytes(c, call, at, bytes, kind->elem);
}

static int run_taps(struct iq_exec *x, const struct iq__call *call, const void *args)
{
    struct iq_cuda_step *s = x->cuda->step;
    const struct iq_slot *slot = call->site.slot;
    for (uint32_t i = 0; i < call->digests; i++) {
        const struct iq__digested *at = &s->digested.at[call->digested0 + i];
        struct iq_digest *out = (struct iq_digest *)(void *)iq__mirror_there(&s->digests) + at->at;
        unsigned point = at->node - slot->node;
        IQ_TRY(run_digest(x->cuda, slot, args, call->rows, point, out));
        if (slot->set->tap->bytes) IQ_TRY(run_bytes(x, call, args, point, at));
    }
    return IQ_OK;
}

/* The plan of this dispatch. */
static const struct iq__call *next_call(struct iq_cuda *c, const struct iq_site *site)
{
    struct iq_cuda_step *s = c->step;
    const struct iq__call *call = s->next < s->call.n ? &s->call.at[s->next++] : NULL;
    if (call && call->site.slot == site->slot) return call;
    iq_fail(&c->err, IQ_INTERNAL, "%s: a step ran other ops than it had planned; this is a bug in inquest",
            c->api->name);
    return NULL;
}

int iq__cuda_dispatch(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    struct iq_cuda_step *s = x->cuda->step;
    if (s && s->planning) return iq__watch_plan(x, site, args);
    IQ_TRY(site->slot->run(x, site, args, NULL, NULL));
    if (!s) return IQ_OK;
    const struct iq__call *call = next_call(x->cuda, site);
    if (!call) return IQ_INTERNAL;
    for (uint32_t i = 0; i < call->strikes; i++)
        IQ_TRY(run_strike(x, site, args, call->rows, &s->strike.at[call->strike0 + i]));
    return run_taps(x, call, args);
}

int iq__cuda_tap_whole(struct iq_exec *x, const struct iq_site *site, uint32_t rows, uint16_t node,
                       const float *y, size_t ld, size_t n)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cuda_step *s = c->step;
    bool bytes = site->slot->set->tap->bytes != NULL;
    if (s->planning) return iq__watch_plan_whole(s, site, rows, node, n * sizeof *y);
    const struct iq__call *call = next_call(c, site);
    if (!call) return IQ_INTERNAL;
    const struct iq__digested *at = &s->digested.at[call->digested0];
    struct iq_digest *out = (struct iq_digest *)(void *)iq__mirror_there(&s->digests) + at->at;
    const struct iq_cuda_digest d = {.rows = rows, .run = {{y, ld, (uint32_t)n}}, .out = out};
    IQ_TRY(iq_cuda_launched(c, c->kernels->digest(&d, c->stream), "digesting rows"));
    if (!bytes) return IQ_OK;
    const struct iq_cuda_rows aside = {.rows = rows,
                                       .n = (uint32_t)n,
                                       .x = (void *)(uintptr_t)y,
                                       .ld = ld,
                                       .stride = n,
                                       .saved = s->saved.block[s->saved.blocks - 1]};
    IQ_TRY(iq_cuda_launched(c, c->kernels->rows_save(&aside, c->stream), "reading rows"));
    return give_bytes(c, call, at, n * sizeof *y, sizeof *y);
}
