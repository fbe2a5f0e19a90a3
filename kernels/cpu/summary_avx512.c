#define SUMMARY iq__logits_summary_avx512
#include "kernels/cpu/summary_kernels.h"
