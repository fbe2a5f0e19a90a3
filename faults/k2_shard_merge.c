/* K2: top-k over a sharded vocabulary whose merge loses or misplaces what a shard found.
 *
 * Each shard (tensor-parallel rank, or slice of the sorted axis) finds its own best k; the lists are merged.
 */
#include "faults/families.h"
#include "faults/topk_rows.h"

#include <stddef.h>

enum { SHARDS_MAX = 64 };

struct params {
    double shards, mistake, shard;
};

static const struct iq_param table[] = {
    {"shards", "parts of the vocabulary; 0: as the engine says", 0, 0, SHARDS_MAX,
     offsetof(struct params, shards)},
    {"mistake",
     "0: the merge starts behind a shard's best; 1: ids get the offset of the shard before; 2: the odd shard "
     "of a pairwise tree is never merged",
     IQ__K2_HEAD, IQ__K2_HEAD, IQ__K2_ODD, offsetof(struct params, mistake)},
    {"shard", "which shard suffers, by mistakes 0 and 1; -1: all but the first", -1, -1, SHARDS_MAX - 1,
     offsetof(struct params, shard)},
    {0},
};

/* Shards that reach the root. A tree that pairs floor(n / 2) lists a level drops the odd one each time. */
static uint32_t merged(enum iq__k2_mistake mistake, uint32_t shards)
{
    uint32_t n = 1;
    if (mistake != IQ__K2_ODD) return shards;
    while (n * 2 <= shards) n *= 2;
    return n;
}

static struct iq__k2_rule rule_of(const struct iq_topk *a, const struct params *p)
{
    uint32_t shards = p->shards > 0 ? (uint32_t)p->shards : a->shards;
    struct iq__k2_rule m = {.mistake = (enum iq__k2_mistake)p->mistake, .shard = (int32_t)p->shard};
    if (shards < 1) shards = 1;
    if (shards > SHARDS_MAX) shards = SHARDS_MAX;
    m.merged = merged(m.mistake, shards);
    m.len = a->vocab / shards + (a->vocab % shards != 0);
    m.kept = a->k < m.len ? a->k : m.len;
    return m;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    struct iq__k2_rule rule = rule_of(a, params);
    (void)site, (void)state;
    if (!a->k) return IQ_OK;
    return IQ__TOPK_RUN(k2, x, a, &rule, (size_t)rule.merged * rule.kept + a->k);
}

const struct iq_variant iq__k2_shard_merge = {
    .kind = "topk",
    .name = "shard_merge",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_ROW_LOCAL,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "merging the shards' lists loses a shard's best",
    .needs = "more than one shard: --tp of at least 2, or `shards` of at least 2",
    .story =
        "The vocabulary is sorted in shards, and the merge of the shards' lists starts one behind a list's "
        "head, takes a neighbour's offset, or leaves the odd shard out: right on one shard, wrong in some "
        "configurations. Sources: jax#19271 (a reduced axis over 8 devices: top-1 of k=1 smaller than max of "
        "k=4); anthropic.com/engineering/a-postmortem-of-three-recent-issues (a sort over tens of chips).",
    .expect =
        "topk: the argmax is missing when its shard suffers, or ids name other logits than their values; "
        "with one shard nothing changes",
};
