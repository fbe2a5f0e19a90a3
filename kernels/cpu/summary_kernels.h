/* What summary.h says, in plain loops that a compiler turns into vectors: a file per instruction set includes this with
 * SUMMARY, the name of its function, defined. */
#include "kernels/arith.h"
#include "kernels/summary.h"

static void insert(struct iq_position *p, uint32_t *n, uint32_t id, float logit)
{
    uint32_t at = *n < IQ_TOP ? (*n)++ : IQ_TOP - 1;
    for (; at && logit > p->top_logit[at - 1]; at--) {
        p->top_id[at] = p->top_id[at - 1];
        p->top_logit[at] = p->top_logit[at - 1];
    }
    p->top_id[at] = id;
    p->top_logit[at] = logit;
}

/* The best logits from the row itself: the top-k op may be the one that is wrong. Whole runs of ids without a candidate
 * are passed over. */
static void best_logits(const float *logits, uint32_t vocab, struct iq_position *p)
{
    enum { RUN = 64 };
    uint32_t n = 0;
    for (uint32_t at = 0; at < vocab; at += RUN) {
        uint32_t end = vocab - at < RUN ? vocab : at + RUN;
        float floor = p->top_logit[IQ_TOP - 1];
        int any = n < IQ_TOP;
        for (uint32_t i = at; i < end; i++) any |= logits[i] > floor;
        for (uint32_t i = at; any && i < end; i++)
            if (n < IQ_TOP || logits[i] > p->top_logit[IQ_TOP - 1]) insert(p, &n, i, logits[i]);
    }
    p->margin = n > 1 ? p->top_logit[0] - p->top_logit[1] : 0;
}

/* exp for x <= 0, within 4e-6 relative: plain float steps that a compiler turns into vectors of any width without
 * changing a bit. It serves the tail alone, which is a measure and enters no digest. */
static inline float rough_exp(float x)
{
    int32_t size = (int32_t)(iq_f32_bits(x) & 0x7fffffff),
            most = 0x42ae0000; /* |x|, at most 87: an integer minimum */
    float t = iq_bits_f32((uint32_t)(size < most ? size : most)) * -1.44269504f;
    float shifted = t + 0x1.8p23f, f = t - (shifted - 0x1.8p23f);
    float p = 1.5403530e-4f;
    p = p * f + 1.3333558e-3f;
    p = p * f + 9.6181291e-3f;
    p = p * f + 5.5504109e-2f;
    p = p * f + 2.4022651e-1f;
    p = p * f + 6.9314718e-1f;
    p = p * f + 1.0f;
    return iq_bits_f32(iq_f32_bits(p) + (iq_f32_bits(shifted) << 23)); /* times 2^whole */
}

/* The probability mass outside the kept logits. */
static float tail_mass(const float *logits, uint32_t vocab, const struct iq_position *p)
{
    enum { LANES = 16 };
    float lane[LANES] = {0}, all = 0, kept = 0, most = p->top_logit[0];
    uint32_t whole = vocab / LANES * LANES, n = vocab < IQ_TOP ? vocab : IQ_TOP;
    for (uint32_t i = 0; i < whole; i += LANES)
        for (uint32_t l = 0; l < LANES; l++) lane[l] += rough_exp(logits[i + l] - most);
    for (uint32_t i = whole; i < vocab; i++) all += rough_exp(logits[i] - most);
    for (uint32_t l = 0; l < LANES; l++) all += lane[l];
    for (uint32_t i = 0; i < n; i++) kept += rough_exp(p->top_logit[i] - most);
    return kept < all ? 1 - kept / all : 0;
}

void SUMMARY(const float *logits, uint32_t vocab, struct iq_position *p)
{
    best_logits(logits, vocab, p);
    p->tail = tail_mass(logits, vocab, p);
}
