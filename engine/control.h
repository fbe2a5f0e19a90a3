/* Control ops: how the engine asks for a decision (kernels/ops/blocks.h, requests.h, prefix.h). */
#ifndef IQ_ENGINE_CONTROL_H
#define IQ_ENGINE_CONTROL_H

#include "kernels/dispatch.h"

struct iq_control {
    struct iq_exec *exec;
    struct iq_slots *slots; /* of control ops */
    struct iq_step *step;   /* the step that is being formed */
};

/* One decision about the row's request. Fails with a sentence that names both. */
int iq_control_run(const struct iq_control *, enum iq_op_id, const struct iq_row *, const void *args,
                   struct iq_err *err);

#endif
