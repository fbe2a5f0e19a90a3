/* One request as a line of JSON: what `run --json` prints. */
#ifndef IQ_HARNESS_REQUEST_LINE_H
#define IQ_HARNESS_REQUEST_LINE_H

#include "engine/engine.h"
#include "harness/plan/settings.h"

/* {id, prompt_ids, ids, text, finish, chain, steps: [{id, logit, margin, batch, top}]}. `top`: settings.logits
 * candidates. All logits are those before temperature. */
void iq_request_line(const struct iq_request_end *, const struct iq_output *, const struct iq_settings *,
                     struct iq_buf *out);

#endif
