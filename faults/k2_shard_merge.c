/* K2: top-k over a sharded vocabulary whose merge loses or misplaces what a shard found.
 *
 * Each shard (tensor-parallel rank, or slice of the sorted axis) finds its own best k; the lists are merged.
 */
#include "faults/families.h"
#include "faults/topk_rows.h"
#include "kernels/cpu/topk_order.h"

#include <stddef.h>

enum mistake { HEAD, OFFSET, ODD };
enum { SHARDS_MAX = 64 };

struct params {
    double shards, mistake, shard;
};

static const struct iq_param table[] = {
    {"shards", "parts of the vocabulary; 0: as the engine says", 0, 0, SHARDS_MAX,
     offsetof(struct params, shards)},
    {"mistake",
     "0: the merge starts behind a shard's best; 1: ids get the offset of the shard before; 2: the odd shard "
     "of a "
     "pairwise tree is never merged",
     HEAD, HEAD, ODD, offsetof(struct params, mistake)},
    {"shard", "which shard suffers, by mistakes 0 and 1; -1: all but the first", -1, -1, SHARDS_MAX - 1,
     offsetof(struct params, shard)},
    {0},
};

struct plan {
    uint32_t shards, len, kept; /* shards; columns of one (the last may be shorter); entries kept of each */
    enum mistake mistake;
    int shard;
};

static struct plan plan_of(const struct iq_topk *a, const struct params *p)
{
    struct plan m = {
        .shards = (uint32_t)p->shards, .mistake = (enum mistake)p->mistake, .shard = (int)p->shard};
    if (!m.shards) m.shards = a->shards;
    if (m.shards < 1) m.shards = 1;
    if (m.shards > SHARDS_MAX) m.shards = SHARDS_MAX;
    m.len = a->vocab / m.shards + (a->vocab % m.shards != 0);
    m.kept = a->k < m.len ? a->k : m.len;
    return m;
}

static bool suffers(const struct plan *m, uint32_t s)
{
    return m->shard < 0 ? s > 0 : s == (uint32_t)m->shard;
}

/* Shards that reach the root. A tree that pairs floor(n / 2) lists a level drops the odd one each time. */
static uint32_t merged(const struct plan *m)
{
    uint32_t n = 1;
    if (m->mistake != ODD) return m->shards;
    while (n * 2 <= m->shards) n *= 2;
    return n;
}

static void row(const struct iq_topk *a, uint32_t r, const void *params, void *scratch)
{
    struct plan m = plan_of(a, params);
    struct iq__best list[SHARDS_MAX];
    uint32_t head[SHARDS_MAX], n = 0, shards = merged(&m);
    uint64_t *out = scratch, *room = out + a->k;
    for (uint32_t s = 0; s < shards; s++) {
        list[s] = (struct iq__best){room + (size_t)s * m.kept, 0, m.kept};
        for (uint32_t i = s * m.len; i < (s + 1) * m.len && i < a->vocab; i++)
            iq__best_push(&list[s], iq__topk_entry(a->logits[r * a->ld + i], i));
        iq__best_sort(&list[s]);
        head[s] = m.mistake == HEAD && suffers(&m, s); /* right: 0 */
    }
    for (; n < a->k; n++) {
        uint32_t best = shards;
        for (uint32_t s = 0; s < shards; s++)
            if (head[s] < list[s].n &&
                (best == shards || list[s].entry[head[s]] < list[best].entry[head[best]]))
                best = s;
        if (best == shards) break;
        out[n] = list[best].entry[head[best]++];
    }
    iq__topk_write(a, r, out, n);
    for (uint32_t i = 0; m.mistake == OFFSET && i < n; i++) {
        uint32_t *id = &a->ids[(size_t)r * a->k + i];
        /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): where there is a candidate there is a vocabulary */
        if (*id >= m.len && suffers(&m, *id / m.len)) *id -= m.len;
    }
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_topk *a = args;
    struct plan m = plan_of(a, params);
    (void)site, (void)state;
    if (!a->k) return IQ_OK;
    return iq__topk_rows(x, a, params, ((size_t)m.shards * m.kept + a->k) * sizeof(uint64_t), row);
}

const struct iq_variant iq__k2_shard_merge = {
    .kind = "topk",
    .name = "shard_merge",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "merging the shards' lists loses a shard's best",
    .needs = "more than one shard: --tp of at least 2, or `shards` of at least 2",
    .story = "The vocabulary is sorted in shards, and the merge of the shards' lists starts one behind a "
             "list's head, "
             "takes a neighbour's offset, or leaves the odd shard out: right on one shard, wrong in some "
             "configurations. Sources: jax#19271 (a reduced axis over 8 devices: top-1 of k=1 smaller than "
             "max of k=4); anthropic.com/engineering/a-postmortem-of-three-recent-issues (a sort over tens "
             "of chips).",
    .expect =
        "topk: the argmax is missing when its shard suffers, or ids name other logits than their values; "
        "with one shard nothing changes",
};
