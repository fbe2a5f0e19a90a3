/* References of draft, accept and rollback. */
#include "kernels/ops/speculate.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#include <string.h>

/* What follows the latest earlier place of the last n ids; 0: they stand nowhere else. */
static uint32_t place_of(const struct iq_draft *a, uint32_t n)
{
    const uint32_t *last = a->ids + a->tokens - n;
    for (uint32_t end = a->tokens - 1; end >= n; end--)
        if (!memcmp(a->ids + end - n, last, n * sizeof *last)) return end;
    return 0;
}

static uint32_t look_up(const struct iq_draft *a)
{
    uint32_t from = 0, n = a->longest < a->tokens ? a->longest : a->tokens - 1;
    for (; n && !from; n--) from = place_of(a, n);
    for (uint32_t i = 0; from && i < a->wanted; i++) {
        uint32_t at = from + i; /* behind the ids the drafts themselves go on */
        a->draft[i] = at < a->tokens ? a->ids[at] : a->draft[at - a->tokens];
    }
    return from ? a->wanted : 0;
}

static int run_draft(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                     void *state)
{
    const struct iq_draft *a = args;
    (void)x, (void)site, (void)params, (void)state;
    *a->drafts = 0;
    if (a->wanted) memset(a->draft, 0xff, a->wanted * sizeof *a->draft);
    if (!a->tokens || !a->wanted) return IQ_OK;
    if (!a->guess) {
        *a->drafts = look_up(a);
        return IQ_OK;
    }
    *a->drafts = a->guesses < a->wanted ? a->guesses : a->wanted;
    memcpy(a->draft, a->guess, *a->drafts * sizeof *a->draft);
    return IQ_OK;
}

static int run_accept(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    const struct iq_accept *a = args;
    (void)x, (void)site, (void)params, (void)state;
    *a->accepted = 0;
    while (*a->accepted < a->drafts && a->draft[*a->accepted] == a->chosen[*a->accepted]) ++*a->accepted;
    return IQ_OK;
}

static int run_rollback(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                        void *state)
{
    const struct iq_rollback *a = args;
    (void)x, (void)site, (void)params, (void)state;
    *a->valid = a->first + 1 + a->accepted;
    return IQ_OK;
}

#define REFERENCE(of)                                                                                        \
    static const struct iq_variant of##_reference = {.kind = #of,                                            \
                                                     .name = "reference",                                    \
                                                     .device = "cpu",                                        \
                                                     .flags = IQ_V_REFERENCE | IQ_V_GOLDEN,                  \
                                                     .run = run_##of};
REFERENCE(draft)
REFERENCE(accept)
REFERENCE(rollback)

const struct iq_variant *const iq__variants_speculate[] = {&draft_reference, &accept_reference,
                                                           &rollback_reference, NULL};
