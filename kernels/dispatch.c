#include "kernels/dispatch_parts.h"
#include "kernels/view.h"

#include "kernels/base/pool.h"

#include <stdlib.h>
#include <string.h>

static size_t per_op(const struct iq_slots *s) { return (size_t)(s->layers + 1) * s->ranks; }
static size_t slots_count(const struct iq_slots *s) { return s->ops * per_op(s); }

/* A variant that does not take every call: the reference stands in. */
static int run_supported(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                         void *state)
{
    const struct iq_slot *slot = site->slot;
    const struct iq_variant *v = slot->variant->supports(site, args) ? slot->variant : slot->reference;
    return v->run(x, site, args, params, state);
}

static int open_slots(uint32_t first, uint32_t ops, uint32_t layers, uint32_t ranks, struct iq_slots **out,
                      struct iq_err *err)
{
    *out = NULL;
    size_t n = (size_t)ops * (layers + 1) * ranks;
    struct iq_slots *s = calloc(1, sizeof *s + n * sizeof *s->slot);
    if (!s) return iq_fail(err, IQ_MEMORY, "no memory for %zu slots", n);
    s->first = first;
    s->ops = ops;
    s->layers = layers;
    s->ranks = ranks;
    for (size_t i = 0; i < n; i++) {
        struct iq_slot *slot = &s->slot[i];
        slot->set = s;
        slot->kind = iq_op_kind((enum iq_op_id)(first + i / per_op(s)));
        slot->reference = iq_variant_find(slot->kind->name, "reference");
        slot->variant = slot->reference;
        if (!slot->reference) {
            const char *kind = slot->kind->name;
            iq_slots_close(s);
            return iq_fail(err, IQ_NO_REFERENCE, "kind %s has no reference variant", kind);
        }
        slot->run = slot->reference->run;
    }
    *out = s;
    return IQ_OK;
}

int iq_slots_open(uint32_t layers, uint32_t ranks, struct iq_slots **out, struct iq_err *err)
{
    return open_slots(0, IQ_OPS, layers, ranks, out, err);
}

int iq_slots_open_training(uint32_t layers, struct iq_slots **out, struct iq_err *err)
{
    return open_slots(IQ_OPS, IQ_TRAIN_OPS_END - IQ_OPS, layers, 1, out, err);
}

int iq_slots_open_control(struct iq_slots **out, struct iq_err *err)
{
    return open_slots(IQ_TRAIN_OPS_END, IQ_ALL_OPS - IQ_TRAIN_OPS_END, 0, 1, out, err);
}

void iq_slots_close(struct iq_slots *s)
{
    if (!s) return;
    iq__states_clear(&s->states);
    free(s->room);
    free(s);
}

struct iq_slot *iq_slots_at(struct iq_slots *s, enum iq_op_id op, uint32_t layer, uint32_t rank)
{
    uint32_t at = layer == IQ_NO_LAYER ? 0 : layer + 1;
    return &s->slot[((size_t)(op - s->first) * (s->layers + 1) + at) * s->ranks + rank];
}

static void set_watched(struct iq_slots *s)
{
    for (size_t i = 0; i < slots_count(s); i++) {
        struct iq_slot *slot = &s->slot[i];
        enum iq_op_id op = (enum iq_op_id)(s->first + i / per_op(s));
        bool armed = s->selector && s->selector->may_strike(s->selector->self, op);
        bool tapped = s->tap && slot->tapped, device = !strcmp(slot->variant->device, "cuda");
        slot->watched =
            (armed ? IQ_WATCH_ARMED : 0) | (tapped ? IQ_WATCH_TAPPED : 0) | (device ? IQ_WATCH_DEVICE : 0);
    }
}

static void set_variant(struct iq_slots *s, const struct iq_variant *v)
{
    for (size_t i = 0; i < slots_count(s); i++) {
        struct iq_slot *slot = &s->slot[i];
        if (strcmp(slot->kind->name, v->kind)) continue;
        slot->variant = v;
        slot->run = v->supports ? run_supported : v->run;
    }
    set_watched(s);
}

int iq_slots_golden(struct iq_slots *s, const struct iq_variant *v, struct iq_err *err)
{
    if (!(v->flags & IQ_V_GOLDEN) || (v->flags & IQ_V_COUPLES_ROWS))
        return iq_fail(err, IQ_ABI, "variant %s of %s can't serve golden: %s", v->name, v->kind,
                       v->flags & IQ_V_COUPLES_ROWS ? "a row's bits may depend on its neighbours"
                                                    : "its bits are not the reference's");
    set_variant(s, v);
    return IQ_OK;
}

int iq_slots_arithmetic(struct iq_slots *s, const struct iq_variant *v, struct iq_err *err)
{
    if (!(v->flags & IQ_V_BENIGN) || (v->flags & IQ_V_COUPLES_ROWS))
        return iq_fail(err, IQ_ABI, "variant %s of %s can't be an arithmetic of its own: %s", v->name,
                       v->kind,
                       v->flags & IQ_V_COUPLES_ROWS ? "a row's bits may depend on its neighbours"
                                                    : "it is not marked benign");
    set_variant(s, v);
    return IQ_OK;
}

/* ---- riders ---- */

int iq_slots_twin(const struct iq_slots *s, struct iq_slots **out, struct iq_err *err)
{
    size_t bytes = sizeof *s + slots_count(s) * sizeof *s->slot;
    struct iq_slots *twin = malloc(bytes);
    *out = twin;
    if (!twin) return iq_fail(err, IQ_MEMORY, "no memory for %zu slots", slots_count(s));
    memcpy(twin, s, bytes);
    twin->selector = NULL;
    twin->tap = NULL;
    twin->states = (struct iq__states){0};
    twin->rider = NULL;
    twin->riders = 0;
    twin->room = NULL;
    twin->room_cap = 0;
    for (size_t i = 0; i < slots_count(s); i++) {
        twin->slot[i].set = twin;
        twin->slot[i].watched = 0;
    }
    return IQ_OK;
}

void iq_slots_ride(struct iq_slots *s, const struct iq_rider *rider, uint32_t n)
{
    s->rider = rider;
    s->riders = n;
    s->head = false;
    for (size_t i = 0; i < slots_count(s); i++) {
        uint32_t armed = 0;
        for (uint32_t r = 0; r < n; r++) armed |= rider[r].slots->slot[i].watched & IQ_WATCH_ARMED;
        s->slot[i].watched &= ~(uint32_t)IQ_WATCH_RIDDEN;
        if (armed) s->slot[i].watched |= IQ_WATCH_RIDDEN;
    }
}

void iq_slots_ride_head(struct iq_slots *s, bool head) { s->head = head; }

void iq_slots_arm(struct iq_slots *s, const struct iq_selector *selector)
{
    s->selector = selector;
    iq__states_clear(&s->states);
    set_watched(s);
}

void iq_slots_tap(struct iq_slots *s, const struct iq_tap *tap)
{
    s->tap = tap;
    set_watched(s);
}

void iq_slot_points(struct iq_slot *slot, uint16_t node, uint16_t points, uint32_t tapped)
{
    slot->node = node;
    slot->points = points;
    slot->tapped = tapped;
}

void *iq__slots_room(struct iq_slots *s, size_t bytes)
{
    if (!bytes)
        bytes = 1; /* a call without outputs (a prompt too short for any block) is no lack of memory */
    if (bytes > s->room_cap) {
        void *grown = realloc(s->room, bytes);
        if (!grown) return NULL;
        s->room = grown;
        s->room_cap = bytes;
    }
    return s->room;
}

/* ---- faults ---- */

/* A kind's outputs as one block of bytes per row: all points, one after the other. */
size_t iq__row_bytes(const struct iq_kind *kind, const void *args)
{
    size_t n = 0, b;
    for (unsigned p = 0; (b = kind->row_bytes(args, p)) != 0; p++) n += b;
    return n;
}

static bool row_equal(const struct iq_kind *kind, const void *args, uint32_t r, const char *saved,
                      void *scratch)
{
    size_t b;
    for (unsigned p = 0; (b = kind->row_bytes(args, p)) != 0; p++, saved += b)
        if (memcmp(kind->get(args, p, r, scratch), saved, b)) return false;
    return true;
}

static void row_save(const struct iq_kind *kind, const void *args, uint32_t r, char *into, void *scratch)
{
    size_t b;
    for (unsigned p = 0; (b = kind->row_bytes(args, p)) != 0; p++, into += b)
        memcpy(into, kind->get(args, p, r, scratch), b);
}

static void row_restore(const struct iq_kind *kind, const void *args, uint32_t r, const char *saved)
{
    size_t b;
    for (unsigned p = 0; (b = kind->row_bytes(args, p)) != 0; p++, saved += b) kind->put(args, p, r, saved);
}

static bool covers(const struct iq_pick *p, uint32_t r)
{
    return !p->rowmask || p->rowmask[r / 64] >> r % 64 & 1;
}

/* The pick that decides row r, or -1. */
int iq__pick_winner(const struct iq_pick *pick, int n, uint32_t r)
{
    while (n-- > 0)
        if (covers(&pick[n], r)) return n;
    return -1;
}

/* Runs pick i over golden's outputs and keeps its bits in the rows that it won. */
static int strike(struct iq_exec *x, const struct iq_site *site, const void *args, const struct iq_pick *pick,
                  int n, int i, uint32_t rows, char *saved, size_t stride)
{
    struct iq_slot *slot = site->slot;
    const struct iq_kind *kind = slot->kind;
    void *scratch = saved + rows * stride;
    struct iq_firing f = {.fault = pick[i].fault,
                          .step = (uint32_t)site->step->step,
                          .node = slot->node,
                          .batch = (uint16_t)site->step->batch};
    uint32_t first = UINT32_MAX;
    void *state;
    IQ_TRY(iq__pick_state(x, slot, &pick[i], &state));
    for (uint32_t r = 0; r < rows; r++) row_save(kind, args, r, saved + r * stride, scratch);
    IQ_TRY(pick[i].variant->run(x, site, args, pick[i].params, state));
    for (uint32_t r = 0; r < rows; r++) {
        if (r >= site->rows || iq__pick_winner(pick, n, r) != i) { /* padding is nobody's */
            row_restore(kind, args, r, saved + r * stride);
            continue;
        }
        bool changed = !row_equal(kind, args, r, saved + r * stride, scratch);
        if (first == UINT32_MAX || (changed && !f.rows_changed)) first = r;
        f.rows++;
        f.rows_changed += changed;
    }
    if (kind->derive) kind->derive(args);
    const struct iq_tap *tap = slot->set->tap;
    if (!f.rows || !tap || !tap->fired) return IQ_OK;
    if (site->row) f.request = site->row[first].request, f.pos = site->row[first].pos;
    return tap->fired(tap->self, site, &f);
}

/* Golden's bits are the same on both sides: a workaround that is named by the other side's form takes this one's. */
static const struct iq_variant *on_this_side(const struct iq_slot *slot, const struct iq_variant *v)
{
    bool device = slot->watched & IQ_WATCH_DEVICE;
    if (!(v->flags & IQ_V_GOLDEN) || strcmp(v->device, device ? "cpu" : "cuda")) return v;
    return device ? iq_variant_find(v->kind, "cuda") : slot->reference;
}

int iq__picks(const struct iq_site *site, const void *args, struct iq_pick pick[IQ_PICKS],
              bool wins[IQ_PICKS])
{
    const struct iq_slot *slot = site->slot;
    const struct iq_selector *sel = slot->set->selector;
    int n = sel->pick(sel->self, site, args, pick);
    memset(wins, 0, IQ_PICKS * sizeof *wins);
    for (int i = 0; i < n; i++) pick[i].variant = on_this_side(slot, pick[i].variant);
    for (uint32_t r = 0; n > 0 && r < site->rows; r++) {
        int w = iq__pick_winner(pick, n, r);
        if (w >= 0) wins[w] = !(pick[w].variant->flags & slot->variant->flags & IQ_V_GOLDEN);
    }
    return n;
}

int iq__pick_state(const struct iq_exec *x, const struct iq_slot *slot, const struct iq_pick *pick,
                   void **state)
{
    size_t bytes = pick->variant->state_size;
    bool device = slot->watched & IQ_WATCH_DEVICE;
    *state =
        bytes ? iq__state_of(&slot->set->states, device ? x->cuda : NULL, slot, pick->fault, bytes) : NULL;
    return bytes && !*state ? IQ_MEMORY : IQ_OK;
}

static int strike_all(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    struct iq_slot *slot = site->slot;
    struct iq_pick pick[IQ_PICKS];
    bool wins[IQ_PICKS];
    uint32_t rows = slot->kind->rows(args);
    int n = iq__picks(site, args, pick, wins);
    if (n <= 0) return -n;
    size_t stride = iq__row_bytes(slot->kind, args);
    for (int i = 0; i < n; i++) {
        if (!wins[i]) continue;
        char *saved = iq__slots_room(slot->set, (rows + 1) * stride);
        if (!saved) return IQ_MEMORY;
        IQ_TRY(strike(x, site, args, pick, n, i, rows, saved, stride));
    }
    return IQ_OK;
}

/* ---- taps ---- */

struct tapping {
    const struct iq_site *site;
    const void *args;
    const struct iq_tap *tap;
    char *scratch; /* (parts, 2, stride): gathered row, canonical row */
    size_t stride;
    uint32_t rows;
};

/* NaNs have one bit pattern in a digest, since hardware disagrees on payloads. */
const void *iq__canonical_row(const void *row, size_t bytes, size_t elem, void *into)
{
    const uint32_t *w = row;
    uint32_t any = 0;
    if (elem != 4) return row;
    for (size_t i = 0; i < bytes / 4; i++) any |= (w[i] & 0x7fffffffu) > 0x7f800000u;
    if (!any) return row;
    uint32_t *c = into;
    for (size_t i = 0; i < bytes / 4; i++) c[i] = (w[i] & 0x7fffffffu) > 0x7f800000u ? 0x7fffffffu : w[i];
    return into;
}

static struct iq_digest digest_row(const struct tapping *t, unsigned point, uint32_t r, char *scratch,
                                   const void **bytes)
{
    const struct iq_kind *kind = t->site->slot->kind;
    size_t n = kind->row_bytes(t->args, point);
    *bytes = iq__canonical_row(kind->get(t->args, point, r, scratch), n, kind->elem, scratch + t->stride);
    return iq_digest_row(*bytes, n / kind->elem, kind->elem);
}

static void tap_rows(void *ctx, int part, int parts)
{
    const struct tapping *t = ctx;
    const struct iq_slot *slot = t->site->slot;
    char *scratch = t->scratch + (size_t)part * 2 * t->stride;
    int begin, end;
    iq_slice((int)t->rows, part, parts, &begin, &end);
    for (int r = begin; r < end; r++)
        for (unsigned p = 0; p < slot->points; p++) {
            const void *bytes;
            if (slot->tapped >> p & 1)
                t->tap->cells[(size_t)t->site->row[r].cell * t->tap->nodes + slot->node + p] =
                    digest_row(t, p, (uint32_t)r, scratch, &bytes);
        }
}

static int give_bytes(const struct tapping *t)
{
    const struct iq_slot *slot = t->site->slot;
    for (uint32_t r = 0; r < t->rows; r++)
        for (unsigned p = 0; p < slot->points; p++) {
            const void *bytes;
            if (!(slot->tapped >> p & 1)) continue;
            struct iq_digest d = digest_row(t, p, r, t->scratch, &bytes);
            IQ_TRY(t->tap->bytes(t->tap->self, t->site, r, (uint16_t)(slot->node + p), d, bytes,
                                 slot->kind->row_bytes(t->args, p)));
        }
    return IQ_OK;
}

static int tap_all(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    enum { WORTH_THREADS = 32768 }; /* bytes: a meeting of threads costs about as much as hashing these */
    struct iq_slot *slot = site->slot;
    struct tapping t = {.site = site, .args = args, .tap = slot->set->tap, .rows = site->rows};
    t.stride = (iq__row_bytes(slot->kind, args) + 63) / 64 * 64;
    t.scratch = iq__slots_room(slot->set, (size_t)iq_pool_threads(x->pool) * 2 * t.stride);
    if (!t.scratch) return IQ_MEMORY;
    iq_pool_run(t.rows * t.stride > WORTH_THREADS ? x->pool : NULL, tap_rows, &t);
    return t.tap->bytes ? give_bytes(&t) : IQ_OK;
}

int iq_tap_whole(struct iq_exec *x, const struct iq_site *site, uint32_t rows, uint16_t node, const float *y,
                 size_t ld, size_t n)
{
    struct iq_slots *set = site->slot->set;
    if (!set->tap) return IQ_OK;
    if (site->slot->watched & IQ_WATCH_DEVICE) return iq__cuda_tap_whole(x, site, rows, node, y, ld, n);
    void *scratch = iq__slots_room(set, n * sizeof *y);
    if (!scratch) return IQ_MEMORY;
    for (uint32_t r = 0; r < site->rows; r++) {
        const void *row = iq__canonical_row(y + r * ld, n * sizeof *y, sizeof *y, scratch);
        struct iq_digest d = iq_digest_row(row, n, sizeof *y);
        set->tap->cells[(size_t)site->row[r].cell * set->tap->nodes + node] = d;
        if (set->tap->bytes) IQ_TRY(set->tap->bytes(set->tap->self, site, r, node, d, row, n * sizeof *y));
    }
    return IQ_OK;
}

/* Each rider's picks on its own rows. */
static int strike_riders(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    const struct iq_slots *s = site->slot->set;
    size_t at = (size_t)(site->slot - s->slot);
    for (uint32_t i = 0; i < s->riders; i++) {
        const struct iq_rider *r = &s->rider[i];
        struct iq_slot *slot = &r->slots->slot[at];
        uint32_t first = s->head ? i : r->first, rows = s->head ? 1 : r->rows;
        struct iq_view view;
        if (first + rows > site->rows) break;
        if (!(slot->watched & IQ_WATCH_ARMED)) continue;
        struct iq_site own = *site;
        own.slot = slot;
        own.step = r->step;
        own.row = site->row + first;
        own.rows = rows;
        IQ_TRY(strike_all(x, &own, iq_view(slot->kind, args, first, rows, &view)));
    }
    return IQ_OK;
}

int iq__dispatch_watched(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    const struct iq_slot *slot = site->slot;
    if (slot->watched & IQ_WATCH_DEVICE) return iq__cuda_dispatch(x, site, args);
    IQ_TRY(slot->run(x, site, args, NULL, NULL));
    if (slot->watched & IQ_WATCH_ARMED) IQ_TRY(strike_all(x, site, args));
    if (slot->watched & IQ_WATCH_RIDDEN) IQ_TRY(strike_riders(x, site, args));
    if (slot->watched & IQ_WATCH_TAPPED) IQ_TRY(tap_all(x, site, args));
    return IQ_OK;
}
