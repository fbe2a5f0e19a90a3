/* A product's sum as a stack program (kernels/sum_plan.h), its units even or not. Internal to engine/train. */
#ifndef IQ_TRAIN_PLAN_H
#define IQ_TRAIN_PLAN_H

#include "engine/train/ops.h"
#include "kernels/sum_plan.h"

uint32_t iq__train_steps(const struct iq_train_product *);
/* Entries that the stack never exceeds. */
uint32_t iq__train_levels(const struct iq_train_product *);
/* step: (steps); one of an empty unit has no columns. */
void iq__train_plan(const struct iq_train_product *, struct iq__sum_step *step);

#endif
