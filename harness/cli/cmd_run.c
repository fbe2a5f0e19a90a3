#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_common.h"
#include "harness/model/known.h"
#include "harness/trial/record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct job {
    struct iq_call *call;
    struct iq_prompts prompts;
    struct iq_plan plan;
    struct iq_store *store;
    struct iq_trial trial;
    cJSON *trajectory;
    char golden[IQ_DIGEST_HEX], model[IQ_PATH_MAX];
    struct iq_err output; /* why a line was not taken: the pipe knows only that */
};

/* ---- prompts, settings and plan of a recorded run ---- */

static int read_manifest(struct job *j, const char *text, size_t len, bool again, struct iq_err *err)
{
    cJSON *manifest;
    const char *golden = NULL;
    IQ_TRY(iq_json_parse(text, len, "the recorded manifest", &manifest, err));
    const cJSON *engine = cJSON_GetObjectItemCaseSensitive(manifest, "engine");
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(manifest, "plan");
    int status =
        engine ? iq_settings_json(engine, "the recorded manifest: engine", &j->trial.settings, err) : IQ_OK;
    if (status == IQ_OK && again)
        status = iq_json_str_opt(manifest, "golden", "the recorded manifest", &golden, err);
    if (golden) snprintf(j->golden, sizeof j->golden, "%s", golden);
    if (status == IQ_OK && again && plan) {
        status = iq_plan_parse(plan, "the recorded manifest: plan", &j->plan, NULL, err);
        j->trial.plan = &j->plan;
    }
    iq_json_free(manifest);
    return status;
}

/* `again`: the run itself is to be repeated; otherwise it is a golden, whose prompts and settings are taken. */
static int from_run(struct job *j, const char *name, bool again, struct iq_err *err)
{
    struct iq_trace t = {0};
    struct iq_request_end end;
    int status;
    IQ_TRY(iq_store_trace(j->store, name, &t, err));
    if (!again) snprintf(j->golden, sizeof j->golden, "%s", t.id);
    for (uint32_t at = 0; (status = t.request(t.self, at, &end, err)) == IQ_OK; at = end.request + 1)
        if ((status = iq_prompts_recorded(end.id, end.params, end.ids, end.n_prompt, &j->prompts, err)) !=
            IQ_OK)
            break;
    if (status == IQ_NOT_FOUND) status = read_manifest(j, t.manifest, t.manifest_len, again, err);
    if (j->golden[0]) j->trial.golden = j->golden;
    iq_trace_close(&t);
    return status;
}

static int gather(struct job *j, struct iq_err *err)
{
    const struct iq_call *call = j->call;
    const char *golden = iq_arg_str(call, "golden"), *again = iq_arg_str(call, "again");
    const char *plan = iq_arg_str(call, "plan"), *store = iq_arg_str(call, "store");
    iq_settings_init(&j->trial.settings);
    if ((golden || again || iq_arg_given(call, "name")) && !store)
        return iq_fail(err, IQ_USAGE, "--golden, --again and --name need --store DIR");
    if (again && (golden || plan)) return iq_fail(err, IQ_USAGE, "--again brings its own golden and plan");
    if ((golden || again) && (iq_arg_str(call, "prompt") || iq_arg_str(call, "prompts")))
        return iq_fail(err, IQ_USAGE,
                       "a recorded run brings its own prompts; leave --prompt and --prompts out");
    if (golden || again) {
        IQ_TRY(iq_store_open(store, NULL, &j->store, err));
        IQ_TRY(from_run(j, golden ? golden : again, again != NULL, err));
    } else
        IQ_TRY(iq_run_prompts(call, &j->prompts, err));
    if (plan) {
        IQ_TRY(iq_plan_load(plan, &j->plan, &j->trial.settings, err));
        j->trial.plan = &j->plan;
    }
    iq_settings_args(call, &j->trial.settings);
    IQ_TRY(iq_run_trajectory(call, &j->trajectory, err));
    j->trial.trajectory = j->trajectory;
    j->trial.trajectory_name = iq_arg_str(call, "trajectory");
    j->trial.prompts = &j->prompts;
    IQ_TRY(iq_model_resolve(iq_arg_str(call, "model"), j->model, err));
    j->trial.model = j->model;
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

static int record(struct job *j, const struct iq_trial_events *events, struct iq_err *err)
{
    struct iq_record r = {
        .store = j->store, .mode = IQ_WRITE_TRIAL, .name = iq_arg_str(j->call, "name"), .move_name = true};
    struct iq_recorded done;
    IQ_TRY(iq_record_run(&j->trial, &r, events, &done, err));
    iq_say("run %s%s%s%s", done.run, r.name ? " (" : "", r.name ? r.name : "", r.name ? ")" : "");
    if (done.state != IQ_RUN_CRASHED) return IQ_OK;
    iq_say("the trial crashed; it is recorded as such, and diff will say so");
    j->call->verdict = IQ_FOUND;
    return IQ_OK;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct job j = {.call = call};
    struct iq_trial_events events = {.self = &j, .line = on_line, .trajectory = on_trajectory};
    int status = gather(&j, err);
    if (status == IQ_OK) status = j.store ? record(&j, &events, err) : iq_trial_run(&j.trial, &events, err);
    if (status != IQ_OK && j.output.status) *err = j.output;
    iq_store_close(j.store);
    iq_json_free(j.trajectory);
    iq_plan_free(&j.plan);
    iq_prompts_free(&j.prompts);
    return status;
}

static const struct iq_flag flags[] = {
    IQ_MODEL_FLAG,
    IQ_PROMPT_FLAGS,
    {.name = "golden",
     .type = IQ_FLAG_STRING,
     .meta = "RUN",
     .help = "take prompts and settings from this run of the store"},
    {.name = "again",
     .type = IQ_FLAG_STRING,
     .meta = "RUN",
     .help = "repeat this run of the store: its prompts, settings and faults"},
    {.name = "plan",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "faults that strike, and engine settings"},
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
    .about = "Without a plan the run is golden. With --plan its faults strike where their triggers hold. "
             "With --store the run\n"
             "is kept for diff. With --json a line of JSON a request: id, prompt_ids, ids, text, finish, "
             "chain, steps.\n"
             "A step has id, logit (null where --logits keeps too few), margin (best minus second best "
             "logit), batch, and with\n"
             "--logits top, pairs of id and logit. Logits are the model's own, before temperature.\n",
    .examples =
        "inquest run --model M.gguf --prompt 'What is the capital of France?' --max-tokens 32\n"
        "inquest run --model M.gguf --prompts P.jsonl --batch 8 --logits 20 --json\n"
        "inquest run --model M.gguf --golden golden --store S --plan plan.json --name subject --json\n",
    .statuses = "  1  the trial crashed (it is recorded as crashed)\n",
    .flags = flags,
    .run = run,
};
