/* What the adapters of a step's rows add to its products. */
#include "engine/forward_parts.h"

int iq__forward_adapt(const struct iq__pass *p, enum iq_op_id op, enum iq_target target, uint32_t parts,
                      const float *x, size_t ldx, const float *base, size_t ldb, const float **y)
{
    struct iq_forward *f = p->f;
    const struct iq_model_config *c = &f->model->config;
    uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim;
    const uint32_t widths[IQ_TARGETS] = {qw, kw, kw, c->hidden, c->ffn, c->ffn, c->hidden},
                   reads[IQ_TARGETS] = {c->hidden, c->hidden, c->hidden, qw, c->hidden, c->hidden, c->ffn};
    *y = base;
    if (!f->adapters) return IQ_OK;
    float *to = parts > 1 ? f->tuned_wide : f->tuned_sum;
    struct iq_lora a = {.rows = p->rows, .parts = parts, .act = f->act};
    for (uint32_t i = 0, at = 0; i < parts; at += widths[target + i], i++) {
        const struct iq_lora_pair **pair = f->pair + (size_t)i * f->max_rows;
        for (uint32_t r = 0; r < p->rows; r++) {
            const struct iq_adapter *of = p->b->adapter ? p->b->adapter[r] : NULL;
            pair[r] = of ? &of->pair[p->layer * IQ_TARGETS + target + i] : NULL;
        }
        a.part[i] = (struct iq_lora_part){.k = reads[target + i],
                                          .n = widths[target + i],
                                          .x = x,
                                          .base = base + at,
                                          .y = to + at,
                                          .ldx = ldx,
                                          .ldb = ldb,
                                          .ldy = ldb,
                                          .pair = pair};
    }
    *y = to;
    return iq__pass_run(p, op, 0, &a);
}
