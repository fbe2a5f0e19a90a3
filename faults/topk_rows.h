/* A wrong top-k over the rows of a call, on the side where the op runs. */
#ifndef IQ_TOPK_ROWS_H
#define IQ_TOPK_ROWS_H

#include "faults/cuda/launch_faults.h"
#include "faults/topk_rules.h"
#include "kernels/cuda/device.h"
#include "kernels/exec.h"

/* Row r of a call; room: (entries) for what is found. */
typedef void iq__topk_row_fn(struct iq__team, const struct iq_topk *, uint32_t r, const void *rule,
                             uint64_t *room);

/* On the host fn runs for each row, and the pool's threads share the rows. IQ_MEMORY. */
int iq__topk_rows(struct iq_exec *, const struct iq_topk *, const void *rule, size_t entries,
                  iq__topk_row_fn *fn);
/* On a device: one launch. IQ_MEMORY; what the launch met. */
int iq__topk_queue(struct iq_exec *, const struct iq_topk *, const void *rule, size_t entries,
                   iq__topk_launch *);

/* The family `name` (k1, k2, k3) on either side. */
#define IQ__TOPK_RUN(name, x, a, rule, entries)                                                              \
    ((x)->cuda ? iq__topk_queue(x, a, rule, entries, IQ_CUDA_PICK((x)->cuda, name))                          \
               : iq__topk_rows(x, a, rule, entries, iq__##name##_row))

#endif
