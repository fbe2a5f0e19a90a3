/* Triggers as a sentence and as canonical JSON. */
#include "faults/trigger_parts.h"

#include <inttypes.h>
#include <stdio.h>

/* A value as people write it. */
void iq__trigger_say_value(const struct iq__test *t, uint64_t v, struct iq_buf *b)
{
    switch (iq__test_type(t)) {
    case IQ_TRIGGER_WORD:
        iq_buf_printf(b, "%s", t->field->words[v]);
        return;
    case IQ_TRIGGER_BOOL:
        iq_buf_printf(b, v ? "true" : "false");
        return;
    case IQ_TRIGGER_FLOAT:
        iq_buf_printf(b, "%g", (double)iq__key_float(v));
        return;
    case IQ_TRIGGER_NUMBER:
        iq_buf_printf(b, "%g", iq__key_number(v));
        return;
    case IQ_TRIGGER_INTEGER:
        iq_buf_printf(b, "%" PRIu64, v);
        return;
    }
}

static void say_set(const struct iq__test *t, struct iq_buf *b)
{
    enum { SAID = 8 };
    for (size_t i = 0; i < t->n && i < SAID; i++) {
        if (i) iq_buf_printf(b, i + 1 == t->n ? " or " : ", ");
        iq__trigger_say_value(t, t->set[i], b);
    }
    if (t->n > SAID) iq_buf_printf(b, " or one of %zu more", t->n - SAID);
}

void iq__trigger_say_test(const struct iq_when *trigger, const struct iq__test *t, struct iq_buf *b)
{
    if (t->field || t->value)
        iq_buf_printf(b, "%s%s", t->field ? "" : "value.", t->field ? t->field->name : t->value->name);
    else
        iq_buf_printf(b, "the operand's %s", trigger->kind->fields[t->arg]);
    if (t->form == IQ__MOD) iq_buf_printf(b, " mod %" PRIu64, t->mod);
    if (t->form == IQ__CROSSES) {
        iq_buf_printf(b, t->negate ? " does not cross " : " crosses ");
        say_set(t, b);
        iq_buf_printf(b, " in the step");
        return;
    }
    iq_buf_printf(b, t->negate ? " is not " : " is ");
    if (t->form != IQ__RANGE) {
        say_set(t, b);
        return;
    }
    if (t->has_lo) {
        iq_buf_printf(b, t->has_hi ? "from " : "at least ");
        iq__trigger_say_value(t, t->lo, b);
    }
    if (t->has_hi) {
        iq_buf_printf(b, t->has_lo ? " to " : "at most ");
        iq__trigger_say_value(t, t->hi, b);
    }
}

void iq_trigger_explain(const struct iq_when *t, struct iq_buf *b)
{
    if (!t->n) iq_buf_printf(b, "always");
    for (size_t i = 0; i < t->n; i++) {
        iq_buf_printf(b, "%s", !i ? "when " : i + 1 == t->n ? " and " : ", ");
        iq__trigger_say_test(t, &t->test[i], b);
    }
}

static void write_value(const struct iq__test *t, uint64_t v, struct iq_jw *w)
{
    char hex[24];
    switch (iq__test_type(t)) {
    case IQ_TRIGGER_WORD:
        iq_jw_str(w, t->field->words[v]);
        return;
    case IQ_TRIGGER_BOOL:
        iq_jw_bool(w, v);
        return;
    case IQ_TRIGGER_FLOAT:
        iq_jw_f32(w, iq__key_float(v));
        return;
    case IQ_TRIGGER_NUMBER:
        iq_jw_f64(w, iq__key_number(v));
        return;
    case IQ_TRIGGER_INTEGER:
        break;
    }
    snprintf(hex, sizeof hex, "0x%" PRIx64, v);
    if (v > UINT64_C(1) << 53)
        iq_jw_str(w, hex);
    else
        iq_jw_u64(w, v);
}

static void write_set(const struct iq__test *t, struct iq_jw *w)
{
    if (t->n > 1) iq_jw_begin(w, '[');
    for (size_t i = 0; i < t->n; i++) write_value(t, t->set[i], w);
    if (t->n > 1) iq_jw_end(w, ']');
}

static void write_test(const struct iq__test *t, struct iq_jw *w)
{
    if (t->negate) {
        iq_jw_begin(w, '{');
        iq_jw_key(w, "not");
    }
    if (t->form != IQ__SET) iq_jw_begin(w, '{');
    if (t->form == IQ__CROSSES) iq_jw_key(w, "crosses");
    if (t->form == IQ__MOD) {
        iq_jw_key(w, "mod");
        iq_jw_u64(w, t->mod);
        iq_jw_key(w, "is");
    }
    if (t->form != IQ__RANGE) write_set(t, w);
    if (t->has_lo) {
        iq_jw_key(w, "min");
        write_value(t, t->lo, w);
    }
    if (t->has_hi) {
        iq_jw_key(w, "max");
        write_value(t, t->hi, w);
    }
    if (t->form != IQ__SET) iq_jw_end(w, '}');
    if (t->negate) iq_jw_end(w, '}');
}

void iq_trigger_json(const struct iq_when *t, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    for (size_t i = 0; i < t->n; i++) {
        char name[80];
        const struct iq__test *c = &t->test[i];
        if (c->field)
            snprintf(name, sizeof name, "%s", c->field->name);
        else
            snprintf(name, sizeof name, "%s.%s", c->value ? "value" : "arg",
                     c->value ? c->value->name : t->kind->fields[c->arg]);
        iq_jw_key(w, name);
        write_test(c, w);
    }
    iq_jw_end(w, '}');
}
