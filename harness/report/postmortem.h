/* A finding as a post-mortem in plain text: verdict, where and how it began, what is guilty, what triggers it, what it
 * did to the answers, the evidence, and how to replay it. Made of nothing but the finding. */
#ifndef IQ_HARNESS_POSTMORTEM_H
#define IQ_HARNESS_POSTMORTEM_H

#include "golden/finding.h"

void iq_postmortem_text(const struct iq_finding *, struct iq_buf *out);
/* "batch in {3, 5, 6}", "tokens >= 10"; brief: "batch 3,5,6". */
void iq_trigger_text(const struct iq_trigger *, bool brief, struct iq_buf *out);

#endif
