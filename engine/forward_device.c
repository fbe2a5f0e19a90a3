/* A step on a device. */
#include "engine/forward_parts.h"
#include "kernels/cuda/watch.h"

#include <stdlib.h>
#include <string.h>

/* ---- over and back ---- */

/* The host's inputs, as the ops find them: block tables packed, and sequences without rows for the padding. */
static int stage(struct iq_forward *f, const struct iq__walk *w)
{
    struct iq_cuda *c = f->exec.cuda;
    const struct iq_batch *b = w->batch;
    uint32_t used = 0;
    for (uint32_t i = 0; i < w->seqs; i++) {
        struct iq_seq *s = &f->in.seq[i];
        *s = (struct iq_seq){.first = b->rows};
        if (i >= b->seqs) continue;
        *s = b->seq[i];
        uint32_t blocks = (s->pos + s->rows + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        memcpy(f->in.blocks + used, s->blocks, blocks * sizeof *s->blocks);
        s->blocks = f->op_in.blocks + used;
        used += blocks;
    }
    size_t bytes = (size_t)((char *)(f->in.blocks + used) - (char *)f->in.ids);
    return iq_cuda_done(c, c->api->memcpy_async(f->op_in.ids, f->in.ids, bytes, IQ_CUDA_TO_DEVICE, c->stream),
                        "copying a step's rows");
}

static int back(struct iq_cuda *c, void *to, const void *from, size_t bytes)
{
    return iq_cuda_done(c, c->api->memcpy_async(to, from, bytes, IQ_CUDA_TO_HOST, c->stream),
                        "copying the results");
}

static int fetch(struct iq_forward *f, const struct iq__walk *w)
{
    struct iq_cuda *c = f->exec.cuda;
    size_t n = w->batch->predicts, vocab = f->model->config.vocab;
    struct iq_results *got = &f->got, *from = &f->op_out;
    IQ_TRY(iq_cuda_step_fetch(c));
    if (!n) return IQ_OK;
    IQ_TRY(back(c, got->logits, from->logits, n * vocab * sizeof(float)));
    if (w->temper) IQ_TRY(back(c, got->tempered, from->tempered, n * vocab * sizeof(float)));
    IQ_TRY(back(c, got->values, from->values, n * f->k * sizeof(float)));
    IQ_TRY(back(c, got->ids, from->ids, n * f->k * sizeof(uint32_t)));
    IQ_TRY(back(c, got->token, from->token, n * sizeof(uint32_t)));
    return back(c, got->status, from->status, n * sizeof(int32_t));
}

/* ---- graphs: one for each step that looks the same to the device ---- */

enum { CAPTURED_MAX = 256 };

struct iq_captured {
    uint32_t n;
    struct {
        struct iq_digest key;
        void *exec; /* NULL: seen once; it ran eagerly, so that whatever grows has grown */
    } graph[CAPTURED_MAX];
};

void iq__forward_captured_close(struct iq_forward *f)
{
    const struct iq_cuda_api *api = f->exec.cuda->api;
    for (uint32_t i = 0; f->captured && i < f->captured->n; i++)
        if (f->captured->graph[i].exec) api->exec_destroy(f->captured->graph[i].exec);
    free(f->captured);
    f->captured = NULL;
}

static struct iq_digest key_of(const struct iq_forward *f, const struct iq__walk *w)
{
    const uint32_t shape[] = {w->rows, w->seqs, w->predicts, w->temper};
    struct iq_digest link[2] = {iq_cuda_step_key(f->exec.cuda), iq_digest_bytes(shape, sizeof shape)};
    return iq_digest_list(link, 2);
}

/* The walk's work as a graph. What was queued before a failure is dropped with the capture. */
static int capture(struct iq_forward *f, const struct iq__walk *w, void **exec, struct iq_err *err)
{
    struct iq_cuda *c = f->exec.cuda;
    void *graph = NULL;
    *exec = NULL;
    IQ_TRY(iq_cuda_done(c, c->api->capture_begin(c->stream), "beginning a capture"));
    int status = iq__forward_walk(f, w, err);
    int code = c->api->capture_end(c->stream, &graph);
    if (status == IQ_OK) status = iq_cuda_done(c, code, "ending a capture");
    if (status == IQ_OK) status = iq_cuda_done(c, c->api->graph_instantiate(exec, graph), "making a graph");
    if (graph) c->api->graph_destroy(graph);
    return status;
}

static int run_captured(struct iq_forward *f, const struct iq__walk *w, struct iq_err *err)
{
    struct iq_cuda *c = f->exec.cuda;
    struct iq_digest key = key_of(f, w);
    if (!f->captured && !(f->captured = calloc(1, sizeof *f->captured)))
        return iq_fail(&c->err, IQ_MEMORY, "no memory for captured graphs");
    struct iq_captured *all = f->captured;
    uint32_t i = 0;
    while (i < all->n && !iq_digest_equal(all->graph[i].key, key)) i++;
    if (i == all->n) { /* the first of its kind */
        if (i < CAPTURED_MAX) all->graph[all->n++].key = key;
        return iq__forward_walk(f, w, err);
    }
    if (!all->graph[i].exec) IQ_TRY(capture(f, w, &all->graph[i].exec, err));
    f->graph_launches++;
    return iq_cuda_done(c, c->api->graph_launch(all->graph[i].exec, c->stream), "launching a graph");
}

/* ---- a step ---- */

static int check_samples(const struct iq_forward *f, const struct iq_batch *b, struct iq_err *err)
{
    for (uint32_t i = 0; i < b->predicts; i++)
        if (f->got.status[i] == IQ_NOT_FOUND)
            return iq__forward_no_token(&b->step, err);
        else if (f->got.status[i] != IQ_OK)
            return iq_fail(err, f->got.status[i], "step %llu: sample failed: %s",
                           (unsigned long long)b->step.step, iq_status_text(f->got.status[i]));
    return IQ_OK;
}

static int device_step(struct iq_forward *f, struct iq__walk *w, struct iq_err *err)
{
    struct iq_cuda *c = f->exec.cuda;
    const struct iq_batch *b = w->batch;
    bool graph = w->padded && f->graphs;
    uint32_t longest = 0;
    for (uint32_t r = 0; r < b->rows; r++)
        longest = b->row[r].context > longest ? b->row[r].context : longest;
    c->context = graph ? f->max_context : longest;
    IQ_TRY(stage(f, w));
    iq_cuda_step_plan(c);
    IQ_TRY(iq__forward_walk(f, w, err));
    IQ_TRY(iq_cuda_step_ready(c));
    IQ_TRY(graph ? run_captured(f, w, err) : iq__forward_walk(f, w, err));
    IQ_TRY(fetch(f, w));
    IQ_TRY(iq_cuda_sync(c, "running the step"));
    IQ_TRY(check_samples(f, b, err));
    return iq_cuda_step_report(c, f->slots);
}

int iq__forward_on_device(struct iq_forward *f, struct iq__walk *w, struct iq_err *err)
{
    struct iq_cuda *c = f->exec.cuda;
    struct iq_err why = {0};
    c->err = why;
    int status = device_step(f, w, &why);
    if (status == IQ_OK) return IQ_OK;
    if (why.status) return iq_fail(err, status, "%s", why.text); /* of the walk: it names the step */
    return iq_fail(err, status, "step %llu: %s", (unsigned long long)w->batch->step.step,
                   c->err.status ? c->err.text : iq_status_text(status));
}
