#include "kernels/cpu/vec_portable.h"

#include "kernels/cpu/sample_kernels.h"
#include "kernels/cpu/topk_kernels.h"

const struct iq_variant iq__topk_scalar = {
    .kind = "topk",
    .name = IQ_ISA_NAME,
    .device = "cpu",
    .flags = IQ_V_GOLDEN,
    .run = topk_run,
};
const struct iq_variant iq__sample_scalar = {
    .kind = "sample",
    .name = IQ_ISA_NAME,
    .device = "cpu",
    .flags = IQ_V_GOLDEN,
    .run = sample_run,
};
