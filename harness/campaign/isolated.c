#include "harness/campaign/isolated.h"

#include "harness/campaign/guarded.h"

#include <stdio.h>
#include <string.h>

enum { TRIES = 4 }; /* of a trial that somebody else kills */

/* Whether its trigger asks for what an op is given or makes (value.*): the scout keeps dims, not numbers. */
static bool reads_numbers(const struct iq_fault *f)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&text);
    iq_fault_json(f, &w);
    bool reads = !text.data || strstr(text.data, "\"value.");
    iq_buf_free(&text);
    return reads;
}

int iq_armed_trial_open(const struct iq_grid *g, const struct iq_context *c, uint32_t index,
                        struct iq_armed_trial *t, struct iq_err *err)
{
    *t = (struct iq_armed_trial){.at = iq_grid_trial(g, index)};
    int status = iq_grid_plan(g, index, &t->plan, err);
    if (status == IQ_OK) status = iq_faultset_open(t->plan.fault, t->plan.n, t->plan.seed, &t->set, err);
    if (status == IQ_OK) {
        iq_faultset_selector(t->set, &t->selector);
        for (size_t i = 0; i < t->plan.n; i++) t->blind |= reads_numbers(&t->plan.fault[i]);
        t->site = t->blind ? 0 : iq_scout_find(&c->scout, &t->selector, 0);
        if (t->site == SIZE_MAX) status = iq_fail(err, IQ_MEMORY, "no memory to look where a trial begins");
    }
    if (status != IQ_OK) {
        iq_err_prefix(err, "trial %u: ", index);
        iq_armed_trial_close(t);
    }
    return status;
}

void iq_armed_trial_close(struct iq_armed_trial *t)
{
    iq_faultset_close(t->set);
    iq_plan_free(&t->plan);
    t->set = NULL;
}

void iq_seen_of(const struct iq_witness *w, struct iq_seen *out)
{
    memset(out, 0, sizeof *out); /* padding too: it is sent */
    iq_witness_row(w, &out->row);
    memcpy(out->fired_faults, w->fired_faults, sizeof out->fired_faults);
    out->guilty_rows = w->guilty_rows;
    out->guilty_batch = w->guilty_batch;
    out->guilty_request = w->guilty_request;
    out->guilty_pos = w->guilty_pos;
    out->nans = w->nans;
}

void iq_isolated_none(const struct iq_context *c, struct iq_seen *out)
{
    struct iq_witness w;
    if (iq_witness_open(&w, &c->golden, NULL) != IQ_OK) return;
    iq_seen_of(&w, out);
    iq_witness_free(&w);
}

/* ---- in the trial's process ---- */

struct work {
    const struct iq_context *context;
    const struct iq_armed_trial *trial;
    struct iq_engine *engine;
};

/* Steps until the end, or until the trial is golden again and stays so: no later site is picked. */
static int run_steps(const struct work *w, struct iq_witness *witness, struct iq_err *err)
{
    for (bool more = true; more;) {
        uint64_t next = iq_engine_stats(w->engine)->steps + 1;
        IQ_TRY(iq_engine_step(w->engine, &more, err));
        const struct iq_scout *s = &w->context->scout;
        if (more && !w->trial->blind && !witness->differing &&
            iq_scout_find(s, &w->trial->selector, iq_scout_step(s, next)) == s->n)
            break;
    }
    return IQ_OK;
}

static int work(void *self, int out)
{
    const struct work *w = self;
    struct iq_witness witness;
    struct iq_seen seen;
    struct iq_err err = {0};
    if (iq_witness_open(&witness, &w->context->golden, &err) != IQ_OK) return 1;
    struct iq_sink sink = iq_witness_sink(&witness);
    iq_engine_arm(w->engine, &w->trial->selector);
    iq_engine_record(w->engine, &sink);
    int status = iq_user_explain(run_steps(w, &witness, &err), &err);
    iq_seen_of(&witness, &seen);
    if (status != IQ_OK) { /* whatever a wrong variant made of the engine */
        seen.crashed = 1;
        snprintf(seen.row.reason, sizeof seen.row.reason, "%.*s", IQ_TRIAL_REASON - 1,
                 err.text[0] ? err.text : iq_status_text(status));
    }
    return iq_guarded_write(out, &seen, sizeof seen);
}

int iq_isolated_run(const struct iq_grid *g, const struct iq_context *c, struct iq_engine *engine,
                    const struct iq_armed_trial *t, struct iq_seen *out, struct iq_err *err)
{
    struct work w = {c, t, engine};
    struct iq_guarded guarded = {.seconds = g->seconds, .mib = g->mib, .work = work, .self = &w};
    struct iq_err how = {0};
    size_t got;
    int status = IQ_LIMIT;
    for (int i = 0; i < TRIES && status == IQ_LIMIT; i++)
        status = iq_guarded_run(&guarded, out, sizeof *out, &got, &how);
    if (status != IQ_OK && status != IQ_CRASHED && status != IQ_LIMIT)
        return iq_fail(err, status, "trial %u: %s", t->at.index, how.text);
    if (status == IQ_OK) return IQ_OK;
    iq_isolated_none(c, out);
    out->crashed = 1;
    snprintf(out->row.reason, sizeof out->row.reason, "%.*s", IQ_TRIAL_REASON - 1, how.text);
    return IQ_OK;
}
