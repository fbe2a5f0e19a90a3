/* What a fault's variant does in vitro, and so what a trial that it changed is called. Judged once for a cell of the grid and
 * a guilty op, with the parameters of the cell's first trial: a verdict may not depend on which trial came first. */
#ifndef IQ_HARNESS_VERDICT_H
#define IQ_HARNESS_VERDICT_H

#include "harness/campaign/isolated.h"

struct iq_verdicts {
    struct iq_verdict *known;
    size_t n, cap;
};
void iq_verdicts_free(struct iq_verdicts *);
/* From what was seen of a trial to its row. `campaign`: the id, which trials' ids are made from. */
int iq_verdict_row(struct iq_verdicts *, const struct iq_ready *, const struct iq_context *,
                   const struct iq_armed_trial *, const struct iq_seen *, struct iq_trial_row *out,
                   struct iq_err *err);

#endif
