/* `model train canary`. */
#include "harness/canary/export.h"
#include "harness/canary/training.h"
#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/model/known.h"
#include "harness/plan/armed.h"
#include "kernels/base/json.h"

#include <stdio.h>
#include <string.h>

struct listing {
    struct iq_call *call;
    bool differs;
};

/* A line for a stretch of steps. */
static int report(void *ctx, const struct iq_canary_report *r, struct iq_err *err)
{
    struct listing *l = ctx;
    struct iq_buf line = IQ_BUF(4096);
    char digest[IQ_DIGEST_HEX];
    iq_digest_hex(r->digest, digest);
    bool same = r->golden && !strcmp(r->golden, digest);
    if (r->golden && !same) l->differs = true;
    if (iq_arg_on(l->call, "json")) {
        struct iq_jw w = IQ_JW(&line);
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "step"), iq_jw_u64(&w, r->step);
        iq_jw_key(&w, "loss"), iq_jw_f64(&w, r->loss);
        iq_jw_key(&w, "gradient_norm"), iq_jw_f64(&w, r->norm);
        iq_jw_key(&w, "learning_rate"), iq_jw_f64(&w, r->rate);
        iq_jw_key(&w, "targets"), iq_jw_u64(&w, r->targets);
        iq_jw_key(&w, "hits"), iq_jw_u64(&w, r->hits);
        iq_jw_key(&w, "tokens_per_s"), iq_jw_f64(&w, r->tokens_s);
        iq_jw_key(&w, "digest"), iq_jw_str(&w, digest);
        if (r->golden) iq_jw_key(&w, "as_shipped"), iq_jw_bool(&w, same);
        iq_jw_end(&w, '}');
    } else {
        iq_buf_printf(&line, "step %5u  loss %.4f  right %5.1f %%  gradient %6.3f  %6.0f tok/s  %s%s",
                      r->step, r->loss, 100.0 * (double)r->hits / (double)r->targets, r->norm, r->tokens_s,
                      digest,
                      !r->golden ? ""
                      : same     ? "  as shipped"
                                 : "  NOT as shipped");
    }
    int status = iq_out_line(l->call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

/* The model's file, and a line for it. */
static int write_model(struct iq_call *call, const struct iq_canary_recipe *recipe, const struct iq_train *t,
                       struct iq_err *err)
{
    const char *path = iq_arg_str(call, "out");
    const uint32_t step = iq_train_steps_done(t);
    const bool whole = step == iq_train_steps(&recipe->train) && recipe->sha256;
    struct iq_buf line = IQ_BUF(1 << 16);
    char sha256[IQ_SHA256_HEX];
    IQ_TRY(iq_canary_export(t, path, sha256, err));
    const bool same = whole && !strcmp(sha256, recipe->sha256);
    if (whole && !same) call->verdict = IQ_FOUND;
    if (iq_arg_on(call, "json")) {
        struct iq_jw w = IQ_JW(&line);
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "model"), iq_jw_str(&w, path);
        iq_jw_key(&w, "step"), iq_jw_u64(&w, step);
        iq_jw_key(&w, "sha256"), iq_jw_str(&w, sha256);
        if (whole) iq_jw_key(&w, "as_shipped"), iq_jw_bool(&w, same);
        iq_jw_end(&w, '}');
    } else {
        iq_buf_printf(&line, "%s  step %u of %u  SHA-256 %s%s", path, step, iq_train_steps(&recipe->train),
                      sha256,
                      !whole ? ""
                      : same ? "  as shipped"
                             : "  NOT as shipped");
    }
    int status = iq_out_line(call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

/* A plan's run has a checkpoint of its own: it goes on only under the same plan. */
static void name_checkpoint(const struct iq_call *call, const struct iq_armed *armed, char path[IQ_PATH_MAX])
{
    char digest[IQ_DIGEST_HEX] = "";
    if (armed->plan.n) iq_digest_hex(iq_armed_digest(armed), digest);
    snprintf(path, IQ_PATH_MAX, "%s%s%.8s.train", iq_arg_str(call, "out"), *digest ? "." : "", digest);
}

/* A line for each fault that never fired or changed no bit. */
static int run(struct iq_call *call, struct iq_err *err)
{
    const struct iq_canary_recipe *recipe = iq_arg_on(call, "moe") ? &iq_canary_moe : &iq_canary_dense;
    char checkpoint[IQ_PATH_MAX];
    struct listing listing = {call, false};
    struct iq_train *t = NULL;
    struct iq_armed armed = {0};
    bool interrupted = false;
    if (strcmp(call->operands[0], "canary"))
        return iq_fail(err, IQ_USAGE, "`%s` is no model that inquest trains, expected `canary`",
                       call->operands[0]);
    if (iq_arg_str(call, "plan")) IQ_TRY(iq_armed_load(iq_arg_str(call, "plan"), &armed, err));
    name_checkpoint(call, &armed, checkpoint);
    struct iq_canary_training c = {
        .recipe = recipe,
        .options = {.threads = (uint32_t)iq_arg_int(call, "threads"),
                    .data_parallel = (uint32_t)iq_arg_int(call, "data-parallel"),
                    .isa = iq_arg_str(call, "isa")},
        .checkpoint = checkpoint,
        .until = iq_arg_given(call, "steps") ? (uint32_t)iq_arg_int(call, "steps")
                                             : iq_train_steps(&recipe->train),
        .every = (uint32_t)iq_arg_int(call, "every"),
        .report = report,
        .ctx = &listing,
    };
    if (c.until > iq_train_steps(&recipe->train)) c.until = iq_train_steps(&recipe->train);
    if (armed.plan.n) iq_armed_options(&armed, &c.options);
    int status = iq_canary_train(&c, &t, &interrupted, err);
    if (status == IQ_OK && armed.plan.n) iq_armed_say(&armed);
    if (status == IQ_OK && !interrupted) status = write_model(call, recipe, t, err);
    iq_train_close(t);
    iq_armed_close(&armed);
    if (listing.differs) call->verdict = IQ_FOUND;
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "moe",
     .type = IQ_FLAG_SWITCH,
     .help = "the canary that is a mixture of experts, not the dense one"},
    {.name = "out",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "the model; its checkpoint is FILE.train",
     .fallback = "canary.gguf"},
    {.name = "steps",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "stop after so many steps of the recipe's",
     .lo = 1,
     .hi = 1 << 30},
    {.name = "every",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "steps between lines and checkpoints",
     .fallback = "100",
     .lo = 1,
     .hi = 1 << 30},
    {.name = "threads",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "threads; they change no bit",
     .fallback = "1",
     .lo = 1,
     .hi = 1024},
    {.name = "data-parallel",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "in-process ranks, a power of two; they change no bit",
     .fallback = "1",
     .lo = 1,
     .hi = 256},
    {.name = "plan",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "faults that strike the ops of training; its checkpoint is FILE.PLAN.train"},
    {.name = "isa",
     .type = IQ_FLAG_CHOICE,
     .meta = "reference|scalar|avx2|avx512",
     .help = "instruction set; it changes no bit"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_model_train = {
    .name = "model train",
    .one_line = "train the canary from scratch, to the same bits on every machine",
    .operands = "canary",
    .operands_min = 1,
    .operands_max = 1,
    .about =
        "Rows of questions with exact answers (`canary tasks`), AdamW, float32: the same recipe gives the "
        "same file on\n"
        "every machine, with any number of threads and ranks. A line for every 100 steps has the digest of "
        "weights\n"
        "and moments, and whether the run that made the shipped file had the same. A run that was broken off "
        "goes\n"
        "on from its checkpoint; SIGINT finishes the step in hand. --plan strikes the ops of training.\n",
    .examples = "inquest model train canary --threads 2\n"
                "inquest model train canary --steps 200 --data-parallel 4 --json\n",
    .statuses = "  1  a digest or the finished file is not the shipped run's\n",
    .flags = flags,
    .run = run,
};
