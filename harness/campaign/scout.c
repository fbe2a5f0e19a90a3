#include "harness/campaign/scout.h"

#include "kernels/base/grow.h"
#include "kernels/ops/kv.h"

#include <stdlib.h>
#include <string.h>

static int keep(struct iq_scout *s, const void *bytes, size_t n, size_t *at)
{
    *at = (s->n_bytes + 15) / 16 * 16;
    IQ_TRY(iq_grow(&s->bytes, &s->cap_bytes, *at + n, 1, NULL));
    memcpy(s->bytes + *at, bytes, n);
    s->n_bytes = *at + n;
    return IQ_OK;
}

/* Rows stay where they are for many sites of a step: one copy serves. */
static int keep_rows(struct iq_scout *s, const struct iq_site *site, size_t *at)
{
    const struct iq_scouted *before = s->n ? &s->seen[s->n - 1] : NULL;
    /* A control op's row may lie where another request's lay before. */
    if (before && s->last_row == site->row && s->last_step == site->step->step &&
        before->site.rows == site->rows && s->row[before->rows].request == site->row->request) {
        *at = before->rows;
        return IQ_OK;
    }
    IQ_TRY(iq_grow(&s->row, &s->cap_rows, s->n_rows + site->rows, sizeof *s->row, NULL));
    memcpy(s->row + s->n_rows, site->row, site->rows * sizeof *s->row);
    *at = s->n_rows;
    s->n_rows += site->rows;
    s->last_row = site->row;
    s->last_step = site->step->step;
    return IQ_OK;
}

/* Where an argument struct has its sequences, or NULL. */
static const struct iq_seq **seq_of(const struct iq_kind *kind, void *args, uint32_t *n)
{
    if (!strcmp(kind->name, "attention"))
        return *n = ((struct iq_attention *)args)->seqs, &((struct iq_attention *)args)->seq;
    if (!strcmp(kind->name, "kv_write"))
        return *n = ((struct iq_kv_write *)args)->seqs, &((struct iq_kv_write *)args)->seq;
    return NULL;
}

static int look(struct iq_scout *s, const struct iq_site *site, const void *args)
{
    struct iq_scouted seen = {.site = *site, .step = *site->step};
    const struct iq_kind *kind = site->slot->kind;
    uint32_t seqs = 0;
    const struct iq_seq **seq;
    IQ_TRY(keep_rows(s, site, &seen.rows));
    IQ_TRY(keep(s, args, kind->args_size, &seen.args));
    if ((seq = seq_of(kind, s->bytes + seen.args, &seqs)) != NULL)
        IQ_TRY(keep(s, *seq, seqs * sizeof **seq, &seen.seqs));
    IQ_TRY(iq_grow(&s->seen, &s->cap, s->n + 1, sizeof *s->seen, NULL));
    s->seen[s->n++] = seen;
    return IQ_OK;
}

static int pick(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    (void)out;
    return -look(self, site, args);
}

static bool may_strike(void *self, enum iq_op_id op)
{
    (void)self;
    (void)op;
    return true;
}

void iq_scout_selector(struct iq_scout *s, struct iq_selector *out)
{
    *out = (struct iq_selector){.self = s, .pick = pick, .may_strike = may_strike};
}

void iq_scout_free(struct iq_scout *s)
{
    free(s->seen);
    free(s->row);
    free(s->bytes);
    *s = (struct iq_scout){0};
}

/* What the selector picks at a site: as iq_selector.pick. */
static int ask(const struct iq_scout *s, const struct iq_selector *sel, const struct iq_scouted *seen,
               struct iq_pick picks[IQ_PICKS])
{
    union {
        char bytes[4096];
        max_align_t align;
    } args;
    const struct iq_kind *kind = seen->site.slot->kind;
    struct iq_site site = seen->site;
    uint32_t seqs;
    if (kind->args_size > sizeof args) return -IQ_INTERNAL;
    memcpy(args.bytes, s->bytes + seen->args, kind->args_size);
    const struct iq_seq **seq = seq_of(kind, args.bytes, &seqs);
    if (seq) *seq = (const struct iq_seq *)(const void *)(s->bytes + seen->seqs);
    site.step = &seen->step;
    site.row = s->row + seen->rows;
    return sel->pick(sel->self, &site, args.bytes, picks);
}

size_t iq_scout_find(const struct iq_scout *s, const struct iq_selector *sel, size_t from)
{
    bool may[IQ_ALL_OPS];
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) may[op] = sel->may_strike(sel->self, (enum iq_op_id)op);
    for (size_t i = from; i < s->n; i++) {
        struct iq_pick picks[IQ_PICKS];
        if (!may[s->seen[i].site.op]) continue;
        int n = ask(s, sel, &s->seen[i], picks);
        if (n < 0) return SIZE_MAX;
        if (n > 0) return i;
    }
    return s->n;
}

uint32_t iq_scout_least(const struct iq_scout *s, const struct iq_selector *sel, size_t from)
{
    uint32_t least = UINT32_MAX;
    for (size_t i = from; i < s->n && s->seen[i].step.step == s->seen[from].step.step; i++) {
        struct iq_pick picks[IQ_PICKS];
        const struct iq_scouted *seen = &s->seen[i];
        if (!sel->may_strike(sel->self, (enum iq_op_id)seen->site.op)) continue;
        int n = ask(s, sel, seen, picks);
        for (int k = 0; k < n; k++) {
            uint32_t r = 0;
            while (picks[k].rowmask && r + 1 < seen->site.rows && !(picks[k].rowmask[r / 64] >> r % 64 & 1))
                r++;
            uint32_t pos = s->row[seen->rows + r].pos;
            if (pos < least) least = pos;
        }
    }
    return least;
}

size_t iq_scout_step(const struct iq_scout *s, uint64_t step)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (s->seen[mid].step.step < step)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}
