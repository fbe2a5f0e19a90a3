#include "kernels/cpu/vec_avx512.h"

#include "engine/train/fast/table.h"

TABLE(iq_cpu_has_avx512);
