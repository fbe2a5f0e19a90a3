/* Reference of weights. */
#include "kernels/ops/weights.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#include <string.h>

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_weights *a = args;
    (void)x, (void)site, (void)params, (void)state;
    for (uint32_t i = 0; i < a->pieces; i++) {
        const struct iq_weights_piece *p = &a->piece[i];
        if (a->action == IQ_WEIGHTS_LOAD)
            memcpy(p->to, p->from, p->bytes);
        else
            memset(p->to, 0, p->bytes);
    }
    return IQ_OK;
}

static const struct iq_variant reference = {.kind = "weights",
                                            .name = "reference",
                                            .device = "cpu",
                                            .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,
                                            .run = run};

const struct iq_variant *const iq__variants_weights[] = {&reference, NULL};
