#include "faults/faultset.h"

#include "kernels/base/digest.h"
#include "kernels/base/rng.h"

#include <stdlib.h>
#include <string.h>

struct iq_faultset {
    const struct iq_fault *fault;
    size_t n;
    uint64_t *key;               /* (n) of the fault's draws */
    uint16_t (*by_op)[IQ_PICKS]; /* (IQ_ALL_OPS) faults that may strike the op, in plan order */
    uint8_t per_op[IQ_ALL_OPS];
    uint64_t *mask;               /* (IQ_PICKS, words) */
    struct iq_when_tally **tally; /* (n) of those that have not struck; NULL: it has */
    size_t words;
};

/* ---- opening ---- */

static int check_params(const struct iq_fault *f, struct iq_err *err)
{
    for (const struct iq_param *p = f->variant->params; p && p->name; p++) {
        double v;
        iq_fault_param(f, p->name, &v);
        if (!(v >= p->lo && v <= p->hi))
            return iq_fail(err, IQ_FORMAT, "fault %s: parameter %s is %g, expected %g to %g", f->name,
                           p->name, v, p->lo, p->hi);
    }
    if (f->rate >= 0 && f->rate <= 1) return IQ_OK;
    return iq_fail(err, IQ_FORMAT, "fault %s: rate is %g, expected 0 to 1", f->name, f->rate);
}

static int check(const struct iq_fault *f, struct iq_err *err)
{
    const struct iq_variant *v = f->variant;
    const struct iq_kind *kind = f->op == IQ_OP_NONE ? f->kind : iq_op_kind((enum iq_op_id)f->op);
    if (strcmp(v->kind, kind->name))
        return iq_fail(err, IQ_MISMATCH, "fault %s: variant %s is of kind %s, but the op is of kind %s",
                       f->name, v->name, v->kind, kind->name);
    if (v->usable && !v->usable())
        return iq_fail(err, IQ_UNSUPPORTED, "fault %s: variant %s of %s does not run on this machine",
                       f->name, v->name, v->kind);
    return check_params(f, err);
}

bool iq_fault_at(const struct iq_fault *f, enum iq_op_id op)
{
    return f->op == IQ_OP_NONE ? f->kind == iq_op_kind(op) : f->op == (unsigned)op;
}

static bool may_strike_op(const struct iq_fault *f, enum iq_op_id op)
{
    return iq_fault_at(f, op) && f->rate > 0 && iq_trigger_may(f->when, op);
}

static int index_ops(struct iq_faultset *s, struct iq_err *err)
{
    for (unsigned op = 0; op < IQ_ALL_OPS; op++)
        for (size_t i = 0; i < s->n; i++) {
            if (!may_strike_op(&s->fault[i], (enum iq_op_id)op)) continue;
            if (s->per_op[op] == IQ_PICKS)
                return iq_fail(err, IQ_LIMIT, "more than %d faults may strike op %s; narrow or drop some",
                               IQ_PICKS, iq_op_name(op));
            s->by_op[op][s->per_op[op]++] = (uint16_t)i;
        }
    return IQ_OK;
}

/* The identity of a fault's draws: seeds and names, never its place in the list. */
static uint64_t draw_key(const struct iq_fault *f, uint64_t seed)
{
    const char *op = f->op == IQ_OP_NONE ? f->kind->name : iq_op_name(f->op);
    struct iq_digest d[2] = {iq_digest_bytes(op, strlen(op)),
                             iq_digest_bytes(f->variant->name, strlen(f->variant->name))};
    return iq_mix64(iq_digest_list(d, 2).lo ^ iq_mix64(seed)) ^ iq_mix64(f->seed + 1);
}

int iq_faultset_open(const struct iq_fault *faults, size_t n, uint64_t seed, struct iq_faultset **out,
                     struct iq_err *err)
{
    *out = NULL;
    if (n > UINT16_MAX) return iq_fail(err, IQ_LIMIT, "%zu faults in a set, expected at most 65535", n);
    for (size_t i = 0; i < n; i++) IQ_TRY(check(&faults[i], err));
    struct iq_faultset *s = calloc(1, sizeof *s);
    if (!s) return iq_fail(err, IQ_MEMORY, "no memory for a fault set");
    s->fault = faults;
    s->n = n;
    s->key = calloc(n + 1, sizeof *s->key);
    s->by_op = calloc(IQ_ALL_OPS, sizeof *s->by_op);
    s->tally = calloc(n + 1, sizeof(struct iq_when_tally *));
    bool room = s->key && s->by_op && s->tally;
    for (size_t i = 0; room && i < n; i++) room = (s->tally[i] = iq_when_tally_open(faults[i].when)) != NULL;
    if (!room) {
        iq_faultset_close(s);
        return iq_fail(err, IQ_MEMORY, "no memory for %zu faults", n);
    }
    for (size_t i = 0; i < n; i++) s->key[i] = draw_key(&faults[i], seed);
    int status = index_ops(s, err);
    if (!status)
        *out = s;
    else
        iq_faultset_close(s);
    return status;
}

void iq_faultset_close(struct iq_faultset *s)
{
    if (!s) return;
    for (size_t i = 0; s->tally && i < s->n; i++) free(s->tally[i]);
    free(s->tally);
    free(s->mask);
    free(s->by_op);
    free(s->key);
    free(s);
}

/* ---- draws ---- */

static bool strikes(uint64_t key, double rate, uint64_t hi, uint64_t lo)
{
    struct iq_philox p = iq_philox(key, hi, lo);
    uint64_t bits = (uint64_t)p.v[1] << 32 | p.v[0];
    return (double)(bits >> 11) < rate * 0x1p53;
}

static uint64_t place_of(const struct iq_site *site)
{
    return (uint64_t)iq_op_number(site->op) << 32 | (uint64_t)site->layer << 16 | site->rank;
}

/* The high word of a counter holds what kind of draw it is in its top byte, so that no two kinds share a
 * counter. */
static uint64_t tag(enum iq_per per, uint64_t rest)
{
    return ((uint64_t)IQ_DRAW_FAULT << 60) | (uint64_t)per << 56 | rest;
}

static double rate_at(const struct iq_fault *f, const struct iq_step *step, uint64_t clock_us)
{
    return f->ramp ? iq_ramp_at(f->ramp, clock_us, step->start_s) : f->rate;
}

/* A control op decides about one request a call, and a step makes several such calls: the request and the position in
 * question tell them apart. */
static bool call_drawn(const struct iq_fault *f, uint64_t key, const struct iq_site *site)
{
    if (!iq_fault_draws(f) || f->per != IQ_PER_CALL) return true;
    if (iq_op_is_control(site->op)) key ^= iq_mix64(site->row[0].request + UINT64_C(1));
    if (iq_op_is_control(site->op) && site->op != IQ_OP_PREFIX) key ^= iq_mix64(~(uint64_t)site->row[0].pos);
    return strikes(key, rate_at(f, site->step, site->step->clock_us), tag(IQ_PER_CALL, place_of(site)),
                   site->step->step);
}

static bool row_drawn(const struct iq_fault *f, uint64_t key, const struct iq_site *site, uint32_t r)
{
    const struct iq_row *row = &site->row[r];
    if (!iq_fault_draws(f) || f->per == IQ_PER_CALL) return true;
    if (f->per == IQ_PER_ROW)
        return strikes(key ^ iq_mix64(row->attempt), rate_at(f, site->step, site->step->clock_us),
                       tag(IQ_PER_ROW, place_of(site)), (uint64_t)row->request << 32 | row->pos);
    if (f->per == IQ_PER_SESSION && row->session)
        return strikes(key, rate_at(f, site->step, row->session_us), tag(IQ_PER_SESSION, 0), row->session);
    return strikes(key, rate_at(f, site->step, row->arrived_us), tag(IQ_PER_REQUEST, 0), row->request);
}

bool iq_faultset_drawn(const struct iq_faultset *s, size_t fault, const struct iq_step *step,
                       const struct iq_row *row)
{
    struct iq_site site = {.step = step, .row = row, .rows = 1};
    return row_drawn(&s->fault[fault], s->key[fault], &site, 0);
}

void iq_faultset_slept(const struct iq_faultset *s, size_t fault, struct iq_buf *b)
{
    const struct iq_fault *f = &s->fault[fault];
    const struct iq_when_tally *t = s->tally[fault];
    if (!t || !f->rate) return;
    if (!t->calls) {
        iq_buf_printf(b, "there was no call of its op");
        return;
    }
    iq_trigger_say_tally(f->when, t, b);
    if (t->met)
        iq_buf_printf(b, iq_fault_draws(f) ? ", and the draws struck none" : ", and the variant took none");
}

/* ---- picking ---- */

static int masks_reserve(struct iq_faultset *s, uint32_t rows)
{
    size_t words = ((size_t)rows + 63) / 64;
    if (words <= s->words) return 0;
    uint64_t *grown = realloc(s->mask, IQ_PICKS * words * sizeof *grown);
    if (!grown) return -1;
    s->mask = grown;
    s->words = words;
    return 0;
}

/* Rows of the call that are struck; fills the mask. */
static uint32_t choose_rows(const struct iq_fault *f, uint64_t key, const struct iq_site *site,
                            const void *args, uint64_t *mask)
{
    uint32_t n = 0;
    memset(mask, 0, ((size_t)site->rows + 63) / 64 * sizeof *mask);
    for (uint32_t r = 0; r < site->rows; r++) {
        if (!row_drawn(f, key, site, r) || !iq_trigger_row(f->when, site, args, r)) continue;
        mask[r / 64] |= UINT64_C(1) << r % 64;
        n++;
    }
    return n;
}

/* Whether fault i strikes the call: its pick, if so. `mask`: room for its rows. */
static bool strikes_call(const struct iq_faultset *s, uint16_t i, const struct iq_site *site,
                         const void *args, uint64_t *mask, struct iq_pick *out)
{
    const struct iq_fault *f = &s->fault[i];
    if (!iq_trigger_call(f->when, site, args) || !call_drawn(f, s->key[i], site)) return false;
    if (f->variant->supports && !f->variant->supports(site, args)) return false;
    bool by_row = iq_fault_asks_rows(f);
    if (by_row && !choose_rows(f, s->key[i], site, args, mask)) return false;
    *out = (struct iq_pick){
        .variant = f->variant, .params = f->params, .rowmask = by_row ? mask : NULL, .fault = i};
    return true;
}

static int pick(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    struct iq_faultset *s = self;
    int n = 0;
    if (masks_reserve(s, site->rows)) return -IQ_MEMORY;
    for (unsigned k = 0; k < s->per_op[site->op]; k++) {
        uint16_t i = s->by_op[site->op][k];
        bool device = site->slot && site->slot->watched & IQ_WATCH_DEVICE;
        if (device && iq_trigger_reads(s->fault[i].when))
            return -IQ_UNSUPPORTED; /* a plan is checked before it runs */
        if (strikes_call(s, i, site, args, s->mask + (size_t)n * s->words, &out[n])) {
            free(s->tally[i]);
            s->tally[i] = NULL;
            n++;
        } else if (s->tally[i])
            iq_trigger_tally(s->fault[i].when, site, args, s->tally[i]);
    }
    return n;
}

static bool may_strike(void *self, enum iq_op_id op)
{
    const struct iq_faultset *s = self;
    return s->per_op[op] != 0;
}

void iq_faultset_selector(struct iq_faultset *s, struct iq_selector *out)
{
    *out = (struct iq_selector){.self = s, .pick = pick, .may_strike = may_strike};
}
