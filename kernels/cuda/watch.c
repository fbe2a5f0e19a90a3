/* Planning what is watched, and reporting what was seen. */
#include "kernels/base/grow.h"
#include "kernels/cuda/watch_parts.h"

#include <stdlib.h>
#include <string.h>

#define PUSH(list)                                                                                           \
    (iq_grow(&(list).at, &(list).cap, (list).n + 1, sizeof *(list).at, NULL) ? NULL : &(list).at[(list).n++])

/* ---- memory ---- */

int iq_cuda_step_open(struct iq_cuda *c, struct iq_err *err)
{
    c->step = calloc(1, sizeof *c->step);
    return c->step ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for a step on the device");
}

static void mirror_close(struct iq_cuda *c, struct iq__mirror *m)
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

static int mirror_ready(struct iq_cuda *c, struct iq__mirror *m)
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

static int plan_strikes(struct iq_exec *x, const struct iq_site *site, const void *args,
                        struct iq__call *call)
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
        struct iq__strike *k = PUSH(s->strike);
        if (!k) return IQ_MEMORY;
        *k = (struct iq__strike){
            .pick = pick[i], .won = s->mask.n, .changed = s->changed.used / sizeof(uint32_t)};
        k->pick.rowmask = NULL; /* borrowed until the next pick */
        call->strikes++;
        s->changed.used += call->rows * sizeof(uint32_t);
        IQ_TRY(iq__pick_state(x, slot, &pick[i], &k->state));
        IQ_TRY(plan_mask(s, site, pick, n, i, call->rows));
        plan_room(s, call->rows * iq__row_bytes(slot->kind, args));
    }
    return IQ_OK;
}

static int plan_digest(struct iq_cuda_step *s, struct iq__call *call, uint16_t node)
{
    struct iq__digested *d = PUSH(s->digested);
    if (!d) return IQ_MEMORY;
    *d = (struct iq__digested){node, s->digests.used / sizeof(struct iq_digest)};
    s->digests.used += call->rows * sizeof(struct iq_digest);
    call->digests++;
    return IQ_OK;
}

static int plan_call(struct iq_cuda_step *s, const struct iq_site *site, uint32_t rows, struct iq__call **out)
{
    *out = PUSH(s->call);
    if (!*out) return IQ_MEMORY;
    **out = (struct iq__call){
        .site = *site, .rows = rows, .strike0 = (uint32_t)s->strike.n, .digested0 = (uint32_t)s->digested.n};
    return IQ_OK;
}

int iq__watch_plan(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    struct iq_cuda_step *s = x->cuda->step;
    const struct iq_slot *slot = site->slot;
    struct iq__call *call;
    IQ_TRY(plan_call(s, site, slot->kind->rows(args), &call));
    if (slot->watched & IQ_WATCH_ARMED) IQ_TRY(plan_strikes(x, site, args, call));
    if (!(slot->watched & IQ_WATCH_TAPPED)) return IQ_OK;
    for (unsigned p = 0; p < slot->points; p++)
        if (slot->tapped >> p & 1) IQ_TRY(plan_digest(s, call, (uint16_t)(slot->node + p)));
    if (slot->set->tap->bytes) plan_room(s, call->rows * iq__row_bytes(slot->kind, args));
    return IQ_OK;
}

int iq__watch_plan_whole(struct iq_cuda_step *s, const struct iq_site *site, uint32_t rows, uint16_t node,
                         size_t row_bytes)
{
    struct iq__call *call;
    if (site->slot->set->tap->bytes) plan_room(s, rows * row_bytes);
    IQ_TRY(plan_call(s, site, rows, &call));
    return plan_digest(s, call, node);
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
                        c->api->memcpy_async(iq__mirror_there(&s->masks), s->masks.host, s->masks.used,
                                             IQ_CUDA_TO_DEVICE, c->stream),
                        "copying masks");
}

struct iq_digest iq_cuda_step_key(const struct iq_cuda *c)
{
    const struct iq_cuda_step *s = c->step;
    struct iq_digest key = iq_digest_bytes("step", 4);
    for (size_t i = 0; i < s->call.n; i++) {
        const struct iq__call *call = &s->call.at[i];
        for (uint32_t k = 0; k < call->strikes; k++) {
            const struct iq__strike *strike = &s->strike.at[call->strike0 + k];
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

/* ---- the way back ---- */

static int fetch(struct iq_cuda *c, struct iq__mirror *m, const char *what)
{
    if (!m->used) return IQ_OK;
    return iq_cuda_done(
        c, c->api->memcpy_async(m->host, iq__mirror_there(m), m->used, IQ_CUDA_TO_HOST, c->stream), what);
}

int iq_cuda_step_fetch(struct iq_cuda *c)
{
    IQ_TRY(fetch(c, &c->step->changed, "reading flags"));
    return fetch(c, &c->step->digests, "reading digests");
}

static int report_strike(const struct iq_cuda_step *s, const struct iq__call *call,
                         const struct iq__strike *k, const struct iq_tap *tap)
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
        const struct iq__call *call = &s->call.at[i];
        for (uint32_t k = 0; k < call->strikes; k++)
            IQ_TRY(report_strike(s, call, &s->strike.at[call->strike0 + k], slots->tap));
        for (uint32_t d = 0; d < call->digests; d++) {
            const struct iq__digested *at = &s->digested.at[call->digested0 + d];
            for (uint32_t r = 0; r < call->site.rows; r++)
                slots->tap->cells[(size_t)call->site.row[r].cell * slots->tap->nodes + at->node] =
                    digest[at->at + r];
        }
    }
    return IQ_OK;
}
