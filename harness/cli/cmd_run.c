#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_common.h"
#include "harness/model/fetch.h"
#include "harness/report/fired_report.h"
#include "harness/trial/record.h"
#include "kernels/base/sha256.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    struct iq_call *call;
    struct iq_prompts prompts;
    struct iq_updates updates;
    struct iq_plan plan;
    struct iq_store *store;
    struct iq_trial trial;
    cJSON *trajectory;
    char golden[IQ_DIGEST_HEX];
    struct recorded {
        char path[IQ_PATH_MAX], sha256[IQ_SHA256_HEX];
    } model, draft;         /* sha256: of one that is to be repeated */
    struct iq_fired *fired; /* (plan.n) */
    struct iq_err output;   /* why a line was not taken: the pipe knows only that */
};

/* ---- prompts, settings and plan of a recorded run ---- */

/* A model that the command line does not name: the recorded path, if it still holds the recorded bytes. `role`: the
 * manifest's member and the flag. */
static int recorded_model(struct recorded *r, const cJSON *manifest, const char *role, struct iq_err *err)
{
    const char *path, *sha256;
    char where[64];
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(manifest, role);
    snprintf(where, sizeof where, "the recorded manifest: %s", role);
    IQ_TRY(iq_json_str(model, "path", where, &path, err));
    IQ_TRY(iq_json_str(model, "sha256", where, &sha256, err));
    if (access(path, F_OK))
        return iq_fail(err, IQ_NOT_FOUND, "%s, the %s of the recorded run: %s; give its file with --%s", path,
                       role, strerror(errno), role);
    snprintf(r->path, sizeof r->path, "%s", path);
    snprintf(r->sha256, sizeof r->sha256, "%s", sha256);
    return IQ_OK;
}

static int recorded_models(struct job *j, const cJSON *manifest, struct iq_err *err)
{
    if (!iq_arg_given(j->call, "model")) {
        IQ_TRY(recorded_model(&j->model, manifest, "model", err));
        j->trial.model_sha256 = j->model.sha256;
    }
    if (iq_arg_given(j->call, "draft") || !cJSON_GetObjectItemCaseSensitive(manifest, "draft")) return IQ_OK;
    IQ_TRY(recorded_model(&j->draft, manifest, "draft", err));
    j->trial.draft_sha256 = j->draft.sha256;
    return IQ_OK;
}

static int read_manifest(struct job *j, const char *text, size_t len, bool again, uint64_t *requests,
                         struct iq_err *err)
{
    cJSON *manifest;
    const char *golden = NULL;
    IQ_TRY(iq_json_parse(text, len, "the recorded manifest", &manifest, err));
    const cJSON *engine = cJSON_GetObjectItemCaseSensitive(manifest, "engine");
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(manifest, "plan");
    int status =
        engine ? iq_settings_json(engine, "the recorded manifest: engine", &j->trial.settings, err) : IQ_OK;
    if (status == IQ_OK)
        status = iq_json_u64_opt(manifest, "requests", 0, UINT32_MAX, "the recorded manifest", requests, err);
    if (status == IQ_OK) status = iq_adapters_read(&j->prompts.adapters, manifest, err);
    if (status == IQ_OK && !j->updates.n) status = iq_updates_read(&j->updates, manifest, err);
    if (status == IQ_OK && again)
        status = iq_json_str_opt(manifest, "golden", "the recorded manifest", &golden, err);
    if (golden) snprintf(j->golden, sizeof j->golden, "%s", golden);
    if (status == IQ_OK && again && plan) {
        status = iq_plan_parse(plan, "the recorded manifest: plan", &j->plan, NULL, err);
        j->trial.plan = &j->plan;
    }
    if (status == IQ_OK) status = recorded_models(j, manifest, err);
    iq_json_free(manifest);
    return status;
}

/* The prompts of the requests that a run has kept. */
static int take_prompts(struct job *j, const struct iq_trace *t, struct iq_err *err)
{
    struct iq_request_end end;
    int status;
    for (uint32_t at = 0; (status = t->request(t->self, at, &end, err)) == IQ_OK; at = end.request + 1)
        IQ_TRY(iq_prompts_recorded(end.id, end.params, end.ids, end.n_prompt, &j->prompts, err));
    return status == IQ_NOT_FOUND ? IQ_OK : status;
}

/* A crashed run kept the requests that had ended; its golden has them all. */
static int lost_prompts(struct job *j, const char *name, uint64_t requests, struct iq_err *err)
{
    struct iq_trace golden = {0};
    if (j->prompts.n == requests) return IQ_OK;
    int status = j->golden[0] ? iq_store_trace(j->store, j->golden, &golden, err) : IQ_NOT_FOUND;
    if (status == IQ_OK) {
        iq_prompts_free(&j->prompts);
        status = take_prompts(j, &golden, err);
        iq_trace_close(&golden);
    }
    if (status == IQ_OK && j->prompts.n == requests) return IQ_OK;
    return iq_fail(err, IQ_USAGE,
                   "run %s ended after %u of its %llu requests, and no golden of this store has the others' "
                   "prompts: give "
                   "them with --prompts, and its faults with --plan",
                   name, j->prompts.n, (unsigned long long)requests);
}

/* `again`: the run itself is to be repeated; otherwise it is a golden, whose prompts and settings are taken. */
static int from_run(struct job *j, const char *name, bool again, struct iq_err *err)
{
    struct iq_trace t = {0};
    uint64_t requests = 0;
    IQ_TRY(iq_store_trace(j->store, name, &t, err));
    if (!again) snprintf(j->golden, sizeof j->golden, "%s", t.id);
    int status = take_prompts(j, &t, err);
    if (status == IQ_OK) status = read_manifest(j, t.manifest, t.manifest_len, again, &requests, err);
    iq_trace_close(&t);
    if (status == IQ_OK && again) status = lost_prompts(j, name, requests, err);
    if (j->golden[0]) j->trial.golden = j->golden;
    return status;
}

/* The plan, and libraries of users' kernels that the command line names beside it. */
static int read_plan(struct job *j, const char *path, struct iq_err *err)
{
    struct iq_user_use named[IQ_USER_FILES];
    size_t n = 0;
    if (!path && iq_arg_given(j->call, "kernels"))
        return iq_fail(
            err, IQ_USAGE,
            "--kernels needs --plan FILE, which says where its kernels strike: {\"faults\": [{\"op\": OP, "
            "\"variant\": NAME}]}; `inquest faults list --kernels FILE` lists their names");
    if (!path) return IQ_OK;
    IQ_TRY(iq_run_kernels(j->call, named, &n, err));
    IQ_TRY(iq_plan_load(path, &j->plan, &j->trial.settings, err));
    for (size_t i = 0; i < n; i++) IQ_TRY(iq_plan_add_library(&j->plan, &named[i], err));
    for (size_t i = 0; i < j->plan.libraries; i++) {
        const char *mode = iq_user_float_mode(&j->plan.library[i]);
        if (mode)
            iq_say("%s: the process that loads it %s from then on; so do its kernels, golden's do not",
                   iq_user_name(&j->plan.library[i]), mode);
    }
    j->trial.plan = &j->plan;
    return IQ_OK;
}

static int gather(struct job *j, struct iq_err *err)
{
    static const char *const recorded[] = {"prompt", "prompts", "raw",   "max-tokens", "temperature",
                                           "top-k",  "top-p",   "min-p", "seed",       NULL};
    const struct iq_call *call = j->call;
    const char *golden = iq_arg_str(call, "golden"), *again = iq_arg_str(call, "again");
    const char *plan = iq_arg_str(call, "plan"), *store = iq_arg_str(call, "store");
    iq_settings_init(&j->trial.settings);
    if ((golden || again || iq_arg_given(call, "name")) && !store)
        return iq_fail(err, IQ_USAGE, "--golden, --again and --name need --store DIR");
    if (again && (golden || plan)) return iq_fail(err, IQ_USAGE, "--again brings its own golden and plan");
    for (int i = 0; (golden || again) && recorded[i]; i++)
        if (iq_arg_given(call, recorded[i]))
            return iq_fail(err, IQ_USAGE,
                           "a recorded run brings its own prompts and sampling; leave --%s out", recorded[i]);
    IQ_TRY(iq_updates_args(call, &j->updates, err));
    j->trial.updates = &j->updates;
    if (golden || again) {
        IQ_TRY(iq_run_adapters(call, &j->prompts, err));
        IQ_TRY(iq_store_open(store, NULL, &j->store, err));
        IQ_TRY(iq_run_finished(j->store, golden ? golden : again, golden ? "golden" : "run", err));
        IQ_TRY(from_run(j, golden ? golden : again, again != NULL, err));
    } else
        IQ_TRY(iq_run_prompts(call, &j->prompts, err));
    IQ_TRY(read_plan(j, plan, err));
    iq_settings_args(call, &j->trial.settings);
    IQ_TRY(iq_run_trajectory(call, &j->trajectory, err));
    j->trial.trajectory = j->trajectory;
    j->trial.trajectory_name = iq_arg_str(call, "trajectory");
    j->trial.prompts = &j->prompts;
    if (iq_arg_given(call, "model") || !(golden || again))
        IQ_TRY(iq_model_resolve(iq_arg_str(call, "model"), j->model.path, err));
    j->trial.model = j->model.path;
    if (iq_arg_given(call, "draft")) IQ_TRY(iq_model_resolve(iq_arg_str(call, "draft"), j->draft.path, err));
    /* A recorded run's draft model has nothing to do where this one does not speculate. */
    bool idle = !iq_arg_given(call, "draft") && !j->trial.settings.speculate;
    if (j->draft.path[0] && !idle) j->trial.draft = j->draft.path;
    j->trial.lines = iq_arg_on(call, "json") ? IQ_LINES_JSON : IQ_LINES_TEXT;
    j->trial.want_trajectory = iq_arg_str(call, "save-trajectory") != NULL;
    /* Last: what can't be read shall not leave an empty store behind. */
    struct iq_store_options create = {.create = true};
    return store && !j->store ? iq_store_open(store, &create, &j->store, err) : IQ_OK;
}

/* ---- output ---- */

static int on_line(void *self, const char *text)
{
    struct job *j = self;
    struct iq_buf line = IQ_BUF(IQ_WIRE_NOTE);
    iq_buf_put(&line, text, strlen(text));
    int status = iq_out_line(j->call->out, &line, &j->output);
    iq_buf_free(&line);
    return status;
}

static int on_libraries(void *self, const char *json)
{
    (void)self;
    iq_say("libraries %s", json);
    return IQ_OK;
}

static int on_trajectory(void *self, const char *json)
{
    struct job *j = self;
    const char *path = iq_arg_str(j->call, "save-trajectory");
    FILE *f = fopen(path, "we");
    struct stat st;
    if (!f) return iq_fail(&j->output, IQ_IO, "%s: cannot be written: %s", path, strerror(errno));
    bool file = !fstat(fileno(f), &st) && S_ISREG(st.st_mode), ok = fprintf(f, "%s\n", json) > 0;
    int why = errno;
    if (fclose(f) && ok) ok = false, why = errno;
    if (ok) return IQ_OK;
    if (file) unlink(path); /* half a trajectory is none */
    return iq_fail(&j->output, IQ_IO, "%s: cannot be written: %s", path, strerror(why));
}

/* ---- faults that did nothing ---- */

static int on_fired(void *self, const struct iq_firing *r)
{
    struct job *j = self;
    iq_fired_add(j->fired, j->plan.n, r);
    return IQ_OK;
}

static int on_slept(void *self, size_t fault, const char *why)
{
    struct job *j = self;
    return iq_fired_slept(j->fired, j->plan.n, fault, why);
}

/* A run that is not kept: only its firings are of interest. */
static int on_begin(void *self, const char *manifest, const struct iq_node *nodes, uint32_t n_nodes,
                    enum iq_level level, struct iq_sink *sink, unsigned char *skip, uint32_t n,
                    struct iq_err *err)
{
    (void)manifest, (void)nodes, (void)n_nodes, (void)level, (void)skip, (void)n, (void)err;
    *sink = (struct iq_sink){.self = self, .fired = on_fired};
    return IQ_OK;
}

/* A line for each fault that never fired or changed no bit; the firings are in the run `name`, or counted already. */
static int say_fired(struct job *j, const char *name, struct iq_err *err)
{
    struct iq_trace t = {0};
    struct iq_buf text = IQ_BUF(1 << 20);
    int status = name ? iq_store_trace(j->store, name, &t, err) : IQ_OK;
    if (status == IQ_OK && name) status = iq_fired_read(j->fired, j->plan.n, &t, err);
    iq_trace_close(&t);
    if (status == IQ_OK) iq_fired_text(&j->plan, j->fired, &text);
    for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1)
        iq_say("%.*s", (int)(end - line), line);
    iq_buf_free(&text);
    return status;
}

static int record(struct job *j, const struct iq_trial_events *events, struct iq_err *err)
{
    struct iq_record r = {
        .store = j->store, .mode = IQ_WRITE_TRIAL, .name = iq_arg_str(j->call, "name"), .move_name = true};
    struct iq_recorded done;
    IQ_TRY(iq_record_run(&j->trial, &r, events, &done, err));
    iq_say("run %s%s%s%s", done.run, r.name ? " (" : "", r.name ? r.name : "", r.name ? ")" : "");
    if (done.state != IQ_RUN_CRASHED) return say_fired(j, done.run, err);
    iq_say("the trial crashed; it is recorded as such, and diff will say so: %s", done.why);
    j->call->verdict = IQ_FOUND;
    return IQ_OK;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct job j = {.call = call};
    struct iq_trial_events events = {.self = &j,
                                     .begin = on_begin,
                                     .line = on_line,
                                     .trajectory = on_trajectory,
                                     .slept = on_slept,
                                     .libraries = on_libraries};
    int status = gather(&j, err);
    if (status == IQ_OK && !(j.fired = calloc(j.plan.n + 1, sizeof *j.fired)))
        status = iq_fail(err, IQ_MEMORY, "no memory for %zu faults", j.plan.n);
    if (status == IQ_OK && j.store)
        status = record(&j, &events, err);
    else if (status == IQ_OK && (status = iq_trial_run(&j.trial, &events, err)) == IQ_OK)
        status = say_fired(&j, NULL, err);
    if (status != IQ_OK && j.output.status) *err = j.output;
    iq_store_close(j.store);
    iq_json_free(j.trajectory);
    iq_fired_free(j.fired, j.plan.n);
    iq_plan_free(&j.plan);
    iq_prompts_free(&j.prompts);
    iq_updates_free(&j.updates);
    return status;
}

static const struct iq_flag flags[] = {
    IQ_MODEL_FLAG,
    IQ_DRAFT_FLAG,
    IQ_PROMPT_FLAGS,
    IQ_ADAPTER_FLAG,
    IQ_UPDATE_FLAGS,
    {.name = "golden",
     .type = IQ_FLAG_STRING,
     .meta = "RUN",
     .help = "take prompts and settings from this run of the store"},
    {.name = "again",
     .type = IQ_FLAG_STRING,
     .meta = "RUN",
     .help = "repeat this run of the store: its prompts, settings, faults and, unless --model names another, "
             "its model"},
    {.name = "plan",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "faults that strike, and engine settings"},
    IQ_KERNELS_FLAG,
    {.name = "store",
     .type = IQ_FLAG_STRING,
     .meta = "DIR",
     .help = "keep the run in this store, whole or not at all"},
    {.name = "name",
     .type = IQ_FLAG_STRING,
     .meta = "NAME",
     .help = "a name for the run; taken from an older run that has it"},
    {.name = "level",
     .type = IQ_FLAG_CHOICE,
     .meta = "chain|ops|tensors",
     .help = "what is kept (default: golden's, else chain)"},
    {.name = "trajectory",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "form each step as recorded by --save-trajectory"},
    {.name = "save-trajectory",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "write which requests had how many tokens in each step"},
    IQ_SETTINGS_FLAGS,
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_run = {
    .name = "run",
    .one_line = "answer prompts, with or without faults",
    .about =
        "Without a plan the run is golden. With --plan its faults strike where their triggers hold (`inquest "
        "faults` lists\n"
        "them). With --store the run is kept for diff. Answers come in the order in which requests finish; "
        "where "
        "there are\n"
        "several prompts, each answer stands behind its id: [ID] ANSWER.\n"
        "\n"
        "With --json a line of JSON a request: id, prompt_ids, ids, text, finish, chain, cached (prompt "
        "tokens that "
        "a prefix hit\n"
        "brought), preempted (how often the request was evicted and computed again), with --speculate "
        "drafted "
        "and\n"
        "accepted (tokens that were guessed; those kept), steps. A step has id, logit (null where --logits "
        "keeps too few),\n"
        "margin (best minus second best logit), batch, and with --logits top, pairs of id and logit.\n"
        "Logits are the model's own, before temperature.\n"
        "\n"
        "A line of --prompts may have, beside id and one of messages, prompt and ids: max_tokens, seed, "
        "temperature, top_k, top_p,\n"
        "min_p, session, arrive_ms, ignore_stop, expect (the exact answer), adapter (a name of --adapter), "
        "bad_words (texts or\n"
        "lists of token ids that the answer must not have) and allowed (a list of the same: the answer is "
        "one "
        "of them).\n"
        "\n"
        "--kernels, or \"libraries\" of the plan, names shared libraries with kernels of your own, which "
        "faults then "
        "name as variants.\n"
        "They are built against inquest/kernel.h; a program is named in a plan alone: {\"libraries\": "
        "[{\"process\": "
        "[\"python3\",\n"
        "\"mine.py\"], \"timeout_s\": 10, \"memory_mb\": 2048}]}. Each runs in a process of its own: one "
        "that crashes, "
        "does not return,\n"
        "takes more memory or writes outside its outputs makes the trial a crashed one, with the kernel and "
        "the call "
        "named.\n"
        "\n"
        "--again takes prompts, sampling, settings, golden and faults from the recorded run. It allows "
        "--store, "
        "--name, --model,\n"
        "--level, the engine's options (--threads to --logits), which go before the recorded ones, "
        "--trajectory,\n"
        "--save-trajectory and --json.\n",
    .examples =
        "inquest run --model M.gguf --prompt 'What is the capital of France?' --max-tokens 32\n"
        "inquest run --model M.gguf --prompts P.jsonl --batch 8 --logits 20 --json\n"
        "inquest run --model M.gguf --golden golden --store S --plan plan.json --name subject --json\n"
        "inquest run --model M.gguf --golden golden --store S --speculate 3 --draft SMALL.gguf --name "
        "drafted\n"
        "inquest run --model M.gguf --golden golden --store S --plan plan.json --kernels ./mine.so --name "
        "mine\n"
        "inquest run --again subject --store S --level ops --name again\n",
    .statuses = "  1  the trial crashed (it is recorded as crashed)\n",
    .flags = flags,
    .run = run,
};
