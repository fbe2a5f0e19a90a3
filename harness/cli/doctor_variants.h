/* Whether a variant that was built otherwise than its reference differs from it here, in vitro: on exact data, on random data,
 * and on NaN, infinities, subnormals and ties. */
#ifndef IQ_HARNESS_DOCTOR_VARIANTS_H
#define IQ_HARNESS_DOCTOR_VARIANTS_H

#include "harness/cli/out.h"
#include "kernels/base/json.h"
#include "kernels/op.h"

/* Wrong: another result on exact data, a broken invariant, an error that no order of sums explains, or another kind of number
 * where NaN, infinity or a tie is. Not here: this processor lacks what it was built for. */
enum iq_differs { IQ_DIFFERS_NEVER, IQ_DIFFERS_BENIGN, IQ_DIFFERS_WRONG, IQ_DIFFERS_NOT_HERE };

struct iq_variant_report {
    enum iq_differs differs;
    char first[400]; /* what differed, or "" */
};

const char *iq_differs_text(enum iq_differs);
/* IQ_UNSUPPORTED: of another kind than the miscompiled ones. */
int iq_variant_differs(const struct iq_variant *, struct iq_variant_report *out, struct iq_err *err);
/* All of them: lines to `out`, or a member "miscompiled" of `json` if it is not NULL. */
int iq_doctor_variants(struct iq_out *out, struct iq_jw *json, struct iq_err *err);

#endif
