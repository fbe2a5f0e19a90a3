/* Opening and closing a trainer; its memory for a micro-batch. */
#include "engine/train/parts.h"
#include "kernels/ops/reduce.h"

#include <stdlib.h>
#include <string.h>

static bool power_of_two(uint32_t n) { return n && !(n & (n - 1)); }

static int choose_options(struct iq_train *t, const struct iq_train_options *given, struct iq_err *err)
{
    enum { MOST = 1024 };
    struct iq_train_options o = given ? *given : (struct iq_train_options){0};
    o.threads = o.threads ? o.threads : 1;
    o.data_parallel = o.data_parallel ? o.data_parallel : 1;
    o.micro = o.micro ? o.micro : 1;
    if (!power_of_two(o.data_parallel) || o.data_parallel > IQ_REDUCE_PIECES)
        return iq_fail(err, IQ_USAGE, "training: found data-parallel %u, expected a power of two up to %d",
                       o.data_parallel, IQ_REDUCE_PIECES);
    if (!power_of_two(o.micro) || o.micro > MOST)
        return iq_fail(err, IQ_USAGE, "training: found %u micro-batches, expected a power of two up to %d",
                       o.micro, MOST);
    t->ops = iq_train_ops_find(o.isa);
    if (!t->ops)
        return iq_fail(
            err, IQ_USAGE,
            "training: found instruction set '%s', expected reference, scalar, avx2 or avx512, as far "
            "as this machine has it",
            o.isa);
    t->options = o;
    return iq_pool_open((int)(o.threads < 100000 ? o.threads : 100000), &t->exec.pool, err);
}

/* The engine's variants that go with the table's row. */
static int choose_variants(struct iq_train *t, struct iq_err *err)
{
    IQ_TRY(iq_train_register(err));
    const bool reference = t->ops == &iq__train_reference;
#define CHOOSE(kind) reference ? iq_variant_find(kind, "reference") : iq_variant_golden(kind, t->ops->name)
    t->norm = CHOOSE("rmsnorm");
    t->rope = CHOOSE("rope");
    t->swiglu = CHOOSE("swiglu");
    t->kv_write = CHOOSE("kv_write");
    t->attention = CHOOSE("attention");
    t->route = CHOOSE("route");
    t->dispatch = CHOOSE("moe_dispatch");
    t->combine = CHOOSE("combine");
#undef CHOOSE
    bool routed = t->route && t->dispatch && t->combine;
    if (!t->norm || !t->rope || !t->swiglu || !t->kv_write || !t->attention || !routed)
        return iq_fail(err, IQ_INTERNAL, "training: an op has no variant for %s", t->ops->name);
    return IQ_OK;
}

static int furnish(struct iq_train *t, const struct iq_train_options *options, struct iq_err *err)
{
    IQ_TRY(iq_train_recipe_check(&t->recipe, err));
    IQ_TRY(choose_options(t, options, err));
    IQ_TRY(choose_variants(t, err));
    IQ_TRY(iq__train_slots(t, err));
    IQ_TRY(iq__train_layout(t, err));
    return iq__train_allocate(t, err);
}

int iq__train_new(const struct iq_train_recipe *recipe, const struct iq_train_options *options,
                  struct iq_train **out, struct iq_err *err)
{
    *out = NULL;
    struct iq_train *t = calloc(1, sizeof *t);
    if (!t) return iq_fail(err, IQ_MEMORY, "no memory for a trainer");
    t->recipe = *recipe;
    int rc = furnish(t, options, err);
    if (rc != IQ_OK) {
        iq_train_close(t);
        return rc;
    }
    *out = t;
    return IQ_OK;
}

static void free_memory(struct iq__train_memory *m)
{
    free(m->base);
    free(m->index);
    free(m->seq);
    *m = (struct iq__train_memory){0};
}

void iq_train_close(struct iq_train *t)
{
    if (!t) return;
    free_memory(&t->memory);
    iq_exec_close(&t->exec);
    iq_pool_close(t->exec.pool);
    free(t->tensor);
    free(t->layer);
    iq_slots_close(t->slots);
    free(t->w);
    free(t->before);
    free(t->gradient);
    free(t->rotary);
    free(t->target);
    free(t->loss);
    free(t->balance);
    free(t->hit);
    free(t);
}

/* Gives out `rows` rows of n floats, or integers, each time; with no base, only counts. */
struct giver {
    void *base;
    size_t used, rows;
};

static void *give(struct giver *g, size_t n)
{
    void *p = g->base ? (float *)g->base + g->used : NULL;
    g->used += (g->rows * n + 15) / 16 * 16;
    return p;
}

/* What has a row for each slot; without experts, a row of the batch is one. */
static void give_slots(struct iq_train *t, struct giver *g)
{
    const struct iq_train_recipe *r = &t->recipe;
    const size_t rows = g->rows;
    g->rows = rows * (r->experts ? r->active : 1);
    for (struct iq__train_layer *l = t->layer; l < t->layer + r->layers; l++) {
        l->gate_up = give(g, 2 * (size_t)r->ffn);
        l->act = give(g, r->ffn);
        if (r->experts) l->served = give(g, r->hidden);
    }
    if (r->experts) {
        t->memory.gathered = give(g, r->hidden);
        t->memory.by_slot = give(g, r->hidden);
    }
    g->rows = rows;
}

static size_t give_floats(struct iq_train *t, float *base, size_t rows, size_t cached)
{
    const struct iq_train_recipe *r = &t->recipe;
    struct iq__train_memory *m = &t->memory;
    struct giver g = {base, 0, rows};
    give_slots(t, &g);
    for (struct iq__train_layer *l = t->layer; l < t->layer + r->layers; l++) {
        l->x = give(&g, r->hidden);
        l->h = give(&g, r->hidden);
        l->qkv = give(&g, t->width.qkv);
        l->attended = give(&g, t->width.q);
        l->middle = give(&g, r->hidden);
        l->h2 = give(&g, r->hidden);
        l->logits = give(&g, r->experts);
        l->weight = give(&g, r->active);
    }
    m->final = give(&g, r->hidden);
    m->normed = give(&g, r->hidden);
    m->logits = give(&g, r->vocab);
    m->raw = give(&g, t->width.qkv);
    m->branch = give(&g, r->hidden);
    m->dx = give(&g, r->hidden);
    m->dh = give(&g, r->hidden);
    m->dbranch = give(&g, r->hidden);
    m->dgate_up = give(&g, 2 * (size_t)r->ffn);
    m->dact = give(&g, r->ffn);
    m->dqkv = give(&g, t->width.qkv);
    m->dattended = give(&g, t->width.q);
    m->dweight = give(&g, r->active);
    m->dlogits = give(&g, r->experts);
    g.rows = cached;
    m->cache_k = give(&g, t->width.kv);
    m->cache_v = give(&g, t->width.kv);
    return g.used;
}

static size_t give_integers(struct iq_train *t, uint32_t *base, size_t rows, size_t sequences, size_t blocks)
{
    const struct iq_train_recipe *r = &t->recipe;
    struct iq__train_memory *m = &t->memory;
    struct giver g = {base, 0, rows};
    m->pos = give(&g, 1);
    m->owner = give(&g, r->active);
    for (struct iq__train_layer *l = t->layer; l < t->layer + r->layers; l++) {
        l->expert = give(&g, r->active);
        l->place = give(&g, r->active);
        l->list = give(&g, r->active);
    }
    g.rows = 1;
    for (struct iq__train_layer *l = t->layer; l < t->layer + r->layers; l++)
        l->first = give(&g, r->experts + 1);
    m->blocks = give(&g, blocks);
    m->units = give(&g, sequences);
    return g.used;
}

/* Makes room where there isn't enough; the old contents go. */
static int grow(struct iq__train_memory *m, size_t floats, size_t index, size_t sequences)
{
    if (floats <= m->floats && index <= m->indices && sequences <= m->sequences) return IQ_OK;
    free_memory(m);
    m->base = aligned_alloc(64, floats * sizeof *m->base);
    m->index = malloc(index * sizeof *m->index);
    m->seq = malloc(sequences * sizeof *m->seq);
    m->floats = floats;
    m->indices = index;
    m->sequences = sequences;
    if (m->base && m->index && m->seq) return IQ_OK;
    free_memory(m);
    return IQ_MEMORY;
}

int iq__train_room(struct iq_train *t, uint32_t sequences, uint32_t length, struct iq_err *err)
{
    struct iq__train_memory *m = &t->memory;
    const size_t rows = (size_t)sequences * length, own = (length + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
    const size_t blocks = sequences * own;
    if (m->rows == rows && m->length == length) return IQ_OK;
    m->rows = m->length = 0;
    const size_t floats = give_floats(t, NULL, rows, blocks * IQ_KV_BLOCK);
    if (grow(m, floats, give_integers(t, NULL, rows, sequences, blocks), sequences) != IQ_OK)
        return iq_fail(err, IQ_MEMORY, "no memory to train on %zu tokens at once: use more micro-batches",
                       rows);
    give_floats(t, m->base, rows, blocks * IQ_KV_BLOCK);
    give_integers(t, m->index, rows, sequences, blocks);
    for (size_t i = 0; i < rows; i++) m->pos[i] = (uint32_t)(i % length);
    for (size_t i = 0; i < blocks; i++) m->blocks[i] = (uint32_t)i;
    for (uint32_t i = 0; i < sequences; i++)
        m->seq[i] = (struct iq_seq){.first = i * length, .rows = length, .blocks = m->blocks + i * own};
    m->rows = rows;
    m->length = length;
    return IQ_OK;
}
