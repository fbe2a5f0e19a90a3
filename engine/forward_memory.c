/* The buffers of a forward pass, cut from one map: demand-zero memory of the host, or a block of the device with the host's
 * part beside it. */
#define _GNU_SOURCE
#include "engine/forward_parts.h"
#include "kernels/cuda/watch.h"

#include <sys/mman.h>

static uint32_t max_u32(uint32_t a, uint32_t b) { return a > b ? a : b; }

static const size_t HUGE_FROM = 32 << 20; /* bytes of activations */

/* Rows of `hidden` floats that a position has in `part`. */
static uint32_t most_pieces(const struct iq_model *m)
{
    uint32_t attn = 0, ffn = 0;
    for (uint32_t r = 0; r < m->tp; r++) {
        attn += m->attn[r].nodes;
        ffn += m->ffn[r].nodes;
    }
    return max_u32(max_u32(attn, ffn), m->config.active);
}

/* The next `count` elements of the map, 64-byte aligned; with base NULL only the room is counted. */
static void *cut(char *base, size_t *at, size_t count, size_t size)
{
    void *p = base ? base + *at : NULL;
    *at += (count * size + 63) / 64 * 64;
    return p;
}

/* What a step brings along; the block tables last, since a copy ends with what is used of them. */
static size_t lay_inputs(const struct iq_forward *f, struct iq_inputs *in, char *base)
{
    size_t at = 0, rows = f->max_rows, preds = f->max_predicts;
    in->ids = cut(base, &at, rows, sizeof(uint32_t));
    in->pos = cut(base, &at, rows, sizeof(uint32_t));
    in->seq = cut(base, &at, f->max_seqs, sizeof(struct iq_seq));
    in->seed = cut(base, &at, preds, sizeof(uint64_t));
    float **one[] = {&in->temperature, &in->top_p, &in->min_p};
    for (size_t i = 0; i < 3; i++) *one[i] = cut(base, &at, preds, sizeof(float));
    in->predict_pos = cut(base, &at, preds, sizeof(uint32_t));
    in->top_k = cut(base, &at, preds, sizeof(uint32_t));
    in->blocks = cut(base, &at, f->exec.cuda ? f->max_blocks : 0, sizeof(uint32_t));
    return at;
}

static size_t lay_results(const struct iq_forward *f, struct iq_results *out, char *base)
{
    size_t at = 0, preds = f->max_predicts, vocab = f->model->config.vocab;
    out->logits = cut(base, &at, preds * vocab, sizeof(float));
    out->tempered = cut(base, &at, preds * vocab, sizeof(float));
    out->masked = cut(base, &at, f->masks ? preds * vocab : 0, sizeof(float));
    out->values = cut(base, &at, preds * f->k, sizeof(float));
    out->ids = cut(base, &at, preds * f->k, sizeof(uint32_t));
    out->token = cut(base, &at, preds, sizeof(uint32_t));
    out->status = cut(base, &at, preds, sizeof(int32_t));
    return at;
}

static size_t lay_experts(const struct iq_forward *f, struct iq_moe_room *m, char *base)
{
    const struct iq_model_config *c = &f->model->config;
    size_t at = 0, rows = c->experts ? f->max_rows : 0, slots = rows * c->active;
    m->logits = cut(base, &at, rows * c->experts, sizeof(float));
    m->weight = cut(base, &at, slots, sizeof(float));
    m->expert = cut(base, &at, slots, sizeof(uint32_t));
    m->owner = cut(base, &at, slots, sizeof(uint32_t));
    m->first = cut(base, &at, rows ? c->experts + 1 : 0, sizeof(uint32_t));
    m->list = cut(base, &at, slots, sizeof(uint32_t));
    m->slots = cut(base, &at, slots * c->hidden, sizeof(float));
    return at;
}

static char *past(char *base, size_t bytes) { return base ? base + bytes : NULL; }

static size_t lay_activations(struct iq_forward *f, char *base)
{
    const struct iq_model_config *c = &f->model->config;
    size_t at = 0, rows = f->max_rows, preds = f->max_predicts, hidden = c->hidden;
    uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim;
    f->ld_h = max_u32(c->hidden, qw);
    uint32_t ffn = c->experts ? c->active * c->ffn : c->ffn;
    f->ld_wide = max_u32(qw + 2 * kw, 2 * ffn);
    f->ld_mid = max_u32(qw + kw, ffn);
    for (int i = 0; i < 2; i++) f->res[i] = cut(base, &at, rows * hidden, sizeof(float));
    f->h = cut(base, &at, rows * f->ld_h, sizeof(float));
    f->wide = cut(base, &at, rows * f->ld_wide, sizeof(float));
    f->mid = cut(base, &at, rows * f->ld_mid, sizeof(float));
    f->part = cut(base, &at, most_pieces(f->model) * rows * hidden, sizeof(float));
    f->sum = cut(base, &at, rows * max_u32(c->hidden, kw), sizeof(float));
    bool adapters = f->adapters;
    f->tuned_wide = cut(base, &at, adapters ? rows * f->ld_wide : 0, sizeof(float));
    f->tuned_sum = cut(base, &at, adapters ? rows * hidden : 0, sizeof(float));
    f->pair = cut(base, &at, adapters ? IQ_LORA_PARTS * rows : 0, sizeof *f->pair);
    f->head_in = cut(base, &at, 2 * preds * hidden, sizeof(float));
    return at + lay_experts(f, &f->moe, past(base, at));
}

static size_t lay_rows(struct iq_forward *f, char *base)
{
    size_t at = 0;
    f->predict_row = cut(base, &at, f->max_predicts, sizeof *f->predict_row);
    return at;
}

/* Everything in the host's map. */
static size_t lay_host(struct iq_forward *f, char *base)
{
    size_t at = lay_rows(f, base);
    at += lay_inputs(f, &f->in, past(base, at));
    at += lay_results(f, &f->got, past(base, at));
    if (f->exec.cuda) return at;
    f->op_in = f->in;
    f->op_out = f->got;
    return at + lay_activations(f, past(base, at));
}

static size_t lay_device(struct iq_forward *f, char *base)
{
    size_t at = lay_inputs(f, &f->op_in, base);
    at += lay_results(f, &f->op_out, past(base, at));
    return at + lay_activations(f, past(base, at));
}

static int open_device(struct iq_forward *f, struct iq_err *err)
{
    struct iq_cuda *c = f->exec.cuda;
    size_t bytes = lay_device(f, NULL);
    int status = iq_cuda_done(c, c->api->host_malloc(&f->map, f->map_bytes), "allocating page-locked memory");
    if (status == IQ_OK) status = iq_cuda_alloc(c, bytes, &f->device_map);
    if (status != IQ_OK) {
        *err = c->err;
        return iq_err_prefix(err, "activations of %u rows (%zu MiB): ", f->max_rows, bytes >> 20);
    }
    lay_device(f, f->device_map);
    c->sample_status = f->op_out.status;
    return iq_cuda_step_open(c, err);
}

static int open_host(struct iq_forward *f, struct iq_err *err)
{
    f->map =
        mmap(NULL, f->map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (f->map == MAP_FAILED) {
        f->map = NULL;
        return iq_fail(err, IQ_MEMORY,
                       "no memory for the activations of %u rows (%zu MiB); use a smaller --chunk or --batch",
                       f->max_rows, f->map_bytes >> 20);
    }
    /* For few rows a huge page would hold mostly what is not used; measured: 8 MB of 18. */
    if (f->map_bytes >= HUGE_FROM) madvise(f->map, f->map_bytes, MADV_HUGEPAGE);
    return IQ_OK;
}

int iq_forward_open(struct iq_forward *f, struct iq_err *err)
{
    f->map_bytes = lay_host(f, NULL);
    IQ_TRY(f->exec.cuda ? open_device(f, err) : open_host(f, err));
    lay_host(f, f->map);
    return IQ_OK;
}

void iq_forward_close(struct iq_forward *f)
{
    struct iq_cuda *c = f->exec.cuda;
    if (c) {
        iq__forward_captured_close(f);
        iq_cuda_step_close(c);
        if (f->device_map) c->api->free(f->device_map);
        if (f->map) c->api->host_free(f->map);
    } else if (f->map) {
        munmap(f->map, f->map_bytes);
    }
    f->map = f->device_map = NULL;
    iq_exec_close(&f->exec);
}
