/* A feed-forward, dense or an expert's: gate and up, SwiGLU, down; and back. */
#include "engine/train/parts.h"
#include "kernels/arith.h"
#include "kernels/ops/vector.h"

int iq__train_feed(struct iq_train *t, const struct iq__train_feed *f, float *y)
{
    const size_t d = t->recipe.hidden, n = t->recipe.ffn;
    struct iq_swiglu act = {.rows = (uint32_t)f->rows,
                            .n = t->recipe.ffn,
                            .act = IQ_ACT_F32,
                            .gate = f->gate_up,
                            .up = f->gate_up + n,
                            .y = f->act,
                            .ldg = 2 * n,
                            .ldu = 2 * n,
                            .ldy = n};
    IQ_TRY(iq__train_apply(t, f->rows, f->x, f->w_gate_up, 2 * n, d, IQ_UNIT, f->gate_up));
    IQ_TRY(t->swiglu->run(&t->exec, NULL, &act, NULL, NULL));
    return iq__train_apply(t, f->rows, f->act, f->w_down, d, n, iq_ffn_unit(t->recipe.ffn), y);
}

int iq__train_feed_back(struct iq_train *t, const struct iq__train_part *part, const struct iq__train_feed *f,
                        const float *dy, float *dx, float *dw_gate_up, float *dw_down)
{
    const size_t d = t->recipe.hidden, n = t->recipe.ffn;
    const struct iq__train_memory *m = &t->memory;
    struct iq_train_swiglu_back act = {.rows = (uint32_t)f->rows,
                                       .n = t->recipe.ffn,
                                       .gate = f->gate_up,
                                       .up = f->gate_up + n,
                                       .dy = m->dact,
                                       .dgate = m->dgate_up,
                                       .dup = m->dgate_up + n,
                                       .ld = 2 * n,
                                       .lddy = n};
    IQ_TRY(iq__train_weight_back(t, part, f->units, dy, f->act, d, n, dw_down));
    IQ_TRY(iq__train_input_back(t, f->rows, dy, f->w_down, d, n, m->dact));
    IQ_TRY(t->ops->swiglu_back(&t->exec, &act));
    IQ_TRY(iq__train_weight_back(t, part, f->units, m->dgate_up, f->x, 2 * n, d, dw_gate_up));
    return iq__train_input_back(t, f->rows, m->dgate_up, f->w_gate_up, 2 * n, d, dx);
}
