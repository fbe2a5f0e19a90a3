/* The comparator's judge: a suspect op of a recorded run, in vitro.
 *
 * golden never runs a kernel; what it suspects is run here, with the variant and parameters that the subject's manifest
 * names, on made-up operands of the recorded model's shapes (kernels/vitro.h). A judge holds what a manifest says.
 */
#ifndef IQ_HARNESS_JUDGE_H
#define IQ_HARNESS_JUDGE_H

#include "golden/compare.h"
#include "harness/plan/plan.h"

struct iq_judge {
    struct iq_plan plan;
    struct iq_settings settings;
    uint64_t hidden, ffn, heads, kv_heads, head_dim, vocab, experts, active;
    char weights[16]; /* format of the layers' matrices */
    struct iq_err
        unread; /* why the plan can't be made again here (a library is gone): its faults stay unjudged */
};

/* Reads the subject's manifest; fields that are not there leave the ops unjudged. */
int iq_judge_open(const char *manifest, size_t len, struct iq_judge *, struct iq_err *err);
void iq_judge_close(struct iq_judge *);
/* An iq_vitro_fn; ctx is the judge. */
int iq_judge_suspect(void *ctx, const struct iq_suspect *, struct iq_vitro_result *out, struct iq_err *err);

#endif
