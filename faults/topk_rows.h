/* What the top-k families share: a run over the rows of a call, a bounded heap, and writing a row. Entries
 * are (key, id) as in kernels/cpu/topk_order.h: the smaller is the better. */
#ifndef IQ_TOPK_ROWS_H
#define IQ_TOPK_ROWS_H

#include "kernels/exec.h"
#include "kernels/ops/sampling.h"

typedef void iq__topk_row_fn(const struct iq_topk *, uint32_t r, const void *params, void *scratch);

/* Calls fn for each row; the pool's threads share the rows, each with `scratch_bytes` of its own.
 * IQ_MEMORY. */
int iq__topk_rows(struct iq_exec *, const struct iq_topk *, const void *params, size_t scratch_bytes,
                  iq__topk_row_fn *fn);

/* The best `cap` of the entries that are pushed. */
struct iq__best {
    uint64_t *entry; /* (cap), a max-heap until sorted */
    uint32_t n, cap;
};
void iq__best_push(struct iq__best *, uint64_t entry);
void iq__best_sort(struct iq__best *); /* ascending: the best first */

/* Writes n <= k entries as row r, and pads the rest as kernels that come up short do: id 0 with minus
 * infinity. */
void iq__topk_write(const struct iq_topk *, uint32_t r, const uint64_t *entry, uint32_t n);

#endif
