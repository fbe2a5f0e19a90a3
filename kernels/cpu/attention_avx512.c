#include "kernels/cpu/vec_avx512.h"

#include "kernels/cpu/attention_kernels.h"
#include "kernels/cpu/features.h"

const struct iq_variant iq__attention_avx512 = {
    .kind = "attention",
    .name = IQ_ISA_NAME,
    .device = "cpu",
    .flags = IQ_V_GOLDEN,
    .run = run,
    .usable = iq_cpu_has_avx512,
};
