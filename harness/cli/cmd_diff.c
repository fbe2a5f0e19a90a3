#include "golden/store.h"
#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_common.h"
#include "harness/report/postmortem.h"
#include "harness/trial/judge.h"

#include <string.h>

#define LABEL(name, text, term) " " text
#define LABELS                  "these:" IQ_LABEL_MAP(LABEL)

/* Labels of --fail-on, as bits. */
static int fail_on(const char *list, unsigned *mask, struct iq_err *err)
{
    char word[32];
    *mask = 0;
    if (!*list) return iq_fail(err, IQ_USAGE, "--fail-on: found no label, expected some of " LABELS);
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, ",");
        enum iq_label label;
        if (n >= sizeof word) return iq_fail(err, IQ_USAGE, "--fail-on %s: no label is so long", list);
        memcpy(word, p, n);
        word[n] = 0;
        IQ_TRY(iq_label_from_name(word, &label, err));
        *mask |= 1u << label;
        p += n + (p[n] == ',');
    }
    return IQ_OK;
}

static int print(struct iq_call *call, const struct iq_finding *f, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    if (iq_arg_on(call, "json")) {
        struct iq_jw w = IQ_JW(&text);
        iq_finding_json(f, &w);
    } else {
        iq_postmortem_text(f, &text);
        if (text.len) text.len--; /* the last newline: the writer adds one */
    }
    int status = iq_out_line(call->out, &text, err);
    iq_buf_free(&text);
    return status;
}

/* The command line that makes the subject again, as far as its manifest tells. */
static void set_replay(struct iq_finding *f, const struct iq_call *call, const struct iq_trace *subject)
{
    struct iq_buf b = IQ_BUF(1 << 16);
    cJSON *manifest;
    const char *path = NULL;
    if (f->replay ||
        iq_json_parse(subject->manifest, subject->manifest_len, "manifest", &manifest, NULL) != IQ_OK)
        return;
    const cJSON *model = cJSON_GetObjectItemCaseSensitive(manifest, "model");
    if (cJSON_IsObject(model)) iq_json_str_opt(model, "path", "manifest: model", &path, NULL);
    iq_buf_printf(&b, "inquest run --model '%s' --again %s --store '%s' --name again", path ? path : "MODEL",
                  f->subject, iq_arg_str(call, "store"));
    f->replay = b.failed ? NULL : b.data; /* moved: the finding frees it */
    if (b.failed) iq_buf_free(&b);
    iq_json_free(manifest);
}

static int compare(struct iq_call *call, const struct iq_trace *golden, const struct iq_trace *subject,
                   unsigned mask, struct iq_err *err)
{
    struct iq_policy policy = IQ_POLICY_DEFAULT;
    struct iq_judge judge;
    struct iq_finding *f = NULL;
    policy.tie_margin = (float)iq_arg_f64(call, "tie-margin");
    policy.show_fired = iq_arg_on(call, "fired");
    IQ_TRY(iq_judge_open(subject->manifest, subject->manifest_len, &judge, err));
    if (judge.unread.status) iq_say("the subject's faults are not judged in vitro: %s", judge.unread.text);
    bool vitro = iq_arg_on(call, "vitro");
    int status = iq_compare(golden, subject, &policy, vitro ? iq_judge_suspect : NULL, &judge, &f, err);
    if (status == IQ_OK) {
        set_replay(f, call, subject);
        status = print(call, f, err);
    }
    if (status == IQ_OK && (mask >> f->label & 1))
        call->verdict = IQ_FOUND;
    else if (status == IQ_OK && f->label == IQ_LABEL_INCONCLUSIVE)
        call->verdict = IQ_INCONCLUSIVE;
    iq_finding_free(f);
    iq_judge_close(&judge);
    return status;
}

/* What is there is compared; how the rest is got is said beside it. */
static void say_unfinished(struct iq_store *store, const char *run, const char *role,
                           const struct iq_trace *t)
{
    struct iq_err why;
    if (t->state == IQ_RUN_RECORDING && iq_run_finished(store, run, role, &why) != IQ_OK)
        iq_say("%s", why.text);
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store = NULL;
    struct iq_trace golden = {0}, subject = {0};
    unsigned mask;
    IQ_TRY(fail_on(iq_arg_str(call, "fail-on"), &mask, err));
    int status = iq_store_open(iq_arg_str(call, "store"), NULL, &store, err);
    if (status == IQ_OK) status = iq_store_trace(store, call->operands[0], &golden, err);
    if (status == IQ_OK) status = iq_store_trace(store, call->operands[1], &subject, err);
    if (status == IQ_OK) say_unfinished(store, call->operands[0], "golden", &golden);
    if (status == IQ_OK) say_unfinished(store, call->operands[1], "subject", &subject);
    if (status == IQ_OK) status = compare(call, &golden, &subject, mask, err);
    iq_trace_close(&golden);
    iq_trace_close(&subject);
    iq_store_close(store);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "store",
     .type = IQ_FLAG_STRING,
     .meta = "DIR",
     .help = "the store that holds both runs",
     .required = true},
    {.name = "fail-on",
     .type = IQ_FLAG_STRING,
     .meta = "LABELS",
     .fallback = "regressed,wrong,crashed",
     .help = "labels, with commas, for which the exit status is 1"},
    {.name = "tie-margin",
     .type = IQ_FLAG_FLOAT,
     .meta = "X",
     .lo = 0,
     .hi = 1e6,
     .fallback = "0.001",
     .help = "a flip at a golden margin up to this is a tie; float32 logits err by about 5e-5"},
    {.name = "vitro",
     .type = IQ_FLAG_SWITCH,
     .fallback = "on",
     .help = "do not run the guilty op again on exact data"},
    {.name = "fired",
     .type = IQ_FLAG_SWITCH,
     .help = "tell the firing log beside the verdict, which never uses it"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_diff = {
    .name = "diff",
    .one_line = "compare two recorded runs: the verdict, the guilty op, the trigger",
    .operands = "GOLDEN SUBJECT",
    .operands_min = 2,
    .operands_max = 2,
    .about =
        "GOLDEN and SUBJECT are names, run ids, or prefixes of ids. Labels, from the mildest:\n"
        "  identical     no bit differs\n"
        "  benign        rounding, and at most flips at ties\n"
        "  inconclusive  too little was recorded or compared to tell\n"
        "  suspect       outside of what rounding explains, or decisive flips, without a proof\n"
        "  regressed     a metric fell beyond chance; not given by this version, which has no statistics\n"
        "  wrong         proven: the guilty op fails on exact data, or an invariant is broken\n"
        "  crashed       the subject died\n"
        "The proof on exact data is made by running the guilty op again; --no-vitro leaves it out, and what "
        "would be wrong\n"
        "may then be suspect only, which --fail-on does not name by default.\n",
    .examples = "inquest diff --store S golden subject\n"
                "inquest diff --store S golden subject --json --fail-on suspect,wrong,crashed\n",
    .statuses = "  1  a label that --fail-on names\n  3  inconclusive\n",
    .flags = flags,
    .run = run,
};
