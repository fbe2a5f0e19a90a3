#include "harness/report/fired_report.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void iq_fired_add(struct iq_fired *fired, size_t n, const struct iq_firing *r)
{
    if (r->fault >= n) return;
    fired[r->fault].times++;
    fired[r->fault].changed += r->rows_changed;
}

int iq_fired_slept(struct iq_fired *fired, size_t n, size_t fault, const char *why)
{
    if (fault >= n) return IQ_OK;
    free(fired[fault].slept);
    return (fired[fault].slept = strdup(why)) ? IQ_OK : IQ_MEMORY;
}

void iq_fired_free(struct iq_fired *fired, size_t n)
{
    for (size_t i = 0; fired && i < n; i++) free(fired[i].slept);
    free(fired);
}

int iq_fired_read(struct iq_fired *fired, size_t n, const struct iq_trace *t, struct iq_err *err)
{
    struct iq_firing r;
    int rc;
    for (uint64_t seq = 0; (rc = t->firing(t->self, seq, &r, err)) == IQ_OK; seq++)
        iq_fired_add(fired, n, &r);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

void iq_fired_text(const struct iq_plan *p, const struct iq_fired *fired, struct iq_buf *out)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct iq_fault *f = &p->fault[i];
        if (fired[i].changed || iq_fault_is_workaround(f)) continue;
        const char *op = f->op == IQ_OP_NONE ? f->kind->name : iq_op_name(f->op);
        iq_buf_printf(out, "fault %zu (%s %s): ", i, op, f->variant->name);
        if (fired[i].times)
            iq_buf_printf(out, "fired %" PRIu64 " times, no bit changed", fired[i].times);
        else
            iq_buf_printf(out, "never fired; %s", fired[i].slept ? fired[i].slept : "check its `when`");
        if (f->variant->needs) iq_buf_printf(out, "; it needs %s", f->variant->needs);
        iq_buf_put(out, "\n", 1);
    }
}
