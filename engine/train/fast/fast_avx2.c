#include "kernels/cpu/vec_avx2.h"

#include "engine/train/fast/table.h"

TABLE(iq_cpu_has_avx2);
