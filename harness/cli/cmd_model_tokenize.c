#include "harness/cli/commands.h"
#include "harness/model/fetch.h"

#include "engine/model.h"

#include <string.h>

static int print(struct iq_call *call, const struct iq_model *m, const struct iq_ids *ids, struct iq_err *err)
{
    struct iq_buf line = IQ_BUF((size_t)1 << 30);
    struct iq_jw w = IQ_JW(&line);
    if (iq_arg_on(call, "json")) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "ids"), iq_jw_begin(&w, '[');
        for (size_t i = 0; i < ids->n; i++) iq_jw_u64(&w, ids->id[i]);
        iq_jw_end(&w, ']');
        iq_jw_end(&w, '}');
    } else {
        for (size_t i = 0; i < ids->n; i++) {
            struct iq_span s = iq_tokenizer_spelling(m->tokenizer, ids->id[i]);
            iq_buf_printf(&line, "%s%u\t%.*s", i ? "\n" : "", ids->id[i], (int)s.len, s.data);
        }
    }
    int status = iq_out_line(call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    char path[IQ_PATH_MAX];
    struct iq_model_options o = {.tp = 1};
    struct iq_model *m;
    struct iq_ids ids = {0};
    const char *text = iq_arg_str(call, "text");
    IQ_TRY(iq_model_resolve(call->operands[0], path, err));
    IQ_TRY(iq_model_open(path, &o, &m, err));
    unsigned how = iq_arg_on(call, "special") ? IQ_ENCODE_SPECIAL | IQ_ENCODE_PARSE : 0;
    int status = iq_tokenizer_encode(m->tokenizer, text, strlen(text), how, &ids, err);
    if (status == IQ_OK) status = print(call, m, &ids, err);
    iq_ids_free(&ids);
    iq_model_close(m);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "text",
     .type = IQ_FLAG_STRING,
     .meta = "TEXT",
     .help = "what to tokenize, UTF-8",
     .required = true},
    {.name = "special",
     .type = IQ_FLAG_SWITCH,
     .fallback = "on",
     .help = "take control tokens in the text as ordinary text, and add none (BOS) that the file asks for"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_model_tokenize = {
    .name = "model tokenize",
    .one_line = "the token ids of a text",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .examples = "inquest model tokenize M.gguf --text 'Hello' --json\n"
                "inquest model tokenize M.gguf --text '<|im_start|> as plain text' --no-special\n",
    .flags = flags,
    .run = run,
};
