/* Why a trigger did not hold: test by test, over the calls that asked. */
#include "faults/trigger_parts.h"

#include <inttypes.h>
#include <stdlib.h>

struct iq_tally *iq_tally_open(const struct iq_when *t)
{
    return calloc(1, sizeof(struct iq_tally) + t->n * sizeof(uint64_t));
}

static bool some_row(const struct iq_when *t, const struct iq__test *c, const struct iq_site *site,
                     const void *args)
{
    for (uint32_t r = 0; r < site->rows; r++)
        if (iq__test_holds(t, c, site, args, r)) return true;
    return false;
}

/* An op's numbers are read only where all that goes before holds, as a call itself would read them. */
void iq_trigger_tally(const struct iq_when *t, const struct iq_site *site, const void *args,
                      struct iq_tally *out)
{
    bool all = true;
    out->calls++;
    for (size_t i = 0; i < t->n; i++) {
        const struct iq__test *c = &t->test[i];
        if (c->value && c->value->reads && !all) continue;
        bool held = iq__test_of_row(c) ? some_row(t, c, site, args) : iq__test_holds(t, c, site, args, 0);
        out->held[i] += held;
        all &= held;
    }
    bool met = all && iq_trigger_call(t, site, args);
    for (uint32_t r = 0; met && r < site->rows; r++)
        if (iq_trigger_row(t, site, args, r)) {
            out->met++;
            return;
        }
}

void iq_trigger_say_tally(const struct iq_when *t, const struct iq_tally *tally, struct iq_buf *b)
{
    if (tally->met) {
        iq_buf_printf(b, "it held in %" PRIu64 " of %" PRIu64 " calls", tally->met, tally->calls);
        return;
    }
    iq_buf_printf(b, "of %" PRIu64 " calls, %s", tally->calls, t->n ? "" : "none had a row");
    for (size_t i = 0; i < t->n; i++) {
        iq_buf_printf(b, "%s", !i ? "" : i + 1 == t->n ? " and " : ", ");
        iq__trigger_say_test(t, &t->test[i], b);
        iq_buf_printf(b, tally->held[i] ? " in %" PRIu64 : " in none", tally->held[i]);
    }
    if (t->n > 1) iq_buf_printf(b, ", never all at once");
}
