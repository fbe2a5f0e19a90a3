#include "harness/plan/check.h"

#include <stdlib.h>
#include <string.h>

bool iq_plan_trains(const struct iq_plan *p)
{
    for (size_t i = 0; i < p->n; i++) {
        bool answers = false, trains = false;
        for (unsigned op = 0; op < IQ_ALL_OPS; op++)
            if (iq_fault_at(&p->fault[i], (enum iq_op_id)op)) *(iq_op_trains(op) ? &trains : &answers) = true;
        if (trains && !answers) return true;
    }
    return false;
}

struct checking {
    const struct iq_plan *plan;
    struct iq_plan_world *world;
    struct iq_world view;
    struct iq_plan_finding *out;
    bool trains;
};

/* The ops that a fault may strike, and why it strikes none. */
static void find_ops(const struct checking *c, size_t i)
{
    const struct iq_fault *f = &c->plan->fault[i];
    struct iq_plan_finding *out = &c->out[i];
    struct iq_buf first = IQ_BUF(4096);
    unsigned n = 0, refused = 0;
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        const char *lacking;
        struct iq_buf why = IQ_BUF(4096);
        if (iq_op_trains(op) != c->trains || !iq_fault_at(f, (enum iq_op_id)op)) continue;
        bool never = !iq_plan_world_has(c->world, (enum iq_op_id)op, &lacking);
        if (never)
            iq_buf_printf(&why, "there is no %s: %s", iq_op_name(op), lacking);
        else
            never = iq_trigger_never(f->when, (enum iq_op_id)op, &c->view, &why);
        if (!never) out->op[n++] = iq_op_name(op);
        if (never && !refused++) iq_buf_printf(&first, "%s", why.data);
        iq_buf_free(&why);
    }
    if (!n && refused > 1)
        iq_buf_printf(&first, "; and at none of the other ops of %s either", f->kind->name);
    if (!n && first.data) iq_buf_printf(&out->why, "%s", first.data);
    iq_buf_free(&first);
}

/* Requests of a session side by side, the first arrival first; those without a session apart. */
static int by_session(const void *a, const void *b)
{
    const struct iq_request *p = *(const struct iq_request *const *)a,
                            *q = *(const struct iq_request *const *)b;
    if (p->session != q->session) return p->session < q->session ? -1 : 1;
    return (p->arrive_us > q->arrive_us) - (p->arrive_us < q->arrive_us);
}

/* How many of the prompts' requests, or of their sessions, are drawn. */
static int count_drawn(const struct checking *c, const struct iq_faultset *set, size_t i, struct iq_err *err)
{
    const struct iq_prompts *p = c->world->prompts;
    const struct iq_fault *f = &c->plan->fault[i];
    struct iq_plan_finding *out = &c->out[i];
    struct iq_step step = {.start_s = c->world->settings->start_s};
    bool sessions = f->per == IQ_PER_SESSION, sticky = sessions || f->per == IQ_PER_REQUEST;
    if (!p || !sticky || !iq_fault_draws(f) || (f->ramp && c->world->settings->arrivals)) return IQ_OK;
    const struct iq_request **order = calloc((size_t)p->n + 1, sizeof(struct iq_request *));
    if (!order) return iq_fail(err, IQ_MEMORY, "no memory for %u prompts", p->n);
    for (uint32_t q = 0; q < p->n; q++) order[q] = &p->request[q];
    qsort(order, p->n, sizeof(struct iq_request *), by_session);
    for (uint32_t q = 0; q < p->n; q++) {
        const struct iq_request *r = order[q];
        struct iq_row row = {.request = r->index,
                             .session = r->session,
                             .arrived_us = r->arrive_us,
                             .session_us = r->arrive_us};
        if (sessions && r->session && q && order[q - 1]->session == r->session) continue;
        out->of++;
        out->drawn += iq_faultset_drawn(set, i, &step, &row);
    }
    free(order);
    if (out->of && !out->drawn)
        iq_buf_printf(&out->why, "its draws strike none of the %u %s%s; another seed or a higher rate would",
                      out->of, sessions ? "session" : "request", out->of == 1 ? "" : "s");
    return IQ_OK;
}

static bool among(const char *const *list, const char *name)
{
    while (*list && strcmp(*list, name)) list++;
    return *list != NULL;
}

/* A later fault that strikes every row that this one could. */
static void find_cover(const struct checking *c, size_t i)
{
    const struct iq_plan_finding *own = &c->out[i];
    for (size_t j = i + 1; j < c->plan->n; j++) {
        const struct iq_fault *late = &c->plan->fault[j];
        bool whole = !iq_fault_draws(late) && !late->variant->supports && !c->out[j].why.len;
        for (size_t k = 0; own->op[k] && whole; k++) whole = among(c->out[j].op, own->op[k]);
        if (!whole || !iq_trigger_covers(late->when, c->plan->fault[i].when)) continue;
        iq_buf_printf(&c->out[i].why,
                      "fault %zu (%s) stands later and strikes wherever it could, so that it wins", j,
                      late->name);
        return;
    }
}

int iq_plan_check(const struct iq_plan *p, struct iq_plan_world *world, struct iq_plan_finding *out,
                  struct iq_err *err)
{
    struct checking c = {p, world, iq_plan_world_view(world), out, iq_plan_trains(p)};
    struct iq_faultset *set;
    IQ_TRY(iq_plan_check_ops(p, c.trains, err));
    if (!c.trains) IQ_TRY(iq_plan_check_device(p, world->settings, err));
    IQ_TRY(iq_faultset_open(p->fault, p->n, p->seed, &set, err));
    int status = IQ_OK;
    for (size_t i = 0; i < p->n; i++) {
        out[i].why = IQ_BUF(1 << 16);
        find_ops(&c, i);
        if (!out[i].why.len && !p->fault[i].rate) iq_buf_printf(&out[i].why, "its rate is 0");
        if (!out[i].why.len && status == IQ_OK) status = count_drawn(&c, set, i, err);
    }
    for (size_t i = p->n; i-- > 0;)
        if (!out[i].why.len) find_cover(&c, i);
    iq_faultset_close(set);
    for (size_t i = 0; i < p->n && status == IQ_OK; i++)
        if (out[i].why.failed)
            status = iq_fail(err, IQ_MEMORY, "no memory for what is to be said of %zu faults", p->n);
    return status;
}

void iq_plan_findings_free(struct iq_plan_finding *f, size_t n)
{
    for (size_t i = 0; f && i < n; i++) iq_buf_free(&f[i].why);
}
