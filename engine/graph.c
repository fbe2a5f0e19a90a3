#include "engine/graph.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct build {
    const struct iq_model *m;
    struct iq_uses uses;
    struct iq_graph *g;
    struct iq_slots *slots;
    enum iq_level level;
    uint32_t cap;
};

bool iq_graph_has(const struct iq_model_config *c, struct iq_uses uses, enum iq_op_id op)
{
    switch (op) {
    case IQ_OP_Q_NORM:
    case IQ_OP_K_NORM:
        return c->qk_norm;
    case IQ_OP_GATE_UP:
    case IQ_OP_ACT:
    case IQ_OP_DOWN:
    case IQ_OP_FFN_REDUCE:
        return !c->experts;
    case IQ_OP_LORA_QKV:
    case IQ_OP_LORA_OUT:
    case IQ_OP_LORA_GATE_UP:
    case IQ_OP_LORA_DOWN:
        return uses.adapters;
    case IQ_OP_WEIGHTS:
        return uses.weights;
    case IQ_OP_MASK:
        return uses.mask;
    default:
        return c->experts || op < IQ_OP_ROUTER || op > IQ_OP_COMBINE;
    }
}

uint32_t iq_graph_ranks(const struct iq_model *m, enum iq_op_id op)
{
    bool experts = op == IQ_OP_EXPERT_GATE_UP || op == IQ_OP_EXPERT_DOWN;
    return experts ? m->expert_parallel : m->tp;
}

uint16_t iq_graph_node(const struct iq_graph *g, enum iq_op_id op, uint32_t layer)
{
    return g->first[op * (g->layers + 1) + (layer == IQ_NO_LAYER ? 0 : layer + 1)];
}

static bool weighs(enum iq_op_id op)
{
    static const enum iq_op_id all[] = {
        IQ_OP_EMBED,          IQ_OP_ATTN_NORM,   IQ_OP_QKV,        IQ_OP_Q_NORM, IQ_OP_K_NORM,
        IQ_OP_ATTN_OUT,       IQ_OP_FFN_NORM,    IQ_OP_GATE_UP,    IQ_OP_DOWN,   IQ_OP_ROUTER,
        IQ_OP_EXPERT_GATE_UP, IQ_OP_EXPERT_DOWN, IQ_OP_FINAL_NORM, IQ_OP_LM_HEAD};
    bool found = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) found |= all[i] == op;
    return found;
}

/* Where the weights change, what is computed with them has them as an input. */
static void add_weights(struct build *b, enum iq_op_id op, struct iq_node *n)
{
    if (!b->uses.weights || !weighs(op) || n->inputs == IQ_NODE_INPUTS) return;
    n->input[n->inputs++] = iq_graph_node(b->g, IQ_OP_WEIGHTS, n->layer);
}

/* Adds the op's points at one (layer, rank) as consecutive nodes with the same inputs; returns the first. */
static uint16_t add(struct build *b, enum iq_op_id op, uint32_t layer, uint32_t rank, uint16_t flags,
                    const uint32_t *widths, const uint16_t *inputs, uint16_t n_inputs)
{
    struct iq_graph *g = b->g;
    uint16_t first = (uint16_t)g->nodes;
    const char *const *point = iq_op_points(op);
    unsigned p = 0;
    for (; point[p] && widths[p]; p++) {
        struct iq_node *n = &g->node[g->nodes++];
        *n = (struct iq_node){
            .layer = (uint16_t)layer, .rank = (uint16_t)rank, .flags = flags, .width = widths[p]};
        snprintf(n->op, sizeof n->op, "%s", iq_op_name(op));
        snprintf(n->kind, sizeof n->kind, "%s", iq_op_kind(op)->name);
        snprintf(n->point, sizeof n->point, "%s", point[p]);
        n->inputs = n_inputs <= IQ_NODE_INPUTS ? n_inputs : 0;
        if (n->inputs) memcpy(n->input, inputs, n->inputs * sizeof *inputs);
        add_weights(b, op, n);
    }
    uint16_t *slot_first = &g->first[op * (g->layers + 1) + (layer == IQ_NO_LAYER ? 0 : layer + 1)];
    if (rank == IQ_WHOLE || rank == 0) *slot_first = first;
    bool digested = b->level >= IQ_LEVEL_OPS || (flags & (IQ_NODE_CHAIN | IQ_NODE_LOGITS));
    if (op == IQ_OP_FINAL_NORM) digested = b->level >= IQ_LEVEL_OPS;
    /* What the weights are, and what the sampling ops return, is digested by the engine: of candidates the first IQ_TOP candidates, whatever k the run has. */
    bool sampling = op == IQ_OP_WEIGHTS || op == IQ_OP_MASK || op == IQ_OP_TEMPER || op == IQ_OP_TOPK ||
                    op == IQ_OP_SAMPLE || (flags & IQ_NODE_CONTROL);
    struct iq_slot *slot = iq_slots_at(b->slots, op, layer, rank == IQ_WHOLE ? 0 : rank);
    iq_slot_points(slot, first, (uint16_t)p, digested && !sampling ? (1u << p) - 1 : 0);
    return first;
}

static uint16_t one(struct build *b, enum iq_op_id op, uint32_t layer, uint16_t flags, uint32_t width,
                    uint16_t input)
{
    return add(b, op, layer, IQ_WHOLE, flags, (uint32_t[]){width, 0}, &input, 1);
}

/* A row-parallel product and the reduction that finishes it. */
static uint16_t reduced(struct build *b, enum iq_op_id product, enum iq_op_id reduce, uint32_t layer,
                        uint16_t input)
{
    uint32_t tp = b->m->tp, width = b->m->config.hidden;
    const struct iq_shard *shard = product == IQ_OP_ATTN_OUT ? b->m->attn : b->m->ffn;
    uint16_t piece[IQ_NODE_INPUTS];
    uint32_t pieces = 0;
    for (uint32_t r = 0; r < tp; r++) {
        uint32_t widths[IQ_SHARD_NODES + 1] = {0};
        for (uint32_t p = 0; p < shard[r].nodes; p++) widths[p] = width;
        uint16_t at = add(b, product, layer, tp == 1 ? IQ_WHOLE : r, 0, widths, &input, 1);
        for (uint32_t p = 0; p < shard[r].nodes; p++, pieces++)
            if (pieces < IQ_NODE_INPUTS) piece[pieces] = (uint16_t)(at + p);
    }
    if (pieces > IQ_NODE_INPUTS) return one(b, reduce, layer, 0, width, input);
    return add(b, reduce, layer, IQ_WHOLE, 0, (uint32_t[]){width, 0}, piece, (uint16_t)pieces);
}

/* Several ranks' slots share the nodes of the rows that they write together; these are digested once all ranks have run
 * (iq_forward), not by the slots. */
static void share(struct build *b, enum iq_op_id op, uint32_t layer)
{
    const struct iq_slot *whole = iq_slots_at(b->slots, op, layer, 0);
    uint16_t node = whole->node, points = whole->points;
    uint32_t ranks = iq_graph_ranks(b->m, op);
    for (uint32_t r = 0; r < ranks && ranks > 1; r++)
        iq_slot_points(iq_slots_at(b->slots, op, layer, r), node, points, 0);
}

/* What adapters add to the points from `base` on, which were made of x; base itself where the run has none. */
static uint16_t adapted(struct build *b, enum iq_op_id op, uint32_t l, const uint32_t *widths, uint16_t base,
                        uint16_t x)
{
    uint16_t inputs[2] = {base, x};
    if (!b->uses.adapters) return base;
    uint16_t first = add(b, op, l, IQ_WHOLE, 0, widths, inputs, 2);
    for (uint32_t p = 1; widths[p]; p++) b->g->node[first + p].input[0] = (uint16_t)(base + p);
    return first;
}

static uint16_t add_dense(struct build *b, uint32_t l, uint16_t norm)
{
    uint32_t ffn = b->m->config.ffn;
    uint16_t gu = add(b, IQ_OP_GATE_UP, l, IQ_WHOLE, 0, (uint32_t[]){ffn, ffn, 0}, &norm, 1);
    share(b, IQ_OP_GATE_UP, l);
    gu = adapted(b, IQ_OP_LORA_GATE_UP, l, (uint32_t[]){ffn, ffn, 0}, gu, norm);
    uint16_t act_in[2] = {gu, (uint16_t)(gu + 1)};
    uint16_t act = add(b, IQ_OP_ACT, l, IQ_WHOLE, 0, (uint32_t[]){ffn, 0}, act_in, 2);
    uint16_t down = reduced(b, IQ_OP_DOWN, IQ_OP_FFN_REDUCE, l, act);
    return adapted(b, IQ_OP_LORA_DOWN, l, (uint32_t[]){b->m->config.hidden, 0}, down, act);
}

/* Widths are those of a position: all its slots, one after the other. */
static uint16_t add_experts(struct build *b, uint32_t l, uint16_t norm)
{
    const struct iq_model_config *c = &b->m->config;
    uint32_t k = c->active, hidden = k * c->hidden, ffn = k * c->ffn;
    uint16_t logits = one(b, IQ_OP_ROUTER, l, 0, c->experts, norm);
    uint16_t route = add(b, IQ_OP_ROUTE, l, IQ_WHOLE, 0, (uint32_t[]){k, k, 0}, &logits, 1);
    uint16_t owner = one(b, IQ_OP_DISPATCH, l, 0, k, route);
    uint16_t send_in[2] = {norm, owner};
    uint16_t send = add(b, IQ_OP_EXPERT_SEND, l, IQ_WHOLE, 0, (uint32_t[]){hidden, 0}, send_in, 2);
    uint16_t gu_in[2] = {send, owner};
    uint16_t gu = add(b, IQ_OP_EXPERT_GATE_UP, l, IQ_WHOLE, 0, (uint32_t[]){ffn, ffn, 0}, gu_in, 2);
    share(b, IQ_OP_EXPERT_GATE_UP, l);
    uint16_t act_in[2] = {gu, (uint16_t)(gu + 1)};
    uint16_t act = add(b, IQ_OP_EXPERT_ACT, l, IQ_WHOLE, 0, (uint32_t[]){ffn, 0}, act_in, 2);
    uint16_t down_in[2] = {act, owner};
    uint16_t down = add(b, IQ_OP_EXPERT_DOWN, l, IQ_WHOLE, 0, (uint32_t[]){hidden, 0}, down_in, 2);
    share(b, IQ_OP_EXPERT_DOWN, l);
    uint16_t return_in[2] = {down, owner};
    uint16_t back = add(b, IQ_OP_EXPERT_RETURN, l, IQ_WHOLE, 0, (uint32_t[]){hidden, 0}, return_in, 2);
    uint16_t combine_in[3] = {back, (uint16_t)(route + 1), owner};
    return add(b, IQ_OP_COMBINE, l, IQ_WHOLE, 0, (uint32_t[]){c->hidden, 0}, combine_in, 3);
}

static uint16_t add_layer(struct build *b, uint32_t l, uint16_t res)
{
    const struct iq_model_config *c = &b->m->config;
    uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim;
    if (b->uses.weights) add(b, IQ_OP_WEIGHTS, l, IQ_WHOLE, 0, (uint32_t[]){1, 0}, NULL, 0);
    uint16_t norm = one(b, IQ_OP_ATTN_NORM, l, 0, c->hidden, res);
    uint16_t qkv = add(b, IQ_OP_QKV, l, IQ_WHOLE, 0, (uint32_t[]){qw, kw, kw, 0}, &norm, 1);
    share(b, IQ_OP_QKV, l);
    qkv = adapted(b, IQ_OP_LORA_QKV, l, (uint32_t[]){qw, kw, kw, 0}, qkv, norm);
    uint16_t qk[2] = {qkv, (uint16_t)(qkv + 1)};
    if (c->qk_norm) {
        qk[0] = one(b, IQ_OP_Q_NORM, l, 0, qw, qk[0]);
        qk[1] = one(b, IQ_OP_K_NORM, l, 0, kw, qk[1]);
    }
    uint16_t rope = add(b, IQ_OP_ROPE, l, IQ_WHOLE, 0, (uint32_t[]){qw, kw, 0}, qk, 2);
    b->g->node[rope].inputs = 1; /* each point has its own input */
    b->g->node[rope + 1].inputs = 1;
    b->g->node[rope + 1].input[0] = qk[1];
    uint16_t kv_in[2] = {(uint16_t)(rope + 1), (uint16_t)(qkv + 2)};
    uint16_t kv =
        add(b, IQ_OP_KV_WRITE, l, IQ_WHOLE, IQ_NODE_CHAIN | IQ_NODE_KV, (uint32_t[]){kw, kw, 0}, kv_in, 2);
    b->g->node[kv].inputs = 1;
    b->g->node[kv + 1].inputs = 1;
    b->g->node[kv + 1].input[0] = kv_in[1];
    uint16_t att = one(b, IQ_OP_ATTENTION, l, IQ_NODE_READS_KV, qw, rope);
    share(b, IQ_OP_ATTENTION, l);
    uint16_t out = reduced(b, IQ_OP_ATTN_OUT, IQ_OP_ATTN_REDUCE, l, att);
    uint16_t add_in[2] = {res, adapted(b, IQ_OP_LORA_OUT, l, (uint32_t[]){c->hidden, 0}, out, att)};
    res = add(b, IQ_OP_ATTN_ADD, l, IQ_WHOLE, IQ_NODE_CHAIN, (uint32_t[]){c->hidden, 0}, add_in, 2);
    norm = one(b, IQ_OP_FFN_NORM, l, 0, c->hidden, res);
    uint16_t ffn_in[2] = {res, c->experts ? add_experts(b, l, norm) : add_dense(b, l, norm)};
    return add(b, IQ_OP_FFN_ADD, l, IQ_WHOLE, IQ_NODE_CHAIN, (uint32_t[]){c->hidden, 0}, ffn_in, 2);
}

void iq_graph_neighbours(const struct iq_model_config *c, struct iq_uses uses, enum iq_op_id prev[IQ_OPS],
                         enum iq_op_id next[IQ_OPS])
{
    uint16_t before = IQ_OP_NONE;
    for (int op = 0; op < IQ_OPS; op++) prev[op] = next[op] = IQ_OP_NONE;
    for (int op = IQ_OP_EMBED; op < IQ_OPS; op++) {
        if (!iq_graph_has(c, uses, (enum iq_op_id)op)) continue;
        /* In a step's head only when a row asks for it: iq_forward says so then. */
        if (op == IQ_OP_MASK || op == IQ_OP_TEMPER) continue;
        prev[op] = before;
        if (before != IQ_OP_NONE) next[before] = (enum iq_op_id)op;
        before = (uint16_t)op;
    }
}

int iq_graph_open(const struct iq_model *m, struct iq_uses uses, enum iq_level level, struct iq_slots *slots,
                  struct iq_graph *g, struct iq_err *err)
{
    const struct iq_model_config *c = &m->config;
    size_t pieces = 0;
    for (uint32_t r = 0; r < m->tp; r++) pieces += m->attn[r].nodes + m->ffn[r].nodes;
    size_t cap = (size_t)c->layers * ((c->experts ? 29 : 30) + pieces) + 10;
    *g = (struct iq_graph){.layers = c->layers};
    if (cap > 60000)
        return iq_fail(err, IQ_LIMIT, "the graph has about %zu nodes (layers %u, ranks %u); at most 60000",
                       cap, c->layers, m->tp);
    g->node = calloc(cap, sizeof *g->node);
    g->first = calloc((size_t)IQ_OPS * (c->layers + 1), sizeof *g->first);
    g->chain = calloc(4 * (size_t)c->layers + 1, sizeof *g->chain);
    g->kept = calloc(cap, sizeof *g->kept);
    if (!g->node || !g->first || !g->chain || !g->kept) {
        iq_graph_close(g);
        return iq_fail(err, IQ_MEMORY, "no memory for the graph's %zu nodes", cap);
    }
    struct build b = {m, uses, g, slots, level, (uint32_t)cap};
    add(&b, IQ_OP_PREFIX, IQ_NO_LAYER, IQ_WHOLE, IQ_NODE_CONTROL, (uint32_t[]){1, 0}, NULL, 0);
    if (uses.weights) add(&b, IQ_OP_WEIGHTS, IQ_NO_LAYER, IQ_WHOLE, 0, (uint32_t[]){1, 0}, NULL, 0);
    uint16_t res = add(&b, IQ_OP_EMBED, IQ_NO_LAYER, IQ_WHOLE, 0, (uint32_t[]){c->hidden, 0}, NULL, 0);
    for (uint32_t l = 0; l < c->layers; l++) res = add_layer(&b, l, res);
    res = one(&b, IQ_OP_FINAL_NORM, IQ_NO_LAYER, IQ_NODE_LOGITS, c->hidden, res);
    uint16_t logits = one(&b, IQ_OP_LM_HEAD, IQ_NO_LAYER, IQ_NODE_LOGITS, c->vocab, res);
    if (uses.mask) logits = one(&b, IQ_OP_MASK, IQ_NO_LAYER, IQ_NODE_LOGITS, c->vocab, logits);
    uint16_t temper = one(&b, IQ_OP_TEMPER, IQ_NO_LAYER, IQ_NODE_LOGITS, c->vocab, logits);
    uint16_t topk = one(&b, IQ_OP_TOPK, IQ_NO_LAYER, IQ_NODE_LOGITS, IQ_TOP, temper);
    add(&b, IQ_OP_SAMPLE, IQ_NO_LAYER, IQ_WHOLE, IQ_NODE_LOGITS, (uint32_t[]){1, 0},
        (uint16_t[]){temper, topk}, 2);
    for (uint32_t i = 0; i < g->nodes; i++) {
        uint16_t flags = g->node[i].flags;
        if (flags & IQ_NODE_CHAIN) g->chain[g->chains++] = (uint16_t)i;
        if (!(flags & (IQ_NODE_LOGITS | IQ_NODE_CONTROL)) &&
            (level >= IQ_LEVEL_OPS || (flags & IQ_NODE_CHAIN)))
            g->kept[g->kepts++] = (uint16_t)i;
    }
    iq_graph_neighbours(c, uses, g->prev, g->next);
    return IQ_OK;
}

void iq_graph_close(struct iq_graph *g)
{
    free(g->node);
    free(g->first);
    free(g->chain);
    free(g->kept);
    *g = (struct iq_graph){0};
}
