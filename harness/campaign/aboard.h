/* Trials that ride together (engine/ride.h): which may, and what was seen of them. */
#ifndef IQ_HARNESS_ABOARD_H
#define IQ_HARNESS_ABOARD_H

#include "harness/campaign/isolated.h"

/* Where it would join; false: it has to run by itself (no site; an op that can't be cut into rows; a context whose golden
 * can't be ridden). */
bool iq_aboard_start(const struct iq_context *, const struct iq_armed_trial *, struct iq_ride_start *out);
/* Runs trials (n) side by side in one process. seen[i] is filled and told[i] set for each that ended well; the others are
 * to be run by themselves. Errors are the harness's. */
int iq_aboard_run(const struct iq_grid *, const struct iq_context *, const struct iq_armed_trial *const *,
                  uint32_t n, struct iq_seen *seen, bool *told, struct iq_err *err);

#endif
