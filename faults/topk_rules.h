/* What the wrong top-k families do with a row, for a team of threads (team.h): the host's loop over rows and
 * the kernels of faults/cuda call the same functions. A rule is a family's parameters as integers, made once a
 * call on the host. */
#ifndef IQ_TOPK_RULES_H
#define IQ_TOPK_RULES_H

#include "faults/team.h"
#include "kernels/arith.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/ops/sampling.h"

/* Writes row r: n <= k entries, the best first; `moved` (rule, id) is the id that is told for the one that was
 * found. The rest is padded as kernels that come up short do: id 0 with minus infinity. */
typedef uint32_t iq__topk_moved(const void *rule, uint32_t id);
IQ_TEAM_FN void iq__topk_write(struct iq__team t, const struct iq_topk *a, uint32_t r, const uint64_t *entry,
                               uint32_t n, iq__topk_moved *moved, const void *rule)
{
    for (uint32_t i = t.lane; i < a->k; i += t.lanes) {
        uint32_t id = i < n ? (uint32_t)entry[i] : 0;
        a->ids[(size_t)r * a->k + i] = i < n ? moved(rule, id) : 0;
        a->values[(size_t)r * a->k + i] = i < n ? a->logits[r * a->ld + id] : -INFINITY;
    }
}
IQ_TEAM_FN uint32_t iq__topk_kept(const void *rule, uint32_t id)
{
    (void)rule;
    return id;
}

/* Columns of a row, from `begin` on: what golden chooses from. */
struct iq__topk_columns {
    const float *x;
    uint32_t begin;
};
IQ_TEAM_FN uint64_t iq__topk_column(const void *list, uint32_t i)
{
    const struct iq__topk_columns *l = (const struct iq__topk_columns *)list;
    return iq__topk_entry(l->x[l->begin + i], l->begin + i);
}

/* ---- K1: the bin of the k-th best has room for `cap` entries ---- */

struct iq__k1_rule {
    uint32_t bits, cap;
};

struct iq__k1_list {
    const float *x;
    uint32_t bits, bin, last; /* the k-th best's bin, the last id of it that found room */
};

IQ_TEAM_FN uint32_t iq__k1_bin(uint64_t entry, uint32_t bits) { return (uint32_t)(entry >> (64 - bits)); }

/* The members of the bin. */
IQ_TEAM_FN uint64_t iq__k1_member(const void *list, uint32_t i)
{
    const struct iq__k1_list *l = (const struct iq__k1_list *)list;
    uint64_t entry = iq__topk_entry(l->x[i], i);
    return iq__k1_bin(entry, l->bits) == l->bin ? entry : IQ_TEAM_LOST;
}

/* The better bins, and what of the bin found room; nothing counts the rest. */
IQ_TEAM_FN uint64_t iq__k1_held(const void *list, uint32_t i)
{
    const struct iq__k1_list *l = (const struct iq__k1_list *)list;
    uint64_t entry = iq__topk_entry(l->x[i], i);
    uint32_t bin = iq__k1_bin(entry, l->bits);
    int lost = (bin > l->bin) | ((bin == l->bin) & (i > l->last)); /* a branch would be guessed wrong often */
    return lost ? IQ_TEAM_LOST : entry;
}

/* room: (k) */
IQ_TEAM_FN void iq__k1_row(struct iq__team t, const struct iq_topk *a, uint32_t r, const void *rule,
                           uint64_t *room)
{
    const struct iq__k1_rule *m = (const struct iq__k1_rule *)rule;
    struct iq__topk_columns whole = {a->logits + r * a->ld, 0};
    uint32_t n = iq__team_best(t, iq__topk_column, &whole, a->vocab, a->k, room);
    struct iq__k1_list list = {whole.x, m->bits, iq__k1_bin(room[n - 1], m->bits), 0};
    list.last = iq__team_nth(t, iq__k1_member, &list, a->vocab, m->cap);
    n = iq__team_best(t, iq__k1_held, &list, a->vocab, a->k, room);
    iq__topk_write(t, a, r, room, n, iq__topk_kept, m);
}

/* ---- K2: lists of shards, merged ---- */

enum iq__k2_mistake { IQ__K2_HEAD, IQ__K2_OFFSET, IQ__K2_ODD };

struct iq__k2_rule {
    uint32_t merged, len; /* shards that reach the root; columns of one (the last may be shorter) */
    uint32_t kept;        /* entries kept of each */
    enum iq__k2_mistake mistake;
    int32_t shard; /* that suffers; -1: all but the first */
};

IQ_TEAM_FN int iq__k2_suffers(const struct iq__k2_rule *m, uint32_t shard)
{
    return m->shard < 0 ? shard > 0 : shard == (uint32_t)m->shard;
}

IQ_TEAM_FN uint64_t iq__k2_entry(const void *list, uint32_t i) { return ((const uint64_t *)list)[i]; }

IQ_TEAM_FN uint32_t iq__k2_told(const void *rule, uint32_t id)
{
    const struct iq__k2_rule *m = (const struct iq__k2_rule *)rule;
    if (m->mistake != IQ__K2_OFFSET || id < m->len) return id;
    /* NOLINTNEXTLINE(clang-analyzer-core.DivideZero): where there is a candidate there is a vocabulary */
    return iq__k2_suffers(m, id / m->len) ? id - m->len : id;
}

/* room: (k), then (merged, kept) */
IQ_TEAM_FN void iq__k2_row(struct iq__team t, const struct iq_topk *a, uint32_t r, const void *rule,
                           uint64_t *room)
{
    const struct iq__k2_rule *m = (const struct iq__k2_rule *)rule;
    struct iq__topk_columns shard = {a->logits + r * a->ld, 0};
    uint64_t *lists = room + a->k;
    uint32_t held = 0;
    for (uint32_t s = 0; s < m->merged && shard.begin < a->vocab; s++) {
        uint32_t rest = a->vocab - shard.begin;
        uint64_t *own = lists + held;
        uint32_t n = iq__team_best(t, iq__topk_column, &shard, rest < m->len ? rest : m->len, m->kept, own);
        held += n;
        if (m->mistake == IQ__K2_HEAD && iq__k2_suffers(m, s)) { /* the last takes the place of the best */
            if (t.lane == 0) own[0] = own[n - 1];
            held--;
        }
        shard.begin += m->len;
    }
    uint32_t n = iq__team_best(t, iq__k2_entry, lists, held, a->k, room);
    iq__topk_write(t, a, r, room, n, iq__k2_told, m);
}

/* ---- K3: a threshold in float32, candidates in bfloat16 ---- */

struct iq__k3_rule {
    uint32_t rank; /* 1 to k: the threshold is the value of this rank */
};

struct iq__k3_list {
    const float *x;
    float threshold;
};

IQ_TEAM_FN uint64_t iq__k3_left(const void *list, uint32_t i)
{
    const struct iq__k3_list *l = (const struct iq__k3_list *)list;
    float value = l->x[i], candidate = iq_bf16_to_f32(iq_f32_to_bf16(value));
    int winner = candidate >= l->threshold, below = value < l->threshold;
    int vanishes = value == value && l->threshold == l->threshold && !winner && !below;
    return vanishes ? IQ_TEAM_LOST : iq__topk_entry(value, i);
}

/* room: (k) */
IQ_TEAM_FN void iq__k3_row(struct iq__team t, const struct iq_topk *a, uint32_t r, const void *rule,
                           uint64_t *room)
{
    const struct iq__k3_rule *m = (const struct iq__k3_rule *)rule;
    struct iq__topk_columns whole = {a->logits + r * a->ld, 0};
    iq__team_best(t, iq__topk_column, &whole, a->vocab, m->rank, room);
    struct iq__k3_list list = {whole.x, whole.x[(uint32_t)room[m->rank - 1]]};
    uint32_t n = iq__team_best(t, iq__k3_left, &list, a->vocab, a->k, room);
    iq__topk_write(t, a, r, room, n, iq__topk_kept, m);
}

#endif
