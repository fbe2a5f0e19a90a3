/* A replay as text or as JSON: its arms with what was predicted and found, the post-mortem of the first arm, one line
 * of verdict. Made of nothing but the replay. */
#ifndef IQ_HARNESS_REPLAY_REPORT_H
#define IQ_HARNESS_REPLAY_REPORT_H

#include "harness/incidents/replay.h"

void iq_replay_text(const struct iq_replay *, const char *model, struct iq_buf *out);
/* {name, id, title, source, story, model, golden: [run ids], arms: [{name, what, run, settings, plan, label, numerics,
 * effect, guilty, trigger, changed, fired, finding, predictions: [{field, expected, found, held}], held}], held,
 * postmortem} */
void iq_replay_json(const struct iq_replay *, const char *model, struct iq_buf *out);

#endif
