#define _GNU_SOURCE
#include "harness/trial/record.h"

#include "harness/cli/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct recording {
    const struct iq_trial *trial;
    const struct iq_record *spec;
    struct iq_recorded *out;
    struct iq_writer *writer;
    struct iq_progress bar;
    bool drawn;
    char *libraries; /* owned: what they chose, JSON; or NULL */
    const struct iq_trial_events *user;
};

static int on_begin(void *self, const char *manifest, const struct iq_node *nodes, uint32_t n_nodes,
                    enum iq_level level, struct iq_sink *sink, unsigned char *skip, uint32_t n,
                    struct iq_err *err)
{
    struct recording *r = self;
    bool golden = r->spec->mode == IQ_WRITE_GOLDEN;
    struct iq_write_spec w = {.manifest = manifest,
                              .nodes = nodes,
                              .n_nodes = n_nodes,
                              .level = level,
                              .mode = r->spec->mode,
                              .name = r->spec->name,
                              .resume = golden,
                              .move_name = r->spec->move_name,
                              .replace = !golden};
    IQ_TRY(iq_store_begin(r->spec->store, &w, &r->writer, err));
    *sink = iq_writer_sink(r->writer);
    snprintf(r->out->run, sizeof r->out->run, "%s", iq_writer_run(r->writer));
    r->out->requests = n;
    for (uint32_t i = 0; golden && i < n; i++) r->out->resumed += skip[i] = iq_writer_has(r->writer, i);
    if (r->out->resumed)
        iq_say("%u of %u requests are recorded already%s", r->out->resumed, n,
               r->out->resumed < n ? "; going on with the rest" : "");
    if (r->spec->quiet) return IQ_OK;
    iq_progress_begin(&r->bar, golden ? "recording" : "running", "requests", r->out->resumed, n);
    r->drawn = true;
    return IQ_OK;
}

static int on_progress(void *self, const struct iq_wire_progress *p)
{
    struct recording *r = self;
    if (r->drawn) iq_progress_at(&r->bar, p->requests);
    return IQ_OK;
}

static int on_line(void *self, const char *text)
{
    const struct iq_trial_events *user = ((struct recording *)self)->user;
    return user->line(user->self, text);
}

static int on_trajectory(void *self, const char *json)
{
    const struct iq_trial_events *user = ((struct recording *)self)->user;
    return user->trajectory(user->self, json);
}

static int on_slept(void *self, size_t fault, const char *why)
{
    const struct iq_trial_events *user = ((struct recording *)self)->user;
    return user->slept(user->self, fault, why);
}

/* Kept with the run: the manifest was written before anything was chosen. */
static int on_libraries(void *self, const char *json)
{
    struct recording *r = self;
    free(r->libraries);
    if (!(r->libraries = strdup(json))) return IQ_MEMORY;
    return r->user && r->user->libraries ? r->user->libraries(r->user->self, json) : IQ_OK;
}

int iq_record_run(const struct iq_trial *trial, const struct iq_record *spec,
                  const struct iq_trial_events *user, struct iq_recorded *out, struct iq_err *err)
{
    struct recording r = {.trial = trial, .spec = spec, .out = out, .user = user};
    struct iq_trial_events events = {
        .self = &r, .begin = on_begin, .progress = on_progress, .libraries = on_libraries};
    if (user && user->line) events.line = on_line;
    if (user && user->slept) events.slept = on_slept;
    if (user && user->trajectory) events.trajectory = on_trajectory;
    struct iq_err local = {0};
    if (!err) err = &local;
    *out = (struct iq_recorded){.state = IQ_RUN_COMPLETE};
    int status = iq_trial_run(trial, &events, err);
    if (r.drawn) iq_progress_end(&r.bar);
    if (!r.writer) return status; /* no step was run */
    const struct iq_err *write_err = iq_writer_error(r.writer);
    if (status != IQ_OK && write_err->status) { /* the store failed, and the trial with it: say the cause */
        *err = *write_err;
        status = write_err->status;
    }
    if (status == IQ_CRASHED && spec->mode == IQ_WRITE_TRIAL) {
        struct iq_err crash = *err;
        out->state = IQ_RUN_CRASHED;
        snprintf(out->why, sizeof out->why, "%s", crash.text);
        if (iq_writer_crashed(r.writer, err) == IQ_OK)
            snprintf(out->run, sizeof out->run, "%s", iq_writer_run(r.writer));
        status = iq_writer_finish(r.writer, IQ_RUN_CRASHED, crash.text, err);
    } else if (status == IQ_OK) {
        status = iq_writer_finish(r.writer, IQ_RUN_COMPLETE, r.libraries, err);
    }
    if (status != IQ_OK) iq_writer_abort(r.writer);
    free(r.libraries);
    return status;
}
