#define SUMMARY iq__logits_summary_avx2
#include "kernels/cpu/summary_kernels.h"
