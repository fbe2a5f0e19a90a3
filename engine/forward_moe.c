/* A layer's mixture of experts: the router's logits choose each row's experts, rows go to the ranks that own them, every
 * rank computes its own, rows come back and are combined. What belongs to a row's slots lies in the row. */
#include "engine/forward_parts.h"

#include "kernels/ops/matmul.h"
#include "kernels/ops/moe.h"
#include "kernels/ops/vector.h"

/* Which experts serve a row, with what weight, and who of them really does. */
static int choose(const struct iq__pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model_config *c = &f->model->config;
    const struct iq_matrix *router = &f->model->layer[p->layer].experts.router;
    const struct iq_matmul logits = {.rows = p->rows,
                                     .parts = 1,
                                     .act = IQ_ACT_F32,
                                     .x = f->h,
                                     .ldx = f->ld_h,
                                     .part = {{router, NULL, f->moe.logits, c->experts, 0}}};
    IQ_TRY(iq__pass_run(p, IQ_OP_ROUTER, 0, &logits));
    const struct iq_route route = {.rows = p->rows,
                                   .experts = c->experts,
                                   .k = c->active,
                                   .renormalise = c->renormalise,
                                   .logits = f->moe.logits,
                                   .ld = c->experts,
                                   .expert = f->moe.expert,
                                   .weight = f->moe.weight};
    IQ_TRY(iq__pass_run(p, IQ_OP_ROUTE, 0, &route));
    const struct iq_moe_dispatch dispatch = {.rows = p->rows,
                                             .experts = c->experts,
                                             .k = c->active,
                                             .expert = f->moe.expert,
                                             .owner = f->moe.owner,
                                             .first = f->moe.first,
                                             .list = f->moe.list};
    return iq__pass_run(p, IQ_OP_DISPATCH, 0, &dispatch);
}

static int exchange(const struct iq__pass *p, enum iq_op_id op, const float *x, size_t ldx, float *y)
{
    struct iq_forward *f = p->f;
    const struct iq_model_config *c = &f->model->config;
    const struct iq_all_to_all a = {.rows = p->rows,
                                    .n = c->hidden,
                                    .k = c->active,
                                    .experts = c->experts,
                                    .ranks = f->model->expert_parallel,
                                    .back = op == IQ_OP_EXPERT_RETURN,
                                    .x = x,
                                    .ldx = ldx,
                                    .owner = f->moe.owner,
                                    .y = y};
    return iq__pass_run(p, op, 0, &a);
}

/* Products of every rank's experts with the slots of x: y[i] = x w[i]^T, (rows, active, n). */
static int grouped(const struct iq__pass *p, enum iq_op_id op, const float *x, uint32_t parts,
                   struct iq_matrix *const w[], float *const y[])
{
    struct iq_forward *f = p->f;
    const struct iq_model *m = f->model;
    uint32_t own = m->config.experts / m->expert_parallel;
    for (uint32_t r = 0; r < m->expert_parallel; r++) {
        struct iq_grouped_matmul a = {.rows = p->rows,
                                      .slots = m->config.active,
                                      .parts = parts,
                                      .act = f->act,
                                      .expert0 = r * own,
                                      .experts = own,
                                      .x = x,
                                      .owner = f->moe.owner,
                                      .first = f->moe.first,
                                      .list = f->moe.list};
        for (uint32_t i = 0; i < parts; i++) a.part[i] = (struct iq_grouped_part){w[i] + r * own, y[i]};
        IQ_TRY(iq__pass_run(p, op, r, &a));
    }
    for (uint32_t i = 0; i < parts; i++) {
        size_t n = (size_t)m->config.active * w[i]->n;
        IQ_TRY(iq__pass_tap(p, op, i, y[i], n, n));
    }
    return IQ_OK;
}

int iq__forward_experts(const struct iq__pass *p)
{
    struct iq_forward *f = p->f;
    const struct iq_model_config *c = &f->model->config;
    const struct iq_expert_weights *w = &f->model->layer[p->layer].experts;
    size_t wide = (size_t)c->active * c->ffn;
    float *gate = f->wide, *up = f->wide + p->rows * wide, *down = f->part;
    IQ_TRY(choose(p));
    IQ_TRY(exchange(p, IQ_OP_EXPERT_SEND, f->h, f->ld_h, f->moe.slots));
    IQ_TRY(grouped(p, IQ_OP_EXPERT_GATE_UP, f->moe.slots, 2, (struct iq_matrix *[]){w->gate, w->up},
                   (float *[]){gate, up}));
    const struct iq_swiglu act = {.rows = p->rows,
                                  .n = (uint32_t)wide,
                                  .act = f->act,
                                  .gate = gate,
                                  .up = up,
                                  .y = f->mid,
                                  .ldg = wide,
                                  .ldu = wide,
                                  .ldy = wide};
    IQ_TRY(iq__pass_run(p, IQ_OP_EXPERT_ACT, 0, &act));
    IQ_TRY(grouped(p, IQ_OP_EXPERT_DOWN, f->mid, 1, (struct iq_matrix *[]){w->down}, (float *[]){down}));
    IQ_TRY(exchange(p, IQ_OP_EXPERT_RETURN, down, 0, f->moe.slots)); /* what was sent has been read */
    const struct iq_combine combine = {.rows = p->rows,
                                       .n = c->hidden,
                                       .k = c->active,
                                       .act = f->act,
                                       .x = f->moe.slots,
                                       .weight = f->moe.weight,
                                       .owner = f->moe.owner,
                                       .y = f->sum,
                                       .ldy = c->hidden};
    return iq__pass_run(p, IQ_OP_COMBINE, 0, &combine);
}
