/* What follows from a model's sizes for the operands of its ops. */
#include "harness/plan/world.h"

#include "kernels/base/cell.h"
#include "kernels/ops/reduce.h"

#include <stdio.h>
#include <string.h>

struct sizes {
    const char *name;
    uint64_t lo, hi; /* hi 0: nobody knows */
    const char *why;
};

static bool put(const struct sizes *of, const char *name, struct iq_domain *d)
{
    for (; of->name; of++) {
        if (strcmp(of->name, name) || !of->hi) continue;
        *d = iq_domain_range(of->lo, of->hi);
        snprintf(d->why, sizeof d->why, "%s", of->why);
        return true;
    }
    return false;
}

/* Candidates of a run: one number for all of its rows. */
static void candidates(const struct iq_plan_world *w, struct iq_domain *d)
{
    uint64_t k = w->settings->logits > IQ_TOP ? w->settings->logits : IQ_TOP;
    uint64_t asked = w->top_k.n ? w->top_k.v[w->top_k.n - 1] : 0;
    uint64_t most = w->model ? w->model->vocab : UINT32_MAX;
    k = asked > k ? asked : k;
    k = k < most ? k : most;
    *d = iq_domain_range(k, w->prompts ? k : most);
    snprintf(d->why, sizeof d->why, "the largest of %d, --logits and the prompts' top_k", IQ_TOP);
}

static uint64_t product_columns(const struct iq_model_config *c, enum iq_op_id op)
{
    return op == IQ_OP_DOWN ? c->ffn : op == IQ_OP_ATTN_OUT ? (uint64_t)c->heads * c->head_dim : c->hidden;
}

static uint64_t product_outputs(const struct iq_model_config *c, enum iq_op_id op)
{
    switch (op) {
    case IQ_OP_QKV:
        return (uint64_t)c->heads * c->head_dim;
    case IQ_OP_GATE_UP:
        return c->ffn;
    case IQ_OP_ROUTER:
        return c->experts;
    case IQ_OP_LM_HEAD:
        return c->vocab;
    default:
        return c->hidden;
    }
}

static void product(const struct iq_plan_world *w, enum iq_op_id op, const char *name, struct iq_domain *d)
{
    const struct iq_model_config *c = w->model;
    uint64_t n = product_outputs(c, op), k = product_columns(c, op);
    bool rows = op == IQ_OP_QKV || op == IQ_OP_GATE_UP, columns = op == IQ_OP_ATTN_OUT || op == IQ_OP_DOWN;
    bool ranks = w->settings->tp > 1; /* each has a part of the outputs, or of the columns */
    const struct sizes of[] = {
        {"n", rows && ranks ? 1 : n, n, "the model"}, {"k", columns && ranks ? 1 : k, k, "the model"}, {0}};
    put(of, name, d);
}

void iq_plan_world_operand(const struct iq_plan_world *w, enum iq_op_id op, const char *name,
                           struct iq_domain *d)
{
    const struct iq_model_config *c = w->model;
    const char *kind = iq_op_kind(op)->name;
    uint64_t tp = w->settings->tp, ep = w->settings->expert_parallel;
    bool chooses = !strcmp(kind, "topk") || !strcmp(kind, "sample");
    const struct sizes run[] = {
        {"shards", tp, tp, "--tp"},
        {"ranks", !strcmp(kind, "all_to_all") ? ep : tp, !strcmp(kind, "all_to_all") ? ep : tp, "ranks"},
        {"pieces", tp, tp == 1 ? 1 : IQ_REDUCE_PIECES, "--tp"},
        {0}};
    if (chooses && !strcmp(name, "k")) {
        candidates(w, d);
        return;
    }
    if (put(run, name, d) || !c) return;
    if (!strcmp(kind, "matmul")) {
        product(w, op, name, d);
        return;
    }
    bool norm = op == IQ_OP_Q_NORM || op == IQ_OP_K_NORM;
    const struct sizes model[] = {
        {"vocab", c->vocab, c->vocab, "the model"},
        {"hidden", c->hidden, c->hidden, "the model"},
        {"head_dim", c->head_dim, c->head_dim, "the model"},
        {"heads", tp > 1 ? 1 : c->heads, c->heads, "the model"},
        {"q_heads", c->heads, c->heads, "the model"},
        {"kv_heads", tp > 1 && !strcmp(kind, "attention") ? 1 : c->kv_heads, c->kv_heads, "the model"},
        {"experts", !strcmp(kind, "grouped_matmul") ? c->experts / ep : c->experts,
         !strcmp(kind, "grouped_matmul") ? c->experts / ep : c->experts, "the model"},
        {"slots", c->active, c->active, "the model"},
        {0}};
    const struct sizes routed[] = {{"k", c->active, c->active, "the model"}, {0}};
    const struct sizes normed[] = {
        {"n", norm ? c->head_dim : c->hidden, norm ? c->head_dim : c->hidden, "the model"}, {0}};
    const struct sizes reduced[] = {{"n", c->hidden, c->hidden, "the model"}, {0}};
    if (put(model, name, d)) return;
    if (op == IQ_OP_ROUTE || op == IQ_OP_DISPATCH || !strcmp(kind, "all_to_all") || op == IQ_OP_COMBINE)
        put(routed, name, d);
    if (!strcmp(kind, "rmsnorm")) put(normed, name, d);
    if (!strcmp(kind, "all_reduce") || op == IQ_OP_COMBINE) put(reduced, name, d);
}
