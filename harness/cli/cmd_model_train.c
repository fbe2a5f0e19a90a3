/* `model train canary`. */
#include "harness/canary/training.h"
#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/model/known.h"
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
        iq_buf_printf(&line, "step %5u  loss %.4f  right %5.1f %%  gradient %6.3f  %6.0f tok/s  %s%s", r->step, r->loss,
                      100.0 * (double)r->hits / (double)r->targets, r->norm, r->tokens_s, digest,
                      !r->golden ? ""
                      : same     ? "  as shipped"
                                 : "  NOT as shipped");
    }
    int status = iq_out_line(l->call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    const struct iq_canary_recipe *recipe = &iq_canary_dense;
    char checkpoint[IQ_PATH_MAX];
    struct listing listing = {call, false};
    struct iq_train *t = NULL;
    bool interrupted = false;
    if (strcmp(call->operands[0], "canary"))
        return iq_fail(err, IQ_USAGE, "`%s` is no model that inquest trains, expected `canary`", call->operands[0]);
    snprintf(checkpoint, sizeof checkpoint, "%s.train", iq_arg_str(call, "out"));
    struct iq_canary_training c = {
        .recipe = recipe,
        .options = {.threads = (uint32_t)iq_arg_int(call, "threads"),
                    .data_parallel = (uint32_t)iq_arg_int(call, "data-parallel"),
                    .isa = iq_arg_str(call, "isa")},
        .checkpoint = checkpoint,
        .until = iq_arg_given(call, "steps") ? (uint32_t)iq_arg_int(call, "steps") : recipe->train.steps,
        .every = (uint32_t)iq_arg_int(call, "every"),
        .report = report,
        .ctx = &listing,
    };
    if (c.until > recipe->train.steps) c.until = recipe->train.steps;
    int status = iq_canary_train(&c, &t, &interrupted, err);
    iq_train_close(t);
    if (listing.differs) call->verdict = IQ_FOUND;
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "out", .type = IQ_FLAG_STRING, .meta = "FILE", .help = "the model; its checkpoint is FILE.train", .fallback = "canary.gguf"},
    {.name = "steps", .type = IQ_FLAG_INT, .meta = "N", .help = "stop after so many steps of the recipe's", .lo = 1, .hi = 1 << 30},
    {.name = "every", .type = IQ_FLAG_INT, .meta = "N", .help = "steps between lines and checkpoints", .fallback = "100", .lo = 1, .hi = 1 << 30},
    {.name = "threads", .type = IQ_FLAG_INT, .meta = "N", .help = "threads; they change no bit", .fallback = "1", .lo = 1, .hi = 1024},
    {.name = "data-parallel", .type = IQ_FLAG_INT, .meta = "N", .help = "in-process ranks, a power of two; they change no bit", .fallback = "1", .lo = 1, .hi = 1024},
    {.name = "isa", .type = IQ_FLAG_CHOICE, .meta = "reference|scalar|avx2|avx512", .help = "instruction set; it changes no bit"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_model_train = {
    .name = "model train",
    .one_line = "train the canary from scratch, to the same bits on every machine",
    .operands = "canary",
    .operands_min = 1,
    .operands_max = 1,
    .about = "x\n",
    .examples = "inquest model train canary --threads 2\n",
    .flags = flags,
    .run = run,
};
