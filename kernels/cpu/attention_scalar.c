#include "kernels/cpu/vec_portable.h"

#include "kernels/cpu/attention_kernels.h"

const struct iq_variant iq__attention_scalar = {
    .kind = "attention",
    .name = IQ_ISA_NAME,
    .device = "cpu",
    .flags = IQ_V_GOLDEN,
    .run = run,
};
