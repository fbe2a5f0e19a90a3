/* K22: the first drafts of a step are accepted without being compared with what the model chose.
 *
 * A verify loop that begins one behind the first draft, or compares each draft with the choice after it: whatever was
 * guessed becomes part of the answer. The draft's own KV stands, so every position is right for the token that it holds;
 * only the token is nobody's choice. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/speculate.h"

#include <stddef.h>

struct params {
    double unchecked;
};

static const struct iq_param table[] = {
    {"unchecked", "how many drafts, from the first on, are taken as they come", 1, 1, 64,
     offsetof(struct params, unchecked)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_accept *a = args;
    uint32_t n = (uint32_t)((const struct params *)params)->unchecked;
    (void)x, (void)site, (void)state;
    if (n > a->drafts) n = a->drafts;
    while (n < a->drafts && a->draft[n] == a->chosen[n]) n++;
    *a->accepted = n;
    return IQ_OK;
}

const struct iq_variant iq__k22_first_unchecked = {
    .kind = "accept",
    .name = "first_unchecked",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "speculation accepts its first draft without a look at what the model chose",
    .needs = "speculation (--speculate of at least 1), and drafts that are wrong now and then",
    .story =
        "The loop that compares drafts with the model's choices begins one too late, so that the first draft "
        "of "
        "each step is accepted whatever the model chose. Sources: lattice#243 (the first draft unchecked), "
        "vllm#54506 and vllm#52522 (answers with speculation that differ from plain ones, causes "
        "unconfirmed).",
    .expect = "accept: a draft is accepted where the model chose another token; every position is right for "
              "its token, "
              "and the token is not the one that was sampled before it; without drafts nothing changes",
};
