#include "harness/report/replay_report.h"

#include "harness/report/postmortem.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_WIDTH = 100, OPS_SHOWN = 3 };

/* ---- text ---- */

/* Words of `text`, broken at TEXT_WIDTH columns. */
static void wrap(const char *text, struct iq_buf *b)
{
    size_t column = 0;
    for (const char *p = text + strspn(text, " \n"); *p; p += strspn(p, " \n")) {
        size_t n = strcspn(p, " \n");
        bool fits = column && column + 1 + n <= TEXT_WIDTH;
        if (column) iq_buf_put(b, fits ? " " : "\n", 1);
        iq_buf_put(b, p, n);
        column = fits ? column + 1 + n : n;
        p += n;
    }
    iq_buf_put(b, "\n", 1);
}

static void guilty_cell(const struct iq_finding *f, char *out, size_t size)
{
    size_t n = 0;
    snprintf(out, size, "-");
    for (size_t i = 0; i < f->n_guilty && i < OPS_SHOWN && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%s", i ? "," : "", f->guilty[i].op);
    if (f->n_guilty > OPS_SHOWN && n < size) snprintf(out + n, size - n, ",+%zu", f->n_guilty - OPS_SHOWN);
}

static void trigger_cell(const struct iq_finding *f, char *out, size_t size)
{
    const struct iq_trigger *t = f->n_guilty ? &f->guilty[0].trigger : NULL;
    struct iq_buf text = IQ_BUF(1 << 16);
    snprintf(out, size, "%s", t ? "not told apart" : "-");
    if (!t || !t->found) return;
    iq_trigger_text(t, true, &text);
    if (!text.failed && snprintf(out, size, "%s", text.data) >= (int)size) memcpy(out + size - 4, "...", 4);
    iq_buf_free(&text);
}

static void row(const struct iq_arm *arm, const struct iq_arm_result *r, int name_width, struct iq_buf *b)
{
    const struct iq_finding *f = r->finding;
    char guilty[32], trigger[24], changed[32];
    unsigned held = 0;
    for (unsigned i = 0; i < r->n_checks; i++) held += r->check[i].held;
    guilty_cell(f, guilty, sizeof guilty);
    trigger_cell(f, trigger, sizeof trigger);
    snprintf(changed, sizeof changed, "%" PRIu64 "/%" PRIu64, f->changed, f->requests);
    iq_buf_printf(b, "%-*s  %-12s  %-20s  %-23s  %-8s  %5" PRIu64 "  ", name_width, arm->name,
                  iq_label_text(f->label), guilty, trigger, changed, f->fired);
    iq_buf_printf(b, held == r->n_checks ? "all %u hold\n" : "%u of %u hold\n", held, r->n_checks);
    iq_buf_printf(b, "  %s\n", arm->what);
    for (unsigned i = 0; i < r->n_checks; i++)
        if (!r->check[i].held)
            iq_buf_printf(b, "  %s: predicted %s, found %s\n", r->check[i].field, r->check[i].expected,
                          r->check[i].found);
    for (const char *line = r->held ? NULL : r->slept.data, *end; line && (end = strchr(line, '\n'));
         line = end + 1)
        iq_buf_printf(b, "  %.*s\n", (int)(end - line), line);
}

/* What the plan says, to be read beside what the finding says without it. */
static void armed(const struct iq_plan *p, struct iq_buf *b)
{
    for (size_t i = 0; i < p->n; i++) {
        iq_buf_printf(b, "armed      %s: ", p->fault[i].name);
        iq_fault_explain(&p->fault[i], b);
        iq_buf_put(b, "\n", 1);
    }
}

static void verdict(const struct iq_replay *r, struct iq_buf *b)
{
    unsigned failed = 0, checks = 0;
    const char *between = " ";
    for (unsigned i = 0; i < r->incident->n_arms; i++) {
        checks += r->arm[i].n_checks;
        failed += !r->arm[i].held;
    }
    if (!failed) {
        iq_buf_printf(b, "%s: all %u predictions of %u arms hold\n", r->incident->name, checks,
                      r->incident->n_arms);
        return;
    }
    iq_buf_printf(b, "%s: %u of %u arms came out otherwise than predicted:", r->incident->name, failed,
                  r->incident->n_arms);
    for (unsigned i = 0; i < r->incident->n_arms; i++) {
        if (r->arm[i].held) continue;
        iq_buf_printf(b, "%s%s", between, r->incident->arm[i].name);
        between = ", ";
    }
    iq_buf_put(b, "\n", 1);
}

void iq_replay_text(const struct iq_replay *r, const char *model, struct iq_buf *b)
{
    const struct iq_incident *in = r->incident;
    int width = 3;
    for (unsigned i = 0; i < in->n_arms; i++)
        if ((int)strlen(in->arm[i].name) > width) width = (int)strlen(in->arm[i].name);
    iq_buf_printf(b, "%s (%s): %s\nsource     %s\nmodel      %s\n\n", in->name, in->id, in->title, in->source,
                  model);
    wrap(in->story, b);
    iq_buf_printf(b, "\n%-*s  %-12s  %-20s  %-23s  %-8s  %5s  %s\n", width, "arm", "label", "guilty",
                  "trigger", "changed", "fired", "predictions");
    for (unsigned i = 0; i < in->n_arms; i++) row(&in->arm[i], &r->arm[i], width, b);
    iq_buf_printf(b, "\npost-mortem of %s\n", in->arm[0].name);
    iq_postmortem_text(r->arm[0].finding, b);
    armed(&in->arm[0].plan, b);
    iq_buf_put(b, "\n", 1);
    verdict(r, b);
}

/* ---- JSON ---- */

static void key_str(struct iq_jw *w, const char *key, const char *s)
{
    iq_jw_key(w, key);
    iq_jw_str(w, s);
}

static void finding_json(const struct iq_finding *f, struct iq_jw *w)
{
    key_str(w, "label", iq_label_text(f->label));
    key_str(w, "numerics", iq_numerics_text(f->numerics));
    key_str(w, "effect", iq_effect_text(f->effect));
    iq_jw_key(w, "guilty");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < f->n_guilty; i++) iq_jw_str(w, f->guilty[i].op);
    iq_jw_end(w, ']');
    iq_jw_key(w, "trigger"), iq_predict_trigger(f, w);
    iq_jw_key(w, "changed"), iq_jw_u64(w, f->changed);
    iq_jw_key(w, "requests"), iq_jw_u64(w, f->requests);
    iq_jw_key(w, "fired"), iq_jw_u64(w, f->fired);
    iq_jw_key(w, "finding");
    iq_finding_json(f, w);
}

static void arm_json(const struct iq_arm *arm, const struct iq_arm_result *r, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    key_str(w, "name", arm->name);
    key_str(w, "what", arm->what);
    key_str(w, "run", r->run);
    iq_jw_key(w, "settings"), iq_settings_write(&arm->settings, w);
    iq_jw_key(w, "plan"), iq_plan_write(&arm->plan, w);
    finding_json(r->finding, w);
    iq_jw_key(w, "predictions");
    iq_jw_begin(w, '[');
    for (unsigned i = 0; i < r->n_checks; i++) {
        const struct iq_check *c = &r->check[i];
        iq_jw_begin(w, '{');
        key_str(w, "field", c->field);
        iq_jw_key(w, "expected"), iq_jw_raw(w, c->expected);
        iq_jw_key(w, "found"), iq_jw_raw(w, c->found);
        iq_jw_key(w, "held"), iq_jw_bool(w, c->held);
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
    iq_jw_key(w, "held"), iq_jw_bool(w, r->held);
    iq_jw_end(w, '}');
}

void iq_replay_json(const struct iq_replay *r, const char *model, struct iq_buf *b)
{
    const struct iq_incident *in = r->incident;
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    struct iq_jw w = IQ_JW(b);
    iq_jw_begin(&w, '{');
    key_str(&w, "name", in->name);
    key_str(&w, "id", in->id);
    key_str(&w, "title", in->title);
    key_str(&w, "source", in->source);
    key_str(&w, "story", in->story);
    key_str(&w, "model", model);
    iq_jw_key(&w, "golden");
    iq_jw_begin(&w, '[');
    for (unsigned i = 0; i < in->n_sets; i++) iq_jw_str(&w, r->golden[i]);
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "arms");
    iq_jw_begin(&w, '[');
    for (unsigned i = 0; i < in->n_arms; i++) arm_json(&in->arm[i], &r->arm[i], &w);
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "held"), iq_jw_bool(&w, r->held);
    iq_postmortem_text(r->arm[0].finding, &text);
    key_str(&w, "postmortem", text.data);
    iq_jw_end(&w, '}');
    iq_buf_free(&text);
}
