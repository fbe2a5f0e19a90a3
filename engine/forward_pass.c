/* What every op of a forward pass has in common: its site, its failure, the digests of rows that ranks share; and the ops
 * that several blocks have. */
#include "engine/forward_parts.h"

#include "kernels/cuda/device.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/vector.h"

/* The head's ops as this step has them: mask and temper only where a row asks for them. */
static enum iq_op_id before(const struct iq__pass *p, enum iq_op_id op)
{
    if (op == IQ_OP_TOPK && p->w->temper) return IQ_OP_TEMPER;
    if (op != IQ_OP_MASK && p->w->mask) return IQ_OP_MASK;
    return IQ_OP_LM_HEAD;
}

static enum iq_op_id behind(const struct iq__pass *p, enum iq_op_id op)
{
    if (op == IQ_OP_LM_HEAD && p->w->mask) return IQ_OP_MASK;
    if (op != IQ_OP_TEMPER && p->w->temper) return IQ_OP_TEMPER;
    return IQ_OP_TOPK;
}

static struct iq_site site_of(const struct iq__pass *p, enum iq_op_id op, uint32_t rank)
{
    const struct iq_graph *g = p->f->graph;
    struct iq_site s = {.op = (uint16_t)op,
                        .layer = (uint16_t)p->layer,
                        .rank = (uint16_t)rank,
                        .prev_op = (uint16_t)g->prev[op],
                        .next_op = (uint16_t)g->next[op],
                        .step = &p->b->step,
                        .row = p->row,
                        .rows = p->known,
                        .slot = iq_slots_at(p->f->slots, op, p->layer, rank)};
    bool asked = op == IQ_OP_MASK || op == IQ_OP_TEMPER;
    if (asked || op == IQ_OP_TOPK) s.prev_op = (uint16_t)before(p, op);
    if (asked || op == IQ_OP_LM_HEAD) s.next_op = (uint16_t)behind(p, op);
    return s;
}

const char *iq__pass_reason(const struct iq__pass *p, int status)
{
    const struct iq_cuda *c = p->f->exec.cuda;
    return c && c->err.status ? c->err.text : iq_status_text(status);
}

int iq__pass_run(const struct iq__pass *p, enum iq_op_id op, uint32_t rank, const void *args)
{
    struct iq_site site = site_of(p, op, rank);
    int status = iq_dispatch(&p->f->exec, &site, args);
    unsigned long long step = p->b->step.step;
    if (status == IQ_OK) return IQ_OK;
    if (op == IQ_OP_SAMPLE && status == IQ_NOT_FOUND) return iq__forward_no_token(&p->b->step, p->err);
    if (p->layer == IQ_NO_LAYER)
        return iq_fail(p->err, status, "step %llu: %s failed: %s", step, iq_op_name(op),
                       iq__pass_reason(p, status));
    return iq_fail(p->err, status, "step %llu: %s of layer %u, rank %u failed: %s", step, iq_op_name(op),
                   p->layer, rank, iq__pass_reason(p, status));
}

int iq__pass_tap(const struct iq__pass *p, enum iq_op_id op, unsigned point, const float *y, size_t ld,
                 size_t n)
{
    const struct iq_graph *g = p->f->graph;
    uint16_t node = (uint16_t)(iq_graph_node(g, op, p->layer) + point);
    struct iq_site site = site_of(p, op, 0);
    if (iq_graph_ranks(p->f->model, op) == 1 || !p->f->traced) return IQ_OK;
    return iq_tap_whole(&p->f->exec, &site, p->rows, node, y, ld, n);
}

int iq__pass_norm(const struct iq__pass *p, enum iq_op_id op, const float *x, size_t ldx, const float *weight,
                  uint32_t groups, uint32_t n, float *y, size_t ldy)
{
    struct iq_rmsnorm a = {.rows = p->rows,
                           .groups = groups,
                           .n = n,
                           .act = p->f->act,
                           .eps = (float)p->f->model->config.norm_eps,
                           .x = x,
                           .weight = weight,
                           .y = y,
                           .ldx = ldx,
                           .ldy = ldy};
    return iq__pass_run(p, op, 0, &a);
}

int iq__pass_add(const struct iq__pass *p, enum iq_op_id op, int from, const float *b)
{
    struct iq_forward *f = p->f;
    size_t ld = f->model->config.hidden;
    struct iq_add a = {.rows = p->rows,
                       .n = (uint32_t)ld,
                       .act = f->act,
                       .a = f->res[from],
                       .b = b,
                       .y = f->res[!from],
                       .lda = ld,
                       .ldb = ld,
                       .ldy = ld};
    return iq__pass_run(p, op, 0, &a);
}
