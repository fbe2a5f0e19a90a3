/* Reference of lora. */
#include "kernels/ops/lora.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/sum_rule.h"
#include "kernels/tables.h"

#include <string.h>

static void adapt(const struct iq_lora_part *p, uint32_t r, const struct iq_lora_pair *w, uint32_t act,
                  float *sums)
{
    float low[IQ_LORA_RANK];
    for (uint32_t i = 0; i < w->rank; i++)
        low[i] = iq__sum_over_k(p->x + r * p->ldx, w->a + (size_t)i * p->k, p->k, IQ_UNIT, sums);
    for (uint32_t o = 0; o < p->n; o++) {
        float u = iq__sum_over_k(low, w->b + (size_t)o * w->rank, w->rank, IQ_UNIT, sums), s = w->scale * u;
        p->y[r * p->ldy + o] = iq_act_round(p->base[r * p->ldb + o] + s, act);
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_lora *a = args;
    (void)site, (void)params, (void)state;
    for (uint32_t i = 0; i < a->parts; i++) {
        const struct iq_lora_part *p = &a->part[i];
        size_t most = p->k > IQ_LORA_RANK ? p->k : IQ_LORA_RANK;
        float *sums = iq_exec_scratch(x, IQ__SUM_ROOM(most) * sizeof *sums);
        if (!sums) return IQ_MEMORY;
        for (uint32_t r = 0; r < a->rows; r++)
            if (p->pair[r] && p->pair[r]->rank)
                adapt(p, r, p->pair[r], a->act, sums);
            else
                memcpy(p->y + r * p->ldy, p->base + r * p->ldb, p->n * sizeof *p->y);
    }
    return IQ_OK;
}

static const struct iq_variant reference = {
    .kind = "lora", .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN, .run = run};

const struct iq_variant *const iq__variants_lora[] = {&reference, NULL};
