#define SUMMARY iq__logits_summary_scalar
#include "kernels/cpu/summary_kernels.h"

#include "kernels/cpu/features.h"

void iq_logits_summary(const float *logits, uint32_t vocab, struct iq_position *p)
{
#if defined __x86_64__
    if (iq_cpu_has_avx512()) return iq__logits_summary_avx512(logits, vocab, p);
    if (iq_cpu_has_avx2()) return iq__logits_summary_avx2(logits, vocab, p);
#endif
    iq__logits_summary_scalar(logits, vocab, p);
}
