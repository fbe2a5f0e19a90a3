/* References of the control ops over requests. */
#include "kernels/ops/requests.h"
#include "kernels/op.h"

#include <string.h>

#define RUN(name)                                                                                            \
    static void name(const struct iq_##name *);                                                              \
    static int run_##name(struct iq_exec *x, const struct iq_site *site, const void *args,                   \
                          const void *params, void *state)                                                   \
    {                                                                                                        \
        (void)x, (void)site, (void)params, (void)state;                                                      \
        name(args);                                                                                          \
        return IQ_OK;                                                                                        \
    }                                                                                                        \
    static void name(const struct iq_##name *a)

RUN(assemble)
{
    uint32_t kept = a->truncate && a->n > a->truncate ? a->truncate : a->n, newest = kept - a->special;
    memset(a->ids, 0xff, a->n * sizeof *a->ids);
    memcpy(a->ids, a->prompt, a->special * sizeof *a->ids);
    memcpy(a->ids + a->special, a->prompt + a->n - newest, newest * sizeof *a->ids);
    *a->n_ids = kept;
    *a->sampling = a->asked;
}

RUN(place) { *a->pool = a->pools > 1 && a->tokens > a->limit; }

RUN(identity) { *a->root = iq_digest_list(a->part, IQ_IDENTITY_PARTS); }

RUN(form)
{
    uint32_t left = a->budget;
    for (uint32_t i = 0; i < a->n; i++) {
        bool rides = left > 0;
        uint32_t most = a->joining || a->seat[i].lacking > left ? left : a->seat[i].lacking;
        a->pick[i] = rides ? (struct iq_form_pick){i, most} : (struct iq_form_pick){UINT32_MAX, 0};
        if (!a->joining) left -= most;
    }
}

#define REFERENCE(op)                                                                                        \
    {                                                                                                        \
        .kind = #op, .name = "reference", .device = "cpu", .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,            \
        .run = run_##op                                                                                      \
    }
static const struct iq_variant of_assemble = REFERENCE(assemble), of_place = REFERENCE(place),
                               of_identity = REFERENCE(identity), of_form = REFERENCE(form);

const struct iq_variant *const iq__variants_requests[] = {&of_assemble, &of_place, &of_identity, &of_form,
                                                          NULL};
