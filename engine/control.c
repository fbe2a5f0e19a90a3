#include "engine/control.h"

int iq_control_run(const struct iq_control *c, enum iq_op_id op, const struct iq_row *row, const void *args,
                   struct iq_err *err)
{
    struct iq_site site = {.op = (uint16_t)op,
                           .layer = IQ_NO_LAYER,
                           .prev_op = IQ_OP_NONE,
                           .next_op = IQ_OP_NONE,
                           .step = c->step,
                           .row = row,
                           .rows = 1,
                           .slot = iq_slots_at(c->slots, op, IQ_NO_LAYER, 0)};
    int status = iq_dispatch(c->exec, &site, args);
    return status == IQ_OK ? IQ_OK
                           : iq_fail(err, status, "step %llu: %s of request %u failed: %s",
                                     (unsigned long long)c->step->step, iq_op_name(op), row->request,
                                     iq_status_text(status));
}
