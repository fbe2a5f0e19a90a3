/* Faults and taps of a step on a device.
 *
 * The host can't look at rows while the stream runs, and a captured graph can't ask a trigger. So a step is walked twice.
 * Planning: each dispatch runs nothing and says what is watched: which picks strike which rows, which points are digested
 * where. Then the same dispatches run (or a graph that was captured from such a run is launched: its key says whether it
 * may be), and each watched op is followed by kernels that set rows aside, compare, restore and digest. After the stream has
 * been synchronized the report gives cells to the tap and firings to the log, in the order of the dispatches, with the bits
 * and counts that a CPU's dispatch gives at once.
 *
 *   plan -> (walk) -> ready -> (walk, or launch) -> fetch -> synchronize -> report
 */
#ifndef IQ_CUDA_WATCH_H
#define IQ_CUDA_WATCH_H

#include "kernels/cuda/device.h"
#include "kernels/dispatch.h"

/* Sets cuda->step, until iq_cuda_step_close. IQ_MEMORY. */
int iq_cuda_step_open(struct iq_cuda *, struct iq_err *err);
void iq_cuda_step_close(struct iq_cuda *);

void iq_cuda_step_plan(struct iq_cuda *);
bool iq_cuda_step_planning(const struct iq_cuda *);
/* Ends the plan: memory is there, and what the kernels read is on its way. */
int iq_cuda_step_ready(struct iq_cuda *);
/* Of all that a graph of this step depends on here: picks with their parameters and states, taps, places. */
struct iq_digest iq_cuda_step_key(const struct iq_cuda *);
/* Queues the way back. */
int iq_cuda_step_fetch(struct iq_cuda *);
int iq_cuda_step_report(struct iq_cuda *, const struct iq_slots *);

#endif
