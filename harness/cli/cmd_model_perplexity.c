#include "harness/cli/commands.h"
#include "harness/model/fetch.h"
#include "harness/plan/prompts.h"
#include "harness/plan/settings.h"
#include "harness/plan/variants.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 2048 }; /* tokens scored together, each given those before it in its window */

static int read_text(const char *path, struct iq_buf *out, struct iq_err *err)
{
    FILE *f = fopen(path, "re");
    char piece[1 << 16];
    if (!f) return iq_fail(err, IQ_IO, "%s: cannot be opened: %s", path, strerror(errno));
    for (size_t n; (n = fread(piece, 1, sizeof piece, f)) > 0;) iq_buf_put(out, piece, n);
    bool bad = ferror(f);
    fclose(f);
    if (bad) return iq_fail(err, IQ_IO, "%s: read failed", path);
    if (out->failed) return iq_fail(err, IQ_LIMIT, "%s: larger than %zu bytes", path, out->max);
    return IQ_OK;
}

/* Windows of tokens as requests that generate nothing and are scored. */
static int score(const struct iq_model *m, const struct iq_settings *s, const struct iq_ids *ids,
                 uint64_t *tokens, double *sum, struct iq_err *err)
{
    uint32_t window = m->positions < WINDOW ? m->positions : WINDOW,
             n = (uint32_t)((ids->n + window - 1) / window);
    struct iq_request *r = calloc(n ? n : 1, sizeof *r);
    struct iq_engine_config c;
    struct iq_engine *e = NULL;
    if (!r) return iq_fail(err, IQ_MEMORY, "no memory for %u windows", n);
    for (uint32_t i = 0; i < n; i++) {
        size_t at = (size_t)i * window;
        r[i] = (struct iq_request){.index = i,
                                   .id = "window",
                                   .params = "{}",
                                   .prompt = ids->id + at,
                                   .top_p = 1,
                                   .score = true,
                                   .n_prompt = (uint32_t)(ids->n - at < window ? ids->n - at : window)};
    }
    iq_settings_engine(s, &c);
    c.batch = 1;
    c.prefix_cache = false;
    c.untraced = true;
    int status = iq_engine_open(m, &c, r, n, &e, err);
    for (bool more = n > 0; status == IQ_OK && more;) status = iq_engine_step(e, &more, err);
    for (uint32_t i = 0; status == IQ_OK && i < n; i++) {
        const struct iq_output *o = iq_engine_output(e, i);
        for (uint32_t t = 1; t < o->n_prompt; t++) *sum += o->nll[t];
        *tokens += o->n_prompt - 1;
    }
    iq_engine_close(e);
    free(r);
    return status;
}

static int run_with(struct iq_call *call, struct iq_model *m, const struct iq_settings *s, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF((size_t)256 << 20), line = IQ_BUF(4096);
    struct iq_ids ids = {0};
    uint64_t tokens = 0;
    double sum = 0;
    int status = read_text(iq_arg_str(call, "file"), &text, err);
    if (status == IQ_OK)
        status = iq_tokenizer_encode(m->tokenizer, text.data ? text.data : "", text.len, IQ_ENCODE_SPECIAL,
                                     &ids, err);
    if (status == IQ_OK && ids.n < 2)
        status = iq_fail(err, IQ_USAGE, "%s: fewer than two tokens", iq_arg_str(call, "file"));
    if (status == IQ_OK) status = score(m, s, &ids, &tokens, &sum, err);
    if (status == IQ_OK && iq_arg_on(call, "json")) {
        struct iq_jw w = IQ_JW(&line);
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "tokens"), iq_jw_u64(&w, tokens);
        iq_jw_key(&w, "nll_mean"), iq_jw_f64(&w, sum / (double)tokens);
        iq_jw_key(&w, "nll_sum"), iq_jw_f64(&w, sum);
        iq_jw_key(&w, "perplexity"), iq_jw_f64(&w, exp(sum / (double)tokens));
        iq_jw_end(&w, '}');
    } else if (status == IQ_OK)
        iq_buf_printf(&line, "%llu tokens, %.9f nats a token, perplexity %.6f", (unsigned long long)tokens,
                      sum / (double)tokens, exp(sum / (double)tokens));
    if (status == IQ_OK) status = iq_out_line(call->out, &line, err);
    iq_ids_free(&ids);
    iq_buf_free(&text);
    iq_buf_free(&line);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    char path[IQ_PATH_MAX];
    struct iq_settings s;
    struct iq_model_options o;
    struct iq_model *m;
    iq_settings_init(&s);
    iq_settings_args(call, &s);
    iq_settings_model(&s, &o);
    IQ_TRY(iq_variants_register(err));
    IQ_TRY(iq_model_resolve(call->operands[0], path, err));
    IQ_TRY(iq_model_open(path, &o, &m, err));
    int status = run_with(call, m, &s, err);
    iq_model_close(m);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "file",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "UTF-8 text; control tokens in it are ordinary text",
     .required = true},
    IQ_COMPUTE_FLAGS,
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_model_perplexity = {
    .name = "model perplexity",
    .one_line = "mean negative log-likelihood of a text, in nats a token",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .about = "The text is cut into windows of 2,048 tokens; each token but a window's first is scored given "
             "those before it.\n",
    .examples = "inquest model perplexity M.gguf --file prose.txt --json\n",
    .flags = flags,
    .run = run,
};
