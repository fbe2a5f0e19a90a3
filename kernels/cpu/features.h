/* What this processor and its operating system can run. Asked once, then a load; safe from any thread. */
#ifndef IQ_CPU_FEATURES_H
#define IQ_CPU_FEATURES_H

#include <stdbool.h>

bool iq_cpu_has_avx2(void);   /* with FMA and F16C */
bool iq_cpu_has_avx512(void); /* F, BW, VL, DQ, and what iq_cpu_has_avx2 asks for */

#endif
