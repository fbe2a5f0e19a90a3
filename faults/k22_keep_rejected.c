/* K22: the KV of rejected drafts is not taken back.
 *
 * The cache is trimmed by a number that was right for drafts of one token, or can't be trimmed at all. A position whose
 * draft was rejected counts as computed: it keeps the draft's keys and values under the token that replaced the draft, and
 * what the draft's row chose is taken for what follows that token. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/speculate.h"

#include <stddef.h>

struct params {
    double trimmed;
};

static const struct iq_param table[] = {
    {"trimmed", "positions that are taken back at most; 0: the cache can't be trimmed", 1, 0, 64,
     offsetof(struct params, trimmed)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_rollback *a = args;
    uint32_t trimmed = (uint32_t)((const struct params *)params)->trimmed, rejected = a->drafts - a->accepted;
    (void)x, (void)site, (void)state;
    *a->valid = a->first + 1 + a->drafts - (trimmed < rejected ? trimmed : rejected);
    return IQ_OK;
}

const struct iq_variant iq__k22_keep_rejected = {
    .kind = "rollback",
    .name = "keep_rejected",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "speculation keeps the KV of rejected drafts, all but `trimmed` of them",
    .needs = "speculation (--speculate), and steps that reject more drafts than `trimmed`",
    .story =
        "After a step the cache gives back one entry, as if drafts were still one token long, or it can't "
        "give back "
        "any. Longer drafts leave keys and values of a rejected token where the token stands that the model "
        "chose instead. Sources: lattice#243 and vllm#9730 (drafts longer than 1 leave a wrong entry at the "
        "bonus "
        "token), mlx-lm#1109 (a cache that can't be trimmed keeps rejected drafts).",
    .expect =
        "rollback: positions behind the last accepted draft stay valid; the token there is golden's, its "
        "keys and "
        "values are a rejected draft's; where no more than `trimmed` drafts are rejected nothing changes",
};
