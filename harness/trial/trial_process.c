#include "harness/trial/trial_process.h"

#include "harness/plan/variants.h"
#include "harness/report/request_line.h"
#include "harness/trial/manifest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct trial {
    const struct iq_trial *spec;
    struct iq_wire_out *wire;
    int in;
    struct iq_model *model, *draft;
    struct iq_engine *engine;
    struct iq_faultset *faults;
    struct iq_selector selector;
    struct iq_request *request; /* (n) those that are run */
    uint32_t n, ended;
    struct iq_sink wire_sink, sink;
};

int iq__write_all(int fd, const void *bytes, size_t n)
{
    for (const char *p = bytes; n;) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w < 0) return -1;
        p += w;
        n -= (size_t)w;
    }
    return 0;
}

static int read_all(int fd, void *bytes, size_t n)
{
    for (char *p = bytes; n;) {
        ssize_t r = read(fd, p, n);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) return -1;
        p += r;
        n -= (size_t)r;
    }
    return 0;
}

static int on_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    const struct iq_sink *wire = &((struct trial *)self)->wire_sink;
    return wire->row(wire->self, c, d, bytes, n);
}

static int on_position(void *self, const struct iq_position *p)
{
    const struct iq_sink *wire = &((struct trial *)self)->wire_sink;
    return wire->position(wire->self, p);
}

static int on_fired(void *self, const struct iq_firing *f)
{
    const struct iq_sink *wire = &((struct trial *)self)->wire_sink;
    return wire->fired(wire->self, f);
}

/* A request has ended: its record, then its line for the user. */
static int on_done(void *self, const struct iq_request_end *end)
{
    struct trial *t = self;
    struct iq_buf line = IQ_BUF(IQ_WIRE_NOTE - 2);
    IQ_TRY(t->wire_sink.done(t->wire_sink.self, end));
    t->ended++;
    if (t->spec->lines == IQ_LINES_NONE) return IQ_OK;
    uint32_t i = 0;
    while (t->request[i].index != end->request) i++;
    if (t->spec->lines == IQ_LINES_JSON)
        iq_request_line(end, iq_engine_output(t->engine, i), &t->spec->settings, &line);
    else if (t->spec->prompts->n > 1)
        iq_buf_printf(&line, "[%s] %s", end->id, end->text);
    else
        iq_buf_printf(&line, "%s", end->text);
    int status = line.failed ? IQ_LIMIT : iq_wire_note(t->wire, line.data ? line.data : "");
    iq_buf_free(&line);
    return status;
}

static int open_engine(struct trial *t, struct iq_err *err)
{
    struct iq_engine_config c;
    iq_settings_engine(&t->spec->settings, &c);
    /* Its steps are those of all requests. What is left of a record is run in any batches: golden bits stay the same. */
    if (t->n == t->spec->prompts->n) c.trajectory = t->spec->trajectory;
    c.trajectory_name = t->spec->trajectory_name;
    c.draft = t->draft;
    if (t->spec->updates) {
        c.event = t->spec->updates->event;
        c.events = t->spec->updates->n;
    }
    IQ_TRY(iq_engine_open(t->model, &c, t->request, t->n, &t->engine, err));
    t->wire_sink = iq_wire_sink(t->wire);
    t->sink = (struct iq_sink){t, on_row, on_position, on_fired, on_done};
    return IQ_OK;
}

/* Announces the run, and leaves out what the coordinator has already. */
static int begin(struct trial *t, struct iq_err *err)
{
    struct iq_buf manifest = IQ_BUF(IQ_WIRE_FRAME / 4);
    uint32_t n_nodes;
    char trajectory[IQ_DIGEST_HEX] = "";
    if (t->spec->trajectory) {
        char *text = cJSON_PrintUnformatted(t->spec->trajectory);
        iq_digest_hex(text ? iq_digest_bytes(text, strlen(text)) : (struct iq_digest){0}, trajectory);
        cJSON_free(text);
    }
    struct iq_manifest_parts parts = {.model_path = t->spec->model,
                                      .model = t->model,
                                      .engine = t->engine,
                                      .settings = &t->spec->settings,
                                      .prompts = t->spec->prompts,
                                      .plan = t->spec->plan,
                                      .golden = t->spec->golden,
                                      .updates = t->spec->updates,
                                      .trajectory = t->spec->trajectory ? trajectory : NULL,
                                      .draft_path = t->spec->draft,
                                      .draft = t->draft};
    const struct iq_node *nodes = iq_engine_nodes(t->engine, &n_nodes);
    int status = iq_manifest_write(&parts, &manifest, err);
    if (status == IQ_OK)
        status = iq_wire_begin(t->wire, manifest.data, nodes, n_nodes, (enum iq_level)t->spec->settings.level,
                               NULL);
    iq_buf_free(&manifest);
    if (status != IQ_OK) return status;
    unsigned char *skip = calloc(t->n ? t->n : 1, 1);
    if (!skip || read_all(t->in, skip, t->n)) {
        free(skip);
        return iq_fail(err, IQ_IO, "the coordinator is gone");
    }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < t->n; i++)
        if (!skip[i]) t->request[kept++] = t->request[i];
    free(skip);
    if (kept == t->n) return IQ_OK;
    if (kept && t->spec->updates && t->spec->updates->n)
        return iq_fail(
            err, IQ_USAGE,
            "%u of %u requests are recorded already, and which of the others come before an update of the "
            "weights depends on those: give the run another --name, or remove it (`inquest store rm`)",
            t->n - kept, t->n);
    t->ended = t->n - kept;
    t->n = kept;
    iq_engine_close(t->engine);
    t->engine = NULL;
    return kept ? open_engine(t, err) : IQ_OK;
}

/* JSON to the coordinator: the trajectory, or what libraries chose, if anything. */
static int note(struct trial *t, char mark, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(IQ_WIRE_NOTE - 2);
    struct iq_jw w = IQ_JW(&text);
    int status = IQ_OK;
    iq_buf_put(&text, &mark, 1);
    if (mark == IQ__LIBRARIES_MARK)
        iq_engine_libraries(t->engine, &w);
    else
        status = iq_engine_trajectory(t->engine, &w);
    bool empty = mark == IQ__LIBRARIES_MARK && text.len <= sizeof "{}";
    if (status == IQ_OK && !empty) status = text.failed ? IQ_LIMIT : iq_wire_note(t->wire, text.data);
    iq_buf_free(&text);
    return status == IQ_OK
               ? IQ_OK
               : iq_fail(err, status, "%s too long to be kept",
                         mark == IQ__LIBRARIES_MARK ? "what libraries chose is" : "the trajectory is");
}

/* A note for each fault that never struck. */
static int say_slept(struct trial *t, struct iq_err *err)
{
    for (size_t i = 0; t->faults && i < t->spec->plan->n; i++) {
        struct iq_buf why = IQ_BUF(IQ_WIRE_NOTE - 64), text = IQ_BUF(IQ_WIRE_NOTE - 2);
        iq_faultset_slept(t->faults, i, &why);
        int status = IQ_OK;
        if (why.len) {
            iq_buf_printf(&text, "%c%zu %s", IQ__SLEPT_MARK, i, why.data);
            status = iq_wire_note(t->wire, text.data);
        }
        iq_buf_free(&why);
        iq_buf_free(&text);
        if (status != IQ_OK) return iq_fail(err, status, "why fault %zu never struck can't be told", i);
    }
    return IQ_OK;
}

/* A step that finds no memory, or that a device fails, is the end of the subject, as a crash is: what was recorded stays. */
static int step(struct trial *t, bool *more, struct iq_err *err)
{
    int status = iq_user_explain(iq_engine_step(t->engine, more, err), err);
    bool device = iq_engine_device(t->engine) && (status == IQ_INTERNAL || status == IQ_UNSUPPORTED);
    if (status != IQ_MEMORY && !device) return status;
    struct iq_err why = *err;
    return iq_fail(err, IQ_CRASHED, "%s", why.text);
}

/* A change that never came is no change. */
static int check_updates(const struct trial *t, struct iq_err *err)
{
    const struct iq_updates *u = t->spec->updates;
    const struct iq_engine_stats *s = iq_engine_stats(t->engine);
    if (!u || s->updates == u->n) return IQ_OK;
    return iq_fail(
        err, IQ_USAGE,
        "the run ended after %llu steps, before the weights changed at step %u: choose an earlier step, or "
        "let requests arrive later",
        (unsigned long long)s->steps, u->at[s->updates].step);
}

static int run_steps(struct trial *t, struct iq_err *err)
{
    uint32_t total = t->n + t->ended;
    if (!t->engine) return IQ_OK; /* everything was recorded before */
    if (t->faults) iq_engine_arm(t->engine, &t->selector);
    iq_engine_record(t->engine, &t->sink);
    for (bool more = t->n > 0; more;) {
        IQ_TRY(step(t, &more, err));
        const struct iq_engine_stats *s = iq_engine_stats(t->engine);
        struct iq_wire_progress p = {
            .requests = t->ended, .requests_total = total, .tokens = s->tokens, .step = s->steps};
        IQ_TRY(iq_wire_progress(t->wire, &p));
    }
    IQ_TRY(check_updates(t, err));
    IQ_TRY(note(t, IQ__LIBRARIES_MARK, err));
    IQ_TRY(say_slept(t, err));
    return t->spec->want_trajectory ? note(t, IQ__TRAJECTORY_MARK, err) : IQ_OK;
}

static int check_sha256(const char *path, const struct iq_model *m, const char *want, const char *flag,
                        struct iq_err *err)
{
    if (!want || !strcmp(want, m->sha256)) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH,
                   "%s: found SHA-256 %s, the recorded run's model had %s; give its file with %s", path,
                   m->sha256, want, flag);
}

static int open_models(struct trial *t, struct iq_err *err)
{
    const struct iq_trial *spec = t->spec;
    struct iq_model_options o;
    iq_settings_model(&spec->settings, &o);
    IQ_TRY(iq_model_open(spec->model, &o, &t->model, err));
    IQ_TRY(check_sha256(spec->model, t->model, spec->model_sha256, "--model", err));
    if (spec->updates) IQ_TRY(iq_updates_open(spec->updates, &o, err));
    if (!spec->draft) return IQ_OK;
    o.tp = o.expert_parallel = 1; /* it is small */
    o.positions = 0;
    IQ_TRY(iq_model_open(spec->draft, &o, &t->draft, err));
    return check_sha256(spec->draft, t->draft, spec->draft_sha256, "--draft", err);
}

static int run(struct trial *t, struct iq_err *err)
{
    const struct iq_trial *spec = t->spec;
    IQ_TRY(iq_variants_register(err));
    if (spec->plan)
        IQ_TRY(
            iq_plan_start(spec->plan, err)); /* before there are threads, and memory that it need not see */
    IQ_TRY(open_models(t, err));
    IQ_TRY(iq_prompts_tokenize(spec->prompts, t->model, err));
    t->n = spec->prompts->n;
    t->request = malloc((t->n ? t->n : 1) * sizeof *t->request);
    if (!t->request) return iq_fail(err, IQ_MEMORY, "no memory for %u requests", t->n);
    memcpy(t->request, spec->prompts->request, t->n * sizeof *t->request);
    iq_settings_arrivals(&spec->settings, t->request, t->n);
    if (spec->plan && spec->plan->n) {
        IQ_TRY(iq_plan_check_ops(spec->plan, false, err));
        IQ_TRY(iq_plan_check_device(spec->plan, &spec->settings, err));
        IQ_TRY(iq_faultset_open(spec->plan->fault, spec->plan->n, spec->plan->seed, &t->faults, err));
        iq_faultset_selector(t->faults, &t->selector);
    }
    IQ_TRY(open_engine(t, err));
    IQ_TRY(begin(t, err));
    return run_steps(t, err);
}

int iq__trial_process(const struct iq_trial *spec, int out, int in)
{
    struct trial t = {.spec = spec, .in = in};
    struct iq_err err = {0};
    signal(SIGPIPE, SIG_IGN);
    if (iq_wire_open(out, &t.wire, &err) != IQ_OK) return 1;
    int status = run(&t, &err);
    if (status == IQ_OK)
        status = iq_wire_end(t.wire);
    else {
        if (!err.text[0]) iq_fail(&err, status, "%s", iq_status_text(status));
        status = iq_wire_fail(t.wire, &err);
    }
    iq_user_stop();
    iq_engine_close(t.engine);
    iq_faultset_close(t.faults);
    iq_model_close(t.model);
    iq_model_close(t.draft);
    free(t.request);
    iq_wire_close(t.wire);
    return status != IQ_OK;
}
