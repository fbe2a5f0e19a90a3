/* Two axes to one label. */
#include "golden/compare_state.h"

#include <stdio.h>
#include <string.h>

static const char *const LABEL[][2] = {
#define X(name, text, field) {text, field},
    IQ_LABEL_MAP(X)
#undef X
};
static const char *const NUMERICS[] = {
#define X(name, text) text,
    IQ_NUMERICS_MAP(X)
#undef X
};
static const char *const EFFECT[] = {
#define X(name, text) text,
    IQ_EFFECT_MAP(X)
#undef X
};
static const char *const WEIGHTS[] = {
#define X(name, text) text,
    IQ_WEIGHTS_MAP(X)
#undef X
};
static const char *const ATTR[] = {
#define X(name, text) text,
    IQ_ATTR_MAP(X)
#undef X
};
#define TEXT(table, i) ((i) >= 0 && (size_t)(i) < sizeof(table) / sizeof *(table) ? (table)[i] : "?")

const char *iq_label_text(int i) { return i >= 0 && i < IQ_LABELS ? LABEL[i][0] : "?"; }
const char *iq_label_field_term(int i) { return i >= 0 && i < IQ_LABELS ? LABEL[i][1] : "?"; }
const char *iq_numerics_text(int i) { return TEXT(NUMERICS, i); }
const char *iq_effect_text(int i) { return TEXT(EFFECT, i); }
const char *iq_weights_text(int i) { return TEXT(WEIGHTS, i); }
const char *iq_attr_text(int i) { return TEXT(ATTR, i); }

const char *iq_finding_term(const struct iq_finding *f)
{
    return f->label == IQ_LABEL_IDENTICAL && !f->fired ? NULL : iq_label_field_term(f->label);
}

const char *iq_attr_word(int attr, uint32_t value)
{
    return attr != IQ_ATTR_PHASE ? NULL : value ? "decode" : "prefill";
}

int iq_label_from_name(const char *name, enum iq_label *out, struct iq_err *err)
{
    for (int i = 0; i < IQ_LABELS; i++)
        if (!strcmp(name, LABEL[i][0])) return *out = (enum iq_label)i, IQ_OK;
    return iq_fail(
        err, IQ_USAGE,
        "'%.40s' is no label; there are identical, benign, inconclusive, suspect, regressed, wrong, crashed",
        name);
}

/* The worst that was seen in vitro; what nobody judged counts as outside. */
static void numerics_judge(struct iq_finding *f)
{
    f->numerics = IQ_NUMERICS_IDENTICAL;
    if (!f->same_contract) {
        f->numerics = IQ_NUMERICS_UNDETERMINED;
        return;
    }
    if (f->differing) f->numerics = IQ_NUMERICS_OUTSIDE;
    for (size_t i = 0; i < f->n_guilty; i++) {
        const struct iq_guilty *g = &f->guilty[i];
        /* A variant that gives golden's bits when it is run by itself has not explained the difference. */
        enum iq_numerics n =
            g->judged && g->vitro.numerics != IQ_NUMERICS_IDENTICAL ? g->vitro.numerics : IQ_NUMERICS_OUTSIDE;
        if (!i || n > f->numerics) f->numerics = n;
    }
}

static void effect_judge(struct iq_finding *f)
{
    f->effect = f->decisive_flips            ? IQ_EFFECT_DECISIVE_FLIPS
                : f->tie_flips               ? IQ_EFFECT_TIE_FLIPS
                : f->changed || !f->requests ? IQ_EFFECT_UNDETERMINED
                                             : IQ_EFFECT_NONE;
}

static const struct iq_guilty *worst(const struct iq_finding *f)
{
    for (size_t i = 0; i < f->n_guilty; i++)
        if (f->guilty[i].judged && f->guilty[i].vitro.numerics == f->numerics) return &f->guilty[i];
    return f->n_guilty ? &f->guilty[0] : NULL;
}

/* What keeps two runs from being compared like with like; NULL when nothing does. */
static const char *obstacle(struct iq_finding *f, char *buf, size_t n)
{
    if (f->weights == IQ_WEIGHTS_DIFFER) return f->weights_note;
    if (!f->same_contract) return f->contract_note;
    if (!f->same_prompts) return f->prompts_note;
    if (!f->requests) return "no request is in both runs";
    if (f->differing || (!f->missing && !f->extra)) return NULL;
    snprintf(
        buf, n,
        "what is in both is identical, but %llu requests are only in golden and %llu only in the subject",
        (unsigned long long)f->missing, (unsigned long long)f->extra);
    return buf;
}

static void note_guilty(struct iq_finding *f, bool ops)
{
    const char *note = "";
    bool body = false;
    for (size_t i = 0; i < f->n_guilty; i++) body |= !strcmp(f->guilty[i].op, "body");
    if (body)
        note = "the op is unknown: a run has no cells; `record --level ops` both to name it (body: any op "
               "before the logits)";
    else if (f->differing && !f->n_guilty)
        note = ops ? "no cell differs while all its declared inputs are equal: what differs came in from "
                     "outside the graph"
                   : "no op can be told from chains alone; `record --level ops` both runs";
    snprintf(f->guilty_note, sizeof f->guilty_note, "%s", note);
}

static bool crashed(struct iq_finding *f, const struct iq_trace *g, const struct iq_trace *s)
{
    const struct iq_trace *dead = s->state == IQ_RUN_CRASHED ? s : g->state == IQ_RUN_CRASHED ? g : NULL;
    const char *who = dead == g ? "golden" : "subject";
    if (dead) {
        snprintf(f->crash, sizeof f->crash, "%.390s", dead->message);
        snprintf(f->reason, sizeof f->reason, "the %s run crashed: %.400s", who,
                 *dead->message ? dead->message : "no reason was recorded");
    } else if (f->nans) {
        snprintf(f->reason, sizeof f->reason, "%llu positions have logits that are not numbers",
                 (unsigned long long)f->nans);
    } else if (f->invalid_tokens) {
        snprintf(f->reason, sizeof f->reason, "%llu chosen tokens are outside the vocabulary",
                 (unsigned long long)f->invalid_tokens);
    } else {
        return false;
    }
    return true;
}

/* A clean trial, one whose faults slept, and one whose faults struck for nothing are told apart. */
static void identical_say(struct iq_finding *f)
{
    char how[200];
    if (!f->fired && !f->planned)
        snprintf(how, sizeof how, "identical: no fault was planned");
    else if (!f->fired)
        snprintf(how, sizeof how, "identical: the plan's faults never fired (check their `when`)");
    else if (!f->fired_changed)
        snprintf(how, sizeof how, "masked: fired %llu times over %llu rows, no bit changed",
                 (unsigned long long)f->fired, (unsigned long long)f->fired_rows);
    else
        snprintf(how, sizeof how,
                 "masked: fired %llu times and changed %llu of %llu rows, none that both runs keep",
                 (unsigned long long)f->fired, (unsigned long long)f->fired_changed,
                 (unsigned long long)f->fired_rows);
    snprintf(f->reason, sizeof f->reason, "%s; no bit differs in %llu positions of %llu requests", how,
             (unsigned long long)f->positions, (unsigned long long)f->requests);
}

enum iq_label iq_label_of(int numerics, int effect)
{
    if (numerics == IQ_NUMERICS_VIOLATES) return IQ_LABEL_WRONG;
    if (numerics == IQ_NUMERICS_WITHIN && effect <= IQ_EFFECT_TIE_FLIPS) return IQ_LABEL_BENIGN;
    return IQ_LABEL_SUSPECT;
}

static enum iq_label label_judge(struct iq_finding *f)
{
    char buf[240];
    const char *why = obstacle(f, buf, sizeof buf);
    const struct iq_guilty *g = worst(f);
    const char *op = g ? g->op : "unknown op";
    const char *proof = g && *g->vitro.evidence ? g->vitro.evidence : "it was not judged in vitro";
    if (why) {
        snprintf(f->reason, sizeof f->reason, "%s", why);
        return IQ_LABEL_INCONCLUSIVE;
    }
    if (!f->differing && !f->changed) {
        identical_say(f);
        return IQ_LABEL_IDENTICAL;
    }
    snprintf(f->reason, sizeof f->reason, "%s: %s; %llu of %llu requests answer otherwise", op, proof,
             (unsigned long long)f->changed, (unsigned long long)f->requests);
    return iq_label_of((int)f->numerics, (int)f->effect);
}

void iq__finding_judge(struct iq_finding *f, const struct iq_trace *golden, const struct iq_trace *subject,
                       bool ops)
{
    numerics_judge(f);
    effect_judge(f);
    note_guilty(f, ops);
    f->label = crashed(f, golden, subject) ? IQ_LABEL_CRASHED : label_judge(f);
}
