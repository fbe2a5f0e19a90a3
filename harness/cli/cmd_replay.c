#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/model/fetch.h"
#include "harness/report/replay_report.h"

#include <string.h>
#include <unistd.h>

/* ---- --list ---- */

static int list(struct iq_call *call, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&text);
    bool json = iq_arg_on(call, "json");
    int status = IQ_OK;
    if (json) iq_jw_begin(&w, '[');
    for (const struct iq_shipped *s = iq_shipped; s->file && status == IQ_OK; s++) {
        struct iq_incident in;
        const char *end = strrchr(s->file, '.');
        if (strcmp(end, ".json")) continue;
        if ((status = iq_incident_parse((const char *)s->text, s->len, s->file, &in, err)) != IQ_OK) break;
        if (json) {
            iq_jw_begin(&w, '{');
            iq_jw_key(&w, "name"), iq_jw_str(&w, in.name);
            iq_jw_key(&w, "id"), iq_jw_str(&w, in.id);
            iq_jw_key(&w, "title"), iq_jw_str(&w, in.title);
            iq_jw_key(&w, "source"), iq_jw_str(&w, in.source);
            iq_jw_key(&w, "arms"), iq_jw_u64(&w, in.n_arms);
            iq_jw_end(&w, '}');
        } else {
            iq_buf_printf(&text, "%s%s\t%s\t%s", text.len ? "\n" : "", in.name, in.id, in.title);
        }
        iq_incident_free(&in);
    }
    if (json) iq_jw_end(&w, ']');
    if (status == IQ_OK) status = iq_out_line(call->out, &text, err);
    iq_buf_free(&text);
    return status;
}

/* The file as it is shipped: what a file of one's own may start from. */
static int show(struct iq_call *call, struct iq_err *err)
{
    const struct iq_shipped *s = iq_shipped_find(call->operands[0]);
    if (!s) return iq_incident_unknown(call->operands[0], err);
    iq_out_put(call->out, s->text, s->len);
    return IQ_OK;
}

/* ---- running ---- */

/* A path, or a known model's, which is fetched where it is missing. */
static int find_model(const char *name, char path[IQ_PATH_MAX], struct iq_err *err)
{
    bool fetched;
    int status = iq_model_resolve(name, path, err);
    const struct iq_known_model *known = iq_known_model_find(name);
    if (status != IQ_NOT_FOUND || !known) return status;
    return iq_model_fetch(known, false, path, &fetched, err);
}

struct telling {
    const struct iq_incident *incident;
    const struct iq_replay *replay;
};

static void tell(void *self, unsigned i)
{
    const struct telling *t = self;
    const struct iq_arm_result *r = &t->replay->arm[i];
    iq_say("%u of %u: %s: %s, %s", i + 1, t->incident->n_arms, t->incident->arm[i].name,
           iq_label_text(r->finding->label), r->held ? "as predicted" : "otherwise than predicted");
}

static int print(struct iq_call *call, const struct iq_replay *r, const char *model, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    if (iq_arg_on(call, "json")) {
        iq_replay_json(r, model, &text);
    } else {
        iq_replay_text(r, model, &text);
        if (text.len) text.len--; /* the last newline: the writer adds one */
    }
    int status = iq_out_line(call->out, &text, err);
    iq_buf_free(&text);
    return status;
}

static int replay(struct iq_call *call, struct iq_incident *in, struct iq_err *err)
{
    const char *named = iq_arg_str(call, "model");
    char model[IQ_PATH_MAX];
    struct iq_replay r;
    struct telling telling = {in, &r};
    struct iq_replay_options o = {.model = model,
                                  .store = iq_arg_str(call, "store"),
                                  .told = isatty(STDERR_FILENO) ? tell : NULL,
                                  .self = &telling};
    IQ_TRY(find_model(named ? named : in->model, model, err));
    int status = iq_replay_run(in, &o, &r, err);
    if (status == IQ_OK) status = print(call, &r, model, err);
    if (status == IQ_OK && !r.held) call->verdict = IQ_FOUND;
    iq_replay_free(&r);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct iq_incident in;
    if (iq_arg_on(call, "list")) return list(call, err);
    if (!call->n_operands)
        return iq_fail(err, IQ_USAGE, "an incident's name is missing; --list shows the known ones");
    if (iq_arg_on(call, "show")) return show(call, err);
    IQ_TRY(iq_incident_load(call->operands[0], &in, err));
    int status = replay(call, &in, err);
    iq_incident_free(&in);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "model",
     .type = IQ_FLAG_STRING,
     .meta = "FILE",
     .help = "a model to replay on (default: the incident's own, fetched when it is missing)"},
    {.name = "store",
     .type = IQ_FLAG_STRING,
     .meta = "DIR",
     .help = "keep the runs in this store, named INCIDENT/ARM (default: a temporary one)"},
    {.name = "list", .type = IQ_FLAG_SWITCH, .help = "print the known incidents, and stop"},
    {.name = "show",
     .type = IQ_FLAG_SWITCH,
     .help = "print the file of a known incident, or of its prompts, and stop"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_replay = {
    .name = "replay",
    .one_line = "replay an incident: what hid it, what cured it, and whether its predictions hold",
    .operands = "NAME",
    .operands_max = 1,
    .about =
        "NAME is a known incident, or the path of a file of your own. Prompts are run golden, then once for "
        "each arm\n"
        "of the incident: as it happened, with workarounds, at other batch sizes, traced. Each arm is "
        "compared with\n"
        "golden and held against what the file predicts.\n"
        "\n"
        "The file is a JSON object (--show prints those that are known):\n"
        "  name, id, title,   texts; name (a-z, 0-9, '.', '-') begins the runs' names in the store\n"
        "  source, story\n"
        "  model              for replays without --model; optional\n"
        "  prompts            a list of prompts as in `run --prompts`, or the name of a JSON-lines file "
        "beside this one\n"
        "  engine             settings, spelled as the options of `run` with _ for -, and level; optional\n"
        "  plan               {\"faults\": [...], \"seed\": n}: see `inquest faults`\n"
        "  arms               a list; the first is the incident as it happened. Each has name, what (one "
        "line), predict,\n"
        "                     and may have engine (changed settings), without (names of the plan's faults "
        "that are left\n"
        "                     out), faults (more of them, which go last), prompts (max_tokens, temperature "
        "... for all\n"
        "                     prompts, first: only so many of them)\n"
        "  predict            any of: label, numerics, effect (a word, or a list of which one holds), guilty "
        "(an op or a\n"
        "                     list; []: none), guilty_among, variant, trigger ({\"batch\": [3, 6]} or null), "
        "hidden,\n"
        "                     fired, struck (true or false), changed, differing ({\"min\", \"max\"}: share "
        "of requests)\n"
        "An op inside the layers is found guilty by name only with \"level\": \"ops\" in engine; at level "
        "chain it "
        "is \"body\".\n"
        "`inquest plan check` says what a plan does; an arm that came out otherwise says which condition "
        "kept a "
        "fault from\n"
        "firing.\n"
        "\n"
        "mine.json, for instance:\n"
        "  {\"name\": \"mine\", \"id\": \"X1\", \"title\": \"top-k wrong at two\", \"source\": \"me\", "
        "\"story\": \"...\",\n"
        "   \"prompts\": [{\"id\": \"q1\", \"prompt\": \"The sky is\", \"max_tokens\": 8},\n"
        "               {\"id\": \"q2\", \"prompt\": \"Water is\", \"max_tokens\": 8}],\n"
        "   \"plan\": {\"faults\": [{\"op\": \"topk\", \"variant\": \"coarse_bin\",\n"
        "                        \"params\": {\"bits\": 1, \"capacity\": 16}, \"when\": {\"batch\": 2}}]},\n"
        "   \"arms\": [{\"name\": \"as-it-happened\", \"what\": \"both at once\", \"predict\": {\"label\": "
        "\"wrong\"}},\n"
        "            {\"name\": \"alone\", \"what\": \"one at a time\", \"engine\": {\"batch\": 1},\n"
        "             \"predict\": {\"label\": \"identical\"}}]}\n",
    .examples = "inquest replay --list\n"
                "inquest replay anthropic-2025-09-topk\n"
                "inquest replay --show reduction-order > mine.json\n"
                "inquest replay ./mine.json --model M.gguf --store S --json\n",
    .words = iq_shipped_names,
    .statuses = "  1  a prediction does not hold\n",
    .flags = flags,
    .run = run,
};
