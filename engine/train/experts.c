/* A block's mixture of experts: the engine's routing around feed-forwards that each have their rows side by side. */
#include "engine/train/parts.h"
#include "kernels/arith.h"

#include <string.h>

/* The rows of each slot, by expert. */
static void gather(const struct iq_train *t, const struct iq__train_layer *l)
{
    const size_t d = t->recipe.hidden, k = t->recipe.active;
    for (size_t i = 0; i < t->memory.rows * k; i++)
        memcpy(t->memory.gathered + i * d, l->h2 + l->list[i] / k * d, d * sizeof *l->h2);
}

static struct iq__train_feed feed_of(const struct iq_train *t, const struct iq__train_layer *l, uint32_t e)
{
    const size_t d = t->recipe.hidden, n = t->recipe.ffn, at = l->first[e];
    return (struct iq__train_feed){.rows = l->first[e + 1] - at,
                                   .units = t->memory.units,
                                   .x = t->memory.gathered + at * d,
                                   .w_gate_up = l->w_gate_up + e * 2 * n * d,
                                   .w_down = l->w_down + e * d * n,
                                   .gate_up = l->gate_up + at * 2 * n,
                                   .act = l->act + at * n};
}

static int route(struct iq_train *t, const struct iq__train_layer *l)
{
    const struct iq_train_recipe *r = &t->recipe;
    const uint32_t rows = (uint32_t)t->memory.rows;
    struct iq_route route = {.rows = rows,
                             .experts = r->experts,
                             .k = r->active,
                             .renormalise = true,
                             .logits = l->logits,
                             .ld = r->experts,
                             .expert = l->expert,
                             .weight = l->weight};
    struct iq_moe_dispatch dispatch = {.rows = rows,
                                       .experts = r->experts,
                                       .k = r->active,
                                       .expert = l->expert,
                                       .owner = t->memory.owner,
                                       .first = l->first,
                                       .list = l->list};
    IQ_TRY(iq__train_apply(t, rows, l->h2, l->w_router, r->experts, r->hidden, IQ_UNIT, l->logits));
    IQ_TRY(t->route->run(&t->exec, NULL, &route, NULL, NULL));
    IQ_TRY(t->dispatch->run(&t->exec, NULL, &dispatch, NULL, NULL));
    for (uint32_t i = 0; i < rows * r->active; i++) l->place[l->list[i]] = i;
    return IQ_OK;
}

int iq__train_experts(struct iq_train *t, const struct iq__train_layer *l)
{
    const struct iq_train_recipe *r = &t->recipe;
    struct iq__train_memory *m = &t->memory;
    const size_t d = r->hidden;
    struct iq_combine combine = {.rows = (uint32_t)m->rows,
                                 .n = r->hidden,
                                 .k = r->active,
                                 .act = IQ_ACT_F32,
                                 .x = m->by_slot,
                                 .weight = l->weight,
                                 .owner = m->owner,
                                 .y = m->branch,
                                 .ldy = d};
    IQ_TRY(route(t, l));
    gather(t, l);
    for (uint32_t e = 0; e < r->experts; e++) {
        struct iq__train_feed f = feed_of(t, l, e);
        if (f.rows) IQ_TRY(iq__train_feed(t, &f, l->served + l->first[e] * d));
    }
    for (size_t i = 0; i < m->rows * r->active; i++)
        memcpy(m->by_slot + l->list[i] * d, l->served + i * d, d * sizeof *l->served);
    return t->combine->run(&t->exec, NULL, &combine, NULL, NULL);
}

/* The way back through the experts: m->by_slot has, by expert, the gradients of what they gave, then of what they got. */
static int serve_back(struct iq_train *t, const struct iq__train_part *part, const struct iq__train_layer *l,
                      float *gradient)
{
    const struct iq_train_recipe *r = &t->recipe;
    const struct iq__train_memory *m = &t->memory;
    const size_t d = r->hidden, n = r->ffn, rows = (size_t)r->active * part->length;
    for (uint32_t e = 0; e < r->experts; e++) {
        const struct iq__train_feed f = feed_of(t, l, e);
        float *dy = m->by_slot + l->first[e] * d;
        memset(m->units, 0, part->sequences * sizeof *m->units);
        for (uint32_t i = l->first[e]; i < l->first[e + 1]; i++) m->units[l->list[i] / rows]++;
        IQ_TRY(iq__train_feed_back(t, part, &f, dy, dy, gradient + l->at_gate_up + e * 2 * n * d,
                                   gradient + l->at_down + e * d * n));
    }
    return IQ_OK;
}

int iq__train_experts_back(struct iq_train *t, const struct iq__train_part *part,
                           const struct iq__train_layer *l, float *gradient)
{
    const struct iq_train_recipe *r = &t->recipe;
    const struct iq__train_memory *m = &t->memory;
    const uint32_t rows = (uint32_t)m->rows;
    const double slots = (double)r->active * part->length;
    struct iq_train_combine_back combine = {.rows = rows,
                                            .k = r->active,
                                            .n = r->hidden,
                                            .place = l->place,
                                            .weight = l->weight,
                                            .x = l->served,
                                            .dy = m->dbranch,
                                            .dweight = m->dweight,
                                            .dx = m->by_slot};
    struct iq_train_route_back route = {
        .rows = rows,
        .unit = part->length,
        .experts = r->experts,
        .k = r->active,
        .scale = (float)(r->balance * r->experts / (slots * part->length * part->batch)),
        .logits = l->logits,
        .expert = l->expert,
        .weight = l->weight,
        .dweight = m->dweight,
        .dlogits = m->dlogits,
        .balance = part->balance};
    struct iq_train_dispatch_back dispatch = {
        .rows = rows, .k = r->active, .n = r->hidden, .place = l->place, .dy = m->by_slot, .dx = m->dh};
    IQ_TRY(t->ops->combine_back(&t->exec, &combine));
    gather(t, l);
    IQ_TRY(serve_back(t, part, l, gradient));
    IQ_TRY(t->ops->route_back(&t->exec, &route));
    IQ_TRY(iq__train_weight_back(t, part, NULL, m->dlogits, l->h2, r->experts, r->hidden,
                                 gradient + l->at_router));
    IQ_TRY(iq__train_input_back(t, rows, m->dlogits, l->w_router, r->experts, r->hidden, m->dh));
    return t->ops->dispatch_back(&t->exec, &dispatch);
}
