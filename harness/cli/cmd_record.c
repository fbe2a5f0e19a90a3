#include "harness/cli/commands.h"
#include "harness/cli/run_common.h"
#include "harness/model/fetch.h"
#include "harness/trial/record.h"

static int print(struct iq_call *call, const struct iq_recorded *done, struct iq_store *store,
                 struct iq_err *err)
{
    struct iq_trace t = {0};
    struct iq_buf line = IQ_BUF((size_t)1 << 30);
    struct iq_jw w = IQ_JW(&line);
    struct iq_request_end end;
    char hex[IQ_DIGEST_HEX];
    bool json = iq_arg_on(call, "json");
    IQ_TRY(iq_store_trace(store, done->run, &t, err));
    if (json) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "run"), iq_jw_str(&w, done->run);
        if (iq_arg_str(call, "name")) iq_jw_key(&w, "name"), iq_jw_str(&w, iq_arg_str(call, "name"));
        iq_jw_key(&w, "resumed"), iq_jw_u64(&w, done->resumed);
        iq_jw_key(&w, "requests");
        iq_jw_begin(&w, '[');
    } else
        iq_buf_printf(&line, "run %s\n", done->run);
    int status;
    for (uint32_t at = 0; (status = t.request(t.self, at, &end, err)) == IQ_OK; at = end.request + 1) {
        iq_digest_hex(end.chain, hex);
        if (!json) {
            iq_buf_printf(&line, "%-24s %4u + %4u tokens  chain %s\n", end.id, end.n_prompt,
                          end.n_ids - end.n_prompt, hex);
            continue;
        }
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "id"), iq_jw_str(&w, end.id);
        iq_jw_key(&w, "chain"), iq_jw_str(&w, hex);
        iq_jw_key(&w, "tokens"), iq_jw_u64(&w, end.n_ids - end.n_prompt);
        iq_jw_end(&w, '}');
    }
    if (json) {
        iq_jw_end(&w, ']');
        iq_jw_end(&w, '}');
    } else if (line.len)
        line.len--; /* the last newline: the writer adds one */
    iq_trace_close(&t);
    if (status == IQ_NOT_FOUND) status = iq_out_line(call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

static int run_with(struct iq_call *call, const char *model, const char *draft, struct iq_prompts *prompts,
                    struct iq_updates *updates, cJSON *trajectory, struct iq_store *store, struct iq_err *err)
{
    struct iq_trial t = {.model = model,
                         .draft = draft,
                         .prompts = prompts,
                         .updates = updates,
                         .trajectory = trajectory,
                         .trajectory_name = iq_arg_str(call, "trajectory")};
    struct iq_record r = {.store = store,
                          .mode = IQ_WRITE_GOLDEN,
                          .name = iq_arg_str(call, "name"),
                          .move_name = iq_arg_on(call, "move-name")};
    struct iq_recorded done;
    iq_settings_init(&t.settings);
    iq_settings_args(call, &t.settings);
    IQ_TRY(iq_record_run(&t, &r, NULL, &done, err));
    return print(call, &done, store, err);
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct iq_prompts prompts = {0};
    struct iq_updates updates = {0};
    struct iq_store *store = NULL;
    cJSON *trajectory = NULL;
    const char *draft = iq_arg_str(call, "draft");
    char model[IQ_PATH_MAX], guesser[IQ_PATH_MAX];
    struct iq_store_options o = {.create = true,
                                 .max_bytes = (uint64_t)iq_arg_int(call, "store-limit") << 20};
    int status = iq_run_prompts(call, &prompts, err);
    if (status == IQ_OK) status = iq_updates_args(call, &updates, err);
    if (status == IQ_OK) status = iq_run_trajectory(call, &trajectory, err);
    if (status == IQ_OK) status = iq_model_resolve(iq_arg_str(call, "model"), model, err);
    if (status == IQ_OK && draft) status = iq_model_resolve(draft, guesser, err);
    if (status == IQ_OK) status = iq_store_open(iq_arg_str(call, "store"), &o, &store, err);
    if (status == IQ_OK)
        status = run_with(call, model, draft ? guesser : NULL, &prompts, &updates, trajectory, store, err);
    iq_store_close(store);
    iq_json_free(trajectory);
    iq_prompts_free(&prompts);
    iq_updates_free(&updates);
    return status;
}

static const struct iq_flag flags[] = {
    IQ_MODEL_FLAG,
    IQ_DRAFT_FLAG,
    IQ_PROMPT_FLAGS,
    IQ_ADAPTER_FLAG,
    IQ_UPDATE_FLAGS,
    {.name = "store",
     .type = IQ_FLAG_STRING,
     .meta = "DIR",
     .help = "the store; made if it is not there",
     .required = true},
    {.name = "name", .type = IQ_FLAG_STRING, .meta = "NAME", .help = "a name for the run"},
    {.name = "move-name", .type = IQ_FLAG_SWITCH, .help = "take the name from another run"},
    {.name = "level",
     .type = IQ_FLAG_CHOICE,
     .meta = "chain|ops|tensors",
     .fallback = "chain",
     .help = "what is kept: a chain link a position, digests of every op, contents too"},
    {.name = "store-limit",
     .type = IQ_FLAG_INT,
     .meta = "MIB",
     .lo = 0,
     .hi = 1 << 30,
     .fallback = "0",
     .help = "refuse to let the store grow beyond this; 0: the disk"},
    {.name = "trajectory",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "form each step as recorded by run --save-trajectory"},
    IQ_SETTINGS_FLAGS,
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_record = {
    .name = "record",
    .one_line = "run prompts golden and keep the trace in a store",
    .about = "Golden bits depend on the model, the prompt and the sampling parameters alone: not on batch, "
             "chunk, threads,\n"
             "prefix hits, preemption or instruction set. Each finished request is committed at once; a "
             "record that was\n"
             "broken off goes on where it stopped when the same command is given again.\n",
    .examples = "inquest record --model M.gguf --prompts P.jsonl --store S --name golden --level ops\n"
                "inquest record --model M.gguf --prompt 'What is 2+2?' --max-tokens 16 --store S --json\n",
    .flags = flags,
    .run = run,
};
