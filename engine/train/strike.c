/* The dispatch of the ops that a plan can strike. */
#include "engine/train/parts.h"

static struct iq_slot *slot_at(const struct iq_train *t, enum iq_op_id op)
{
    return iq_slots_at(t->slots, op, t->at_layer, 0);
}

int iq__train_dispatch(struct iq_train *t, enum iq_op_id op, uint32_t rows, const void *args)
{
    struct iq_site site = {.op = (uint16_t)op,
                           .layer = t->at_layer,
                           .rank = t->at_rank,
                           .prev_op = IQ_OP_NONE,
                           .next_op = IQ_OP_NONE,
                           .step = &t->at,
                           .rows = rows,
                           .slot = slot_at(t, op)};
    return iq_dispatch(&t->exec, &site, args);
}

bool iq__train_watched(const struct iq_train *t, enum iq_op_id op) { return slot_at(t, op)->watched; }

int iq__train_seed(struct iq_train *t, enum iq_op_id op, uint64_t given, uint64_t *seed)
{
    struct iq_seed a = {given, seed};
    return iq__train_dispatch(t, op, 1, &a);
}

static int choose_golden(struct iq_train *t, struct iq_err *err)
{
    static const char *const kinds[] = {"seed", "product", "all_reduce", "adamw"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const struct iq_variant *v = t->ops == &iq__train_reference
                                         ? iq_variant_find(kinds[i], "reference")
                                         : iq_variant_golden(kinds[i], t->ops->name);
        IQ_TRY(iq_slots_golden(t->slots, v, err));
    }
    return IQ_OK;
}

int iq__train_slots(struct iq_train *t, struct iq_err *err)
{
    t->at_layer = IQ_NO_LAYER;
    t->at_rank = IQ_WHOLE;
    IQ_TRY(iq_slots_open_training(t->recipe.layers, &t->slots, err));
    IQ_TRY(choose_golden(t, err));
    iq_slots_arm(t->slots, t->options.selector);
    iq_slots_tap(t->slots, t->options.tap);
    return IQ_OK;
}

void iq_train_disarm(struct iq_train *t)
{
    iq_slots_arm(t->slots, NULL);
    iq_slots_tap(t->slots, NULL);
}

int iq_train_data_seed(struct iq_train *t, uint64_t given, uint64_t *seed, struct iq_err *err)
{
    t->at = (struct iq_step){.step = t->step, .tp = 1};
    int rc = iq__train_seed(t, IQ_OP_DATA, given, seed);
    return rc == IQ_OK ? IQ_OK
                       : iq_fail(err, rc, "training: step %u: its data's seed could not be had", t->step);
}
