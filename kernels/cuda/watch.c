#include "kernels/cuda/watch.h"

#include "kernels/base/grow.h"
#include "kernels/dispatch_parts.h"
#include "kernels/ops/kv.h"

#include <stdlib.h>
#include <string.h>

/* A pick that won rows of a call. */
struct strike {
    struct iq_pick pick;
    void *state;
    size_t won, changed; /* words: its bits among the masks, its rows among the flags */
};

/* A point of a call that is digested. */
struct digested {
    uint16_t node;
    size_t at; /* its rows among the digests */
};

/* What is watched at one dispatch; empty where nothing is. */
struct call {
    struct iq_site site;
    uint32_t rows; /* of the arguments: the site's and any padding */
    uint32_t strike0, strikes, digested0, digests;
};

/* An array that grows. */
#define LIST(type)                                                                                           \
    struct {                                                                                                 \
        type *at;                                                                                            \
        size_t n, cap;                                                                                       \
    }

/* Device memory and its like on the host, filled one way or the other once a step. */
struct mirror {
    struct iq_cuda_room device;
    char *host; /* page-locked */
    size_t host_bytes, used;
};

struct iq_cuda_step {
    bool planning;
    LIST(struct call) call;
    LIST(struct strike) strike;
    LIST(struct digested) digested;
    LIST(uint32_t) mask;
    size_t next;                           /* call of the next dispatch that runs */
    size_t saved_bytes;                    /* most that a call sets aside */
    struct mirror masks, changed, digests; /* words, words, struct iq_digest */
    struct iq_cuda_room saved;
    void *row; /* host, for level tensors: rows of a point */
    size_t row_bytes;
};

#define PUSH(list)                                                                                           \
    (iq_grow(&(list).at, &(list).cap, (list).n + 1, sizeof *(list).at, NULL) ? NULL : &(list).at[(list).n++])

/* ---- memory ---- */

int iq_cuda_step_open(struct iq_cuda *c, struct iq_err *err)
{
    c->step = calloc(1, sizeof *c->step);
    return c->step ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for a step on the device");
}

static void mirror_close(struct iq_cuda *c, struct mirror *m)
{
    iq_cuda_room_close(c, &m->device);
    if (m->host) c->api->host_free(m->host);
}

void iq_cuda_step_close(struct iq_cuda *c)
{
    struct iq_cuda_step *s = c->step;
    if (!s) return;
    mirror_close(c, &s->masks);
    mirror_close(c, &s->changed);
    mirror_close(c, &s->digests);
    iq_cuda_room_close(c, &s->saved);
    free(s->call.at);
    free(s->strike.at);
    free(s->digested.at);
    free(s->mask.at);
    free(s->row);
    free(s);
    c->step = NULL;
}

static int mirror_ready(struct iq_cuda *c, struct mirror *m)
{
    if (!m->used) return IQ_OK;
    if (!iq_cuda_room_at_least(c, &m->device, m->used)) return c->err.status;
    if (m->device.bytes <= m->host_bytes) return IQ_OK;
    if (m->host) c->api->host_free(m->host);
    m->host = NULL;
    m->host_bytes = 0;
    void *fresh;
    IQ_TRY(iq_cuda_done(c, c->api->host_malloc(&fresh, m->device.bytes), "allocating page-locked memory"));
    m->host = fresh;
    m->host_bytes = m->device.bytes;
    return IQ_OK;
}

static char *on_device(const struct mirror *m) { return m->device.block[m->device.blocks - 1]; }

/* ---- planning ---- */

void iq_cuda_step_plan(struct iq_cuda *c)
{
    struct iq_cuda_step *s = c->step;
    s->planning = true;
    s->call.n = s->strike.n = s->digested.n = s->mask.n = s->next = 0;
    s->changed.used = s->digests.used = s->saved_bytes = 0;
}

bool iq_cuda_step_planning(const struct iq_cuda *c) { return c->step && c->step->planning; }

/* A call of the step sets so many bytes aside. */
static void plan_room(struct iq_cuda_step *s, size_t bytes)
{
    if (bytes > s->saved_bytes) s->saved_bytes = bytes;
}

/* One bit for each row of the call that pick i wins; padding is nobody's. */
static int plan_mask(struct iq_cuda_step *s, const struct iq_site *site, const struct iq_pick *pick, int n,
                     int i, uint32_t rows)
{
    for (uint32_t r = 0; r <= rows; r++) { /* one word at least, as settling reads it */
        if (r % 32 == 0) {
            uint32_t *word = PUSH(s->mask);
            if (!word) return IQ_MEMORY;
            *word = 0;
        }
        if (r < site->rows && iq__pick_winner(pick, n, r) == i) s->mask.at[s->mask.n - 1] |= 1u << r % 32;
    }
    return IQ_OK;
}

static int plan_strikes(struct iq_exec *x, const struct iq_site *site, const void *args, struct call *call)
{
    struct iq_cuda_step *s = x->cuda->step;
    const struct iq_slot *slot = site->slot;
    struct iq_pick pick[IQ_PICKS];
    bool wins[IQ_PICKS];
    int n = iq__picks(site, args, pick, wins);
    if (n < 0) return -n;
    for (int i = 0; i < n; i++) {
        if (!wins[i]) continue;
        if (!strcmp(pick[i].variant->device, "cpu") || !slot->kind->runs)
            return iq_fail(&x->cuda->err, IQ_UNSUPPORTED,
                           "variant %s of %s has no form for a device; use --device cpu",
                           pick[i].variant->name, slot->kind->name);
        struct strike *k = PUSH(s->strike);
        if (!k) return IQ_MEMORY;
        *k =
            (struct strike){.pick = pick[i], .won = s->mask.n, .changed = s->changed.used / sizeof(uint32_t)};
        k->pick.rowmask = NULL; /* borrowed until the next pick */
        call->strikes++;
        s->changed.used += call->rows * sizeof(uint32_t);
        IQ_TRY(iq__pick_state(x, slot, &pick[i], &k->state));
        IQ_TRY(plan_mask(s, site, pick, n, i, call->rows));
        plan_room(s, call->rows * iq__row_bytes(slot->kind, args));
    }
    return IQ_OK;
}

static int plan_digest(struct iq_cuda_step *s, struct call *call, uint16_t node)
{
    struct digested *d = PUSH(s->digested);
    if (!d) return IQ_MEMORY;
    *d = (struct digested){node, s->digests.used / sizeof(struct iq_digest)};
    s->digests.used += call->rows * sizeof(struct iq_digest);
    call->digests++;
    return IQ_OK;
}

static int plan_call(struct iq_cuda_step *s, const struct iq_site *site, uint32_t rows, struct call **out)
{
    *out = PUSH(s->call);
    if (!*out) return IQ_MEMORY;
    **out = (struct call){
        .site = *site, .rows = rows, .strike0 = (uint32_t)s->strike.n, .digested0 = (uint32_t)s->digested.n};
    return IQ_OK;
}

static int plan(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    struct iq_cuda_step *s = x->cuda->step;
    const struct iq_slot *slot = site->slot;
    struct call *call;
    IQ_TRY(plan_call(s, site, slot->kind->rows(args), &call));
    if (slot->watched & IQ_WATCH_ARMED) IQ_TRY(plan_strikes(x, site, args, call));
    if (!(slot->watched & IQ_WATCH_TAPPED)) return IQ_OK;
    for (unsigned p = 0; p < slot->points; p++)
        if (slot->tapped >> p & 1) IQ_TRY(plan_digest(s, call, (uint16_t)(slot->node + p)));
    if (slot->set->tap->bytes) plan_room(s, call->rows * iq__row_bytes(slot->kind, args));
    return IQ_OK;
}

int iq_cuda_step_ready(struct iq_cuda *c)
{
    struct iq_cuda_step *s = c->step;
    s->planning = false;
    s->masks.used = s->mask.n * sizeof(uint32_t);
    if (s->saved_bytes && !iq_cuda_room_at_least(c, &s->saved, s->saved_bytes)) return c->err.status;
    IQ_TRY(mirror_ready(c, &s->masks));
    IQ_TRY(mirror_ready(c, &s->changed));
    IQ_TRY(mirror_ready(c, &s->digests));
    if (!s->masks.used) return IQ_OK;
    memcpy(s->masks.host, s->mask.at, s->masks.used);
    return iq_cuda_done(c,
                        c->api->memcpy_async(on_device(&s->masks), s->masks.host, s->masks.used,
                                             IQ_CUDA_TO_DEVICE, c->stream),
                        "copying masks");
}

struct iq_digest iq_cuda_step_key(const struct iq_cuda *c)
{
    const struct iq_cuda_step *s = c->step;
    struct iq_digest key = iq_digest_bytes("step", 4);
    for (size_t i = 0; i < s->call.n; i++) {
        const struct call *call = &s->call.at[i];
        for (uint32_t k = 0; k < call->strikes; k++) {
            const struct strike *strike = &s->strike.at[call->strike0 + k];
            const struct iq_variant *v = strike->pick.variant;
            const struct {
                const void *slot, *variant, *state;
                size_t won, changed;
                struct iq_digest params;
            } one = {call->site.slot,
                     v,
                     strike->state,
                     strike->won,
                     strike->changed,
                     v->params_size ? iq_digest_bytes(strike->pick.params, v->params_size)
                                    : (struct iq_digest){0}};
            struct iq_digest link[2] = {key, iq_digest_bytes(&one, sizeof one)};
            key = iq_digest_list(link, 2);
        }
    }
    /* What is read or written for the host lies in a room's last block. */
    const size_t places[] = {s->masks.device.blocks, s->changed.device.blocks, s->digests.device.blocks,
                             s->digests.used, s->call.n};
    struct iq_digest link[2] = {key, iq_digest_bytes(places, sizeof places)};
    return iq_digest_list(link, 2);
}

/* ---- running ---- */

/* The rows of all points of a call, side by side in the room, as one list of launches. */
static int each_run(struct iq_cuda *c, const struct iq_kind *kind, const void *args,
                    struct iq_cuda_rows *rows, int (*launch)(const struct iq_cuda_rows *, iq_cuda_stream),
                    const char *what)
{
    struct iq_run run[IQ_RUNS];
    unsigned runs;
    rows->at = 0;
    for (unsigned p = 0; (runs = kind->runs(args, p, run)) != 0; p++)
        for (unsigned i = 0; i < runs; i++) {
            rows->x = run[i].x, rows->ld = run[i].ld, rows->n = (uint32_t)run[i].n;
            IQ_TRY(iq_cuda_launched(c, launch(rows, c->stream), what));
            rows->at += run[i].n;
        }
    return IQ_OK;
}

static int run_strike(struct iq_exec *x, const struct iq_site *site, const void *args, uint32_t n,
                      const struct strike *k)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cuda_step *s = c->step;
    const struct iq_kind *kind = site->slot->kind;
    uint32_t *changed = (uint32_t *)(void *)on_device(&s->changed) + k->changed;
    struct iq_cuda_rows rows = {.rows = n,
                                .stride = iq__row_bytes(kind, args) / sizeof(uint32_t),
                                .saved = s->saved.block[s->saved.blocks - 1],
                                .won = (uint32_t *)(void *)on_device(&s->masks) + k->won,
                                .changed = changed};
    IQ_TRY(
        iq_cuda_done(c, c->api->memset_async(changed, 0, n * sizeof *changed, c->stream), "clearing flags"));
    IQ_TRY(each_run(c, kind, args, &rows, c->kernels->rows_save, "setting rows aside"));
    IQ_TRY(k->pick.variant->run(x, site, args, k->pick.params, k->state));
    return each_run(c, kind, args, &rows, c->kernels->rows_settle, "settling rows");
}

static int run_digest(struct iq_cuda *c, const struct iq_slot *slot, const void *args, uint32_t rows,
                      unsigned point, struct iq_digest *out)
{
    struct iq_run run[IQ_RUNS];
    if (!slot->kind->runs) {
        const struct iq_cuda_kv_digest kv = {args, point, out};
        return iq_cuda_launched(c, c->kernels->kv_digest(&kv, c->stream), "digesting K and V");
    }
    struct iq_cuda_digest d = {.rows = rows, .out = out};
    unsigned runs = slot->kind->runs(args, point, run);
    for (unsigned i = 0; i < runs; i++)
        d.run[i].x = run[i].x, d.run[i].ld = run[i].ld, d.run[i].n = (uint32_t)run[i].n;
    return iq_cuda_launched(c, c->kernels->digest(&d, c->stream), "digesting rows");
}

/* Level tensors: the rows that stand aside, and their digests, come to the host at once. */
static int give_bytes(struct iq_cuda *c, const struct call *call, const struct digested *at, size_t bytes,
                      size_t elem)
{
    struct iq_cuda_step *s = c->step;
    const struct iq_tap *tap = call->site.slot->set->tap;
    const struct iq_digest *digest = (struct iq_digest *)(void *)on_device(&s->digests) + at->at;
    size_t all = call->rows * (bytes + sizeof *digest) + bytes;
    if (s->row_bytes < all) {
        free(s->row);
        s->row_bytes = 0;
        if (!(s->row = malloc(all))) return IQ_MEMORY;
        s->row_bytes = all;
    }
    struct iq_digest *d = s->row;
    char *row = (char *)(d + call->rows), *into = row + call->rows * bytes;
    IQ_TRY(iq_cuda_done(c,
                        c->api->memcpy_async(row, s->saved.block[s->saved.blocks - 1], call->rows * bytes,
                                             IQ_CUDA_TO_HOST, c->stream),
                        "reading rows"));
    IQ_TRY(iq_cuda_done(c,
                        c->api->memcpy_async(d, digest, call->rows * sizeof *d, IQ_CUDA_TO_HOST, c->stream),
                        "reading digests"));
    IQ_TRY(iq_cuda_sync(c, "reading rows"));
    for (uint32_t r = 0; r < call->site.rows; r++)
        IQ_TRY(tap->bytes(tap->self, &call->site, r, at->node, d[r],
                          iq__canonical_row(row + r * bytes, bytes, elem, into), bytes));
    return IQ_OK;
}

static int run_bytes(struct iq_exec *x, const struct call *call, const void *args, unsigned point,
                     const struct digested *at)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cuda_step *s = c->step;
    const struct iq_kind *kind = call->site.slot->kind;
    size_t bytes = kind->row_bytes(args, point);
    struct iq_cuda_rows rows = {
        .rows = call->rows, .stride = bytes / sizeof(uint32_t), .saved = s->saved.block[s->saved.blocks - 1]};
    struct iq_run run[IQ_RUNS];
    unsigned runs = kind->runs ? kind->runs(args, point, run) : 0;
    if (!kind->runs)
        IQ_TRY(iq_cuda_launched(c, c->kernels->rows_kv(&rows, args, point, c->stream), "reading K and V"));
    for (unsigned i = 0; i < runs; i++) {
        rows.x = run[i].x, rows.ld = run[i].ld, rows.n = (uint32_t)run[i].n;
        IQ_TRY(iq_cuda_launched(c, c->kernels->rows_save(&rows, c->stream), "reading rows"));
        rows.at += run[i].n;
    }
    return give_bytes(c, call, at, bytes, kind->elem);
}

static int run_taps(struct iq_exec *x, const struct call *call, const void *args)
{
    struct iq_cuda_step *s = x->cuda->step;
    const struct iq_slot *slot = call->site.slot;
    for (uint32_t i = 0; i < call->digests; i++) {
        const struct digested *at = &s->digested.at[call->digested0 + i];
        struct iq_digest *out = (struct iq_digest *)(void *)on_device(&s->digests) + at->at;
        unsigned point = at->node - slot->node;
        IQ_TRY(run_digest(x->cuda, slot, args, call->rows, point, out));
        if (slot->set->tap->bytes) IQ_TRY(run_bytes(x, call, args, point, at));
    }
    return IQ_OK;
}

/* The plan of this dispatch. */
static const struct call *next_call(struct iq_cuda *c, const struct iq_site *site)
{
    struct iq_cuda_step *s = c->step;
    const struct call *call = s->next < s->call.n ? &s->call.at[s->next++] : NULL;
    if (call && call->site.slot == site->slot) return call;
    iq_fail(&c->err, IQ_INTERNAL, "%s: a step ran other ops than it had planned; this is a bug in inquest",
            c->api->name);
    return NULL;
}

int iq__cuda_dispatch(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    struct iq_cuda_step *s = x->cuda->step;
    if (s && s->planning) return plan(x, site, args);
    IQ_TRY(site->slot->run(x, site, args, NULL, NULL));
    if (!s) return IQ_OK;
    const struct call *call = next_call(x->cuda, site);
    if (!call) return IQ_INTERNAL;
    for (uint32_t i = 0; i < call->strikes; i++)
        IQ_TRY(run_strike(x, site, args, call->rows, &s->strike.at[call->strike0 + i]));
    return run_taps(x, call, args);
}

int iq__cuda_tap_whole(struct iq_exec *x, const struct iq_site *site, uint32_t rows, uint16_t node,
                       const float *y, size_t ld, size_t n)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cuda_step *s = c->step;
    bool bytes = site->slot->set->tap->bytes != NULL;
    if (s->planning) {
        struct call *call;
        if (bytes) plan_room(s, rows * n * sizeof *y);
        IQ_TRY(plan_call(s, site, rows, &call));
        return plan_digest(s, call, node);
    }
    const struct call *call = next_call(c, site);
    if (!call) return IQ_INTERNAL;
    const struct digested *at = &s->digested.at[call->digested0];
    struct iq_digest *out = (struct iq_digest *)(void *)on_device(&s->digests) + at->at;
    const struct iq_cuda_digest d = {.rows = rows, .run = {{y, ld, (uint32_t)n}}, .out = out};
    IQ_TRY(iq_cuda_launched(c, c->kernels->digest(&d, c->stream), "digesting rows"));
    if (!bytes) return IQ_OK;
    const struct iq_cuda_rows aside = {.rows = rows,
                                       .n = (uint32_t)n,
                                       .x = (void *)(uintptr_t)y,
                                       .ld = ld,
                                       .stride = n,
                                       .saved = s->saved.block[s->saved.blocks - 1]};
    IQ_TRY(iq_cuda_launched(c, c->kernels->rows_save(&aside, c->stream), "reading rows"));
    return give_bytes(c, call, at, n * sizeof *y, sizeof *y);
}

/* ---- the way back ---- */

static int fetch(struct iq_cuda *c, struct mirror *m, const char *what)
{
    if (!m->used) return IQ_OK;
    return iq_cuda_done(c, c->api->memcpy_async(m->host, on_device(m), m->used, IQ_CUDA_TO_HOST, c->stream),
                        what);
}

int iq_cuda_step_fetch(struct iq_cuda *c)
{
    IQ_TRY(fetch(c, &c->step->changed, "reading flags"));
    return fetch(c, &c->step->digests, "reading digests");
}

static int report_strike(const struct iq_cuda_step *s, const struct call *call, const struct strike *k,
                         const struct iq_tap *tap)
{
    const uint32_t *changed = (uint32_t *)(void *)s->changed.host + k->changed;
    const uint32_t *won = s->mask.at + k->won;
    const struct iq_site *site = &call->site;
    struct iq_firing f = {.fault = k->pick.fault,
                          .step = (uint32_t)site->step->step,
                          .node = site->slot->node,
                          .batch = (uint16_t)site->step->batch};
    uint32_t first = UINT32_MAX;
    for (uint32_t r = 0; r < site->rows; r++) {
        if (!(won[r / 32] >> r % 32 & 1)) continue;
        if (first == UINT32_MAX || (changed[r] && !f.rows_changed)) first = r;
        f.rows++;
        f.rows_changed += changed[r] != 0;
    }
    if (!f.rows || !tap || !tap->fired) return IQ_OK;
    f.request = site->row[first].request;
    f.pos = site->row[first].pos;
    return tap->fired(tap->self, site, &f);
}

int iq_cuda_step_report(struct iq_cuda *c, const struct iq_slots *slots)
{
    const struct iq_cuda_step *s = c->step;
    const struct iq_digest *digest = (const struct iq_digest *)(const void *)s->digests.host;
    for (size_t i = 0; i < s->call.n; i++) {
        const struct call *call = &s->call.at[i];
        for (uint32_t k = 0; k < call->strikes; k++)
            IQ_TRY(report_strike(s, call, &s->strike.at[call->strike0 + k], slots->tap));
        for (uint32_t d = 0; d < call->digests; d++) {
            const struct digested *at = &s->digested.at[call->digested0 + d];
            for (uint32_t r = 0; r < call->site.rows; r++)
                slots->tap->cells[(size_t)call->site.row[r].cell * slots->tap->nodes + at->node] =
                    digest[at->at + r];
        }
    }
    return IQ_OK;
}
