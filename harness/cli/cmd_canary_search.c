/* `canary search`: near ties of a model. */
#include "harness/canary/ties.h"
#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/model/fetch.h"
#include "harness/plan/variants.h"

#include <math.h>

static int print(struct iq_call *call, const struct iq_tie_search *spec, const struct iq_ties *ties,
                 const struct iq_model *m, struct iq_err *err)
{
    struct iq_buf lines = IQ_BUF((size_t)256 << 20);
    uint32_t narrow = 0;
    float most = 0;
    for (uint32_t i = 0; i < ties->n; i++) {
        narrow += ties->tie[i].margin <= spec->max_margin;
        most = fmaxf(most, ties->tie[i].margin);
    }
    int status = iq_ties_write(ties, m, &lines, err);
    if (status == IQ_OK) iq_out_put(call->out, lines.data, lines.len);
    iq_buf_free(&lines);
    if (status != IQ_OK) return status;
    if (narrow == spec->count) {
        iq_say("%u near ties, the widest with a margin of %.3g", ties->n, (double)most);
        return IQ_OK;
    }
    iq_say("%u near ties, %u of them with a margin of at most %.3g, the widest with %.3g; for more look "
           "further with "
           "--rounds or --candidates",
           ties->n, narrow, (double)spec->max_margin, (double)most);
    call->verdict = IQ_INCONCLUSIVE;
    return IQ_OK;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    const struct iq_tie_search spec = {.count = (uint32_t)iq_arg_int(call, "count"),
                                       .candidates = (uint32_t)iq_arg_int(call, "candidates"),
                                       .rounds = (uint32_t)iq_arg_int(call, "rounds"),
                                       .max_tokens = (uint32_t)iq_arg_int(call, "max-tokens"),
                                       .seed = (uint64_t)iq_arg_int(call, "seed"),
                                       .max_margin = (float)iq_arg_f64(call, "max-margin")};
    char path[IQ_PATH_MAX];
    struct iq_settings settings;
    struct iq_model_options o;
    struct iq_model *m;
    struct iq_ties ties = {0};
    iq_settings_init(&settings);
    iq_settings_args(call, &settings);
    iq_settings_model(&settings, &o);
    IQ_TRY(iq_variants_register(err));
    IQ_TRY(iq_model_resolve(call->operands[0], path, err));
    IQ_TRY(iq_model_open(path, &o, &m, err));
    int status = iq_ties_search(m, &settings, &spec, &ties, err);
    if (status == IQ_OK) status = print(call, &spec, &ties, m, err);
    iq_ties_free(&ties);
    iq_model_close(m);
    return status;
}

#define KIND(id, name, what) "  " name ": " what "\n"

static const struct iq_flag flags[] = {
    {.name = "count",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "near ties to be found",
     .fallback = "64",
     .lo = 1,
     .hi = 65536},
    {.name = "seed",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "draws other candidates",
     .fallback = "1",
     .lo = 0,
     .hi = 9007199254740992.0},
    {.name = "max-margin",
     .type = IQ_FLAG_FLOAT,
     .meta = "M",
     .help = "how small best minus second best logit shall be",
     .fallback = "1e-4",
     .lo = 0,
     .hi = 1},
    {.name = "candidates",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "prompts to begin with",
     .fallback = "512",
     .lo = 1,
     .hi = 1 << 24},
    {.name = "rounds",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "most rounds of narrowing; 0: take the candidates' ties as they are",
     .fallback = "16",
     .lo = 0,
     .hi = 65535},
    {.name = "max-tokens",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "most tokens of an answer",
     .fallback = "8",
     .lo = 1,
     .hi = 1024},
    {.name = "threads",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .lo = 1,
     .hi = 256,
     .help = "worker threads (default: the cores that this process may use, at most 16)"},
    {.name = "batch",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .lo = 1,
     .hi = 4096,
     .help = "most prompts in a step (default 8)"},
    {.name = "device",
     .type = IQ_FLAG_CHOICE,
     .meta = "cpu|cuda|cuda-shim",
     .help = "where ops run; the result is the same (default cpu)"},
    {0},
};

const struct iq_command iq_cmd_canary_search = {
    .name = "canary search",
    .one_line = "search a model's near ties: prompts whose last token is all but undecided",
    .operands = "MODEL",
    .operands_min = 1,
    .operands_max = 1,
    .about = "Answers that are decided clearly hide what a near tie shows: that sums were added in another "
             "order, or "
             "rounded\n"
             "otherwise. Candidates are drawn where a model is not sure:\n" IQ_CANARY_ODD_MAP(
                 KIND) "\n"
                       "They stand behind whole questions with answers, are run golden, and are cut where "
                       "the two best logits are "
                       "closest: at the\n"
                       "first token of an answer, or at a later one whose forerunners are decided clearly. "
                       "Then tokens of those questions "
                       "are changed,\n"
                       "which moves the margin a little, until it is small enough. All kinds and both places "
                       "get as many, as far as they "
                       "have any.\n"
                       "\n"
                       "Each line has id (kind, 0 for a first token or 1 for a later one, number of the "
                       "candidate), prompt or ids, "
                       "max_tokens and\n"
                       "expect: so it goes with --prompts of `run`, `record` and `model eval`. Its answer "
                       "ends with the tie. tie has: "
                       "token, the\n"
                       "tie's place in the answer; margin; rival, the id of the token that it might be "
                       "instead; ids of the answer; "
                       "and the SHA-256\n"
                       "of the model. The same model, numbers and seed give the same bytes on every machine, "
                       "with any --threads, "
                       "--batch and\n"
                       "--device.\n",
    .examples =
        "inquest canary search M.gguf > ties.jsonl\n"
        "inquest canary search canary --max-margin 1e-5 --rounds 32 > ties.jsonl\n"
        "inquest canary search M.gguf --count 8 --candidates 256 --max-margin 1e-3 --seed 7 > ties.jsonl\n"
        "inquest model eval M.gguf --prompts ties.jsonl --dtype bf16\n",
    .statuses = "  3  fewer than --count are as narrow as --max-margin asks for; the narrowest are printed\n",
    .flags = flags,
    .run = run,
};
