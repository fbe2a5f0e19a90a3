#include "kernels/cpu/vec_avx2.h"

#include "kernels/cpu/features.h"
#include "kernels/cpu/sample_kernels.h"
#include "kernels/cpu/topk_kernels.h"

const struct iq_variant iq__topk_avx2 = {.kind = "topk",
                                         .name = IQ_ISA_NAME,
                                         .device = "cpu",
                                         .flags = IQ_V_GOLDEN,
                                         .run = topk_run,
                                         .usable = iq_cpu_has_avx2};
const struct iq_variant iq__sample_avx2 = {.kind = "sample",
                                           .name = IQ_ISA_NAME,
                                           .device = "cpu",
                                           .flags = IQ_V_GOLDEN,
                                           .run = sample_run,
                                           .usable = iq_cpu_has_avx2};
