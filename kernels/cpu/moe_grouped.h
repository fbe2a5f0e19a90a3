/* grouped_matmul by an instruction set's tiles of matmul (product.h). Internal to kernels/cpu. */
#ifndef IQ_CPU_MOE_GROUPED_H
#define IQ_CPU_MOE_GROUPED_H

#include "kernels/cpu/product.h"
#include "kernels/ops/moe.h"

/* IQ_MEMORY. */
int iq__grouped_run(const struct iq__tiles *, struct iq_exec *, const struct iq_grouped_matmul *);
/* As iq__product_supports. */
bool iq__grouped_supports(const struct iq_grouped_matmul *);

#endif
