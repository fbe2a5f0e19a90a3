/* Every variant that a plan may name: those of the kernels, of NVIDIA's libraries, and the wrong ones. */
#ifndef IQ_HARNESS_VARIANTS_H
#define IQ_HARNESS_VARIANTS_H

#include "kernels/base/status.h"

int iq_variants_register(struct iq_err *err); /* idempotent */

#endif
