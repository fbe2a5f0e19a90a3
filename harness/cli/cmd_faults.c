/* What plans are written from: the records of variants, and the vocabulary of triggers. */
#include "harness/cli/commands.h"

#include "faults/trigger.h"
#include "harness/cli/run_common.h"
#include "harness/plan/variants.h"
#include "kernels/base/json.h"

#include <string.h>

static int print(struct iq_call *call, struct iq_buf *text, struct iq_err *err)
{
    if (!iq_arg_on(call, "json") && text->len) text->len--; /* the last newline: the writer adds one */
    int status = iq_out_line(call->out, text, err);
    iq_buf_free(text);
    return status;
}

static void key_str(struct iq_jw *w, const char *key, const char *text)
{
    iq_jw_key(w, key);
    iq_jw_str(w, text);
}

/* The next variant that is listed: wrong ones and benign ones, which say what they are. */
static const struct iq_variant *next(size_t *at)
{
    const struct iq_variant *v;
    while ((v = iq_variant_at((*at)++)) && !v->what) continue;
    return v;
}

static const char *class_of(const struct iq_variant *v)
{
    return v->flags & IQ_V_FAULTY ? "wrong" : "benign";
}

/* The places of a kind. */
static bool is_at(const struct iq_variant *v, unsigned op)
{
    return !strcmp(iq_op_kind((enum iq_op_id)op)->name, v->kind);
}

/* ---- list ---- */

static int list(struct iq_call *call, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&text);
    const struct iq_variant *v;
    bool json = iq_arg_on(call, "json");
    struct iq_user_use named[IQ_USER_FILES];
    size_t n;
    IQ_TRY(iq_run_kernels(call, named, &n, err));
    if (json) iq_jw_begin(&w, '[');
    for (size_t at = 0; (v = next(&at));) {
        if (!json) {
            iq_buf_printf(&text, "%-20s %-11s %s\n", v->name, v->kind, v->what);
            if (v->needs) iq_buf_printf(&text, "%-32s needs %s\n", "", v->needs);
            continue;
        }
        iq_jw_begin(&w, '{');
        key_str(&w, "variant", v->name), key_str(&w, "kind", v->kind), key_str(&w, "class", class_of(v));
        key_str(&w, "device", v->device), key_str(&w, "what", v->what), key_str(&w, "needs", v->needs);
        iq_jw_end(&w, '}');
    }
    if (json) iq_jw_end(&w, ']');
    return print(call, &text, err);
}

/* ---- show ---- */

static void show_json(const struct iq_variant *v, struct iq_buf *text)
{
    struct iq_jw w = IQ_JW(text);
    iq_jw_begin(&w, '{');
    key_str(&w, "variant", v->name), key_str(&w, "kind", v->kind), key_str(&w, "class", class_of(v));
    key_str(&w, "device", v->device), key_str(&w, "what", v->what), key_str(&w, "needs", v->needs);
    key_str(&w, "story", v->story), key_str(&w, "expect", v->expect);
    iq_jw_key(&w, "ops"), iq_jw_begin(&w, '[');
    for (unsigned op = 0; op < IQ_ALL_OPS; op++)
        if (is_at(v, op)) iq_jw_str(&w, iq_op_name(op));
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "params"), iq_jw_begin(&w, '[');
    for (const struct iq_param *p = v->params; p && p->name; p++) {
        iq_jw_begin(&w, '{');
        key_str(&w, "name", p->name), key_str(&w, "help", p->help);
        iq_jw_key(&w, "default"), iq_jw_f64(&w, p->def);
        iq_jw_key(&w, "min"), iq_jw_f64(&w, p->lo);
        iq_jw_key(&w, "max"), iq_jw_f64(&w, p->hi);
        iq_jw_end(&w, '}');
    }
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
}

static void show_text(const struct iq_variant *v, struct iq_buf *b)
{
    const char *first = NULL, *comma = "";
    iq_buf_printf(b, "%s (%s): %s\n\nop       ", v->name, class_of(v), v->what);
    if (iq_op_find(v->kind) < 0) iq_buf_printf(b, "%s: every one of these, or one: ", v->kind);
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        if (!is_at(v, op)) continue;
        if (!first) first = iq_op_name(op);
        iq_buf_printf(b, "%s%s", comma, iq_op_name(op));
        comma = ", ";
    }
    iq_buf_printf(b, "\nneeds    %s\n",
                  v->needs ? v->needs : "nothing: it has an effect wherever it strikes");
    iq_buf_printf(b, "device   %s\n", strcmp(v->device, "any") ? v->device : "any: cpu, cuda, cuda-shim");
    if (v->story) iq_buf_printf(b, "story    %s\n", v->story);
    if (v->expect) iq_buf_printf(b, "breaks   %s\n", v->expect);
    iq_buf_printf(b, "params   %s\n", v->params && v->params->name ? "(default, range)" : "none");
    for (const struct iq_param *p = v->params; p && p->name; p++)
        iq_buf_printf(b, "  %-10s %.10g, %.10g to %.10g: %s\n", p->name, p->def, p->lo, p->hi, p->help);
    iq_buf_printf(b, "example  {");
    if (iq_user_file_of(v)) iq_buf_printf(b, "\"libraries\": [\"%s\"], ", iq_user_file_of(v));
    iq_buf_printf(b, "\"faults\": [{\"op\": \"%s\", \"variant\": \"%s\"", first, v->name);
    for (const struct iq_param *p = v->params; p && p->name; p++)
        iq_buf_printf(b, "%s\"%s\": %.9g%s", p == v->params ? ", \"params\": {" : ", ", p->name, p->def,
                      p[1].name ? "" : "}");
    iq_buf_printf(b, "}]%s}\n", strcmp(v->device, "cuda") ? "" : ", \"engine\": {\"device\": \"cuda\"}");
}

static int show(struct iq_call *call, struct iq_err *err)
{
    enum { LISTED = 256 };
    const char *known[LISTED + 1];
    struct iq_buf text = IQ_BUF(1 << 20);
    const struct iq_variant *v;
    struct iq_user_use named[IQ_USER_FILES];
    size_t n = 0, libraries;
    IQ_TRY(iq_run_kernels(call, named, &libraries, err));
    for (size_t at = 0; n < LISTED && (v = next(&at)) && strcmp(v->name, call->operands[0]);)
        known[n++] = v->name;
    known[n] = NULL;
    if (!v) return iq_not_among("fault", call->operands[0], known, "VARIANT", IQ_USAGE, err);
    if (iq_arg_on(call, "json"))
        show_json(v, &text);
    else
        show_text(v, &text);
    return print(call, &text, err);
}

static void words(struct iq_buf *b)
{
    const struct iq_variant *v;
    if (iq_variants_register(NULL) != IQ_OK) return;
    for (size_t at = 0; (v = next(&at));) iq_buf_printf(b, "%s ", v->name);
}

/* ---- fields ---- */

/* The kind of an op, where the op is the first of its kind. */
static const struct iq_kind *first_of_kind(unsigned op)
{
    const struct iq_kind *kind = iq_op_kind((enum iq_op_id)op);
    for (unsigned before = 0; before < op; before++)
        if (iq_op_kind((enum iq_op_id)before) == kind) return NULL;
    return kind;
}

/* The same where its operands have names. */
static const struct iq_kind *kind_with_fields(unsigned op)
{
    const struct iq_kind *kind = first_of_kind(op);
    return kind && kind->fields && kind->fields[0] ? kind : NULL;
}

static const char *value_type(const struct iq_value *v)
{
    static const char *const text[] = {
        [IQ_VALUE_COUNT] = "integer", [IQ_VALUE_NUMBER] = "number", [IQ_VALUE_FLAG] = "boolean"};
    return text[v->type];
}

static void values_json(struct iq_jw *w)
{
    iq_jw_key(w, "values"), iq_jw_begin(w, '{');
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        const struct iq_kind *kind = first_of_kind(op);
        if (!kind || !kind->values) continue;
        iq_jw_key(w, kind->name), iq_jw_begin(w, '[');
        for (const struct iq_value *v = kind->values; v->name; v++) {
            iq_jw_begin(w, '{');
            key_str(w, "name", v->name), key_str(w, "type", value_type(v));
            key_str(w, "chooses", v->call ? "call" : "row"), key_str(w, "help", v->help);
            iq_jw_key(w, "reads"), iq_jw_bool(w, v->reads);
            iq_jw_end(w, '}');
        }
        iq_jw_end(w, ']');
    }
    iq_jw_end(w, '}');
}

static void values_text(struct iq_buf *b)
{
    iq_buf_printf(
        b,
        "\nVALUES (as value.NAME, of the op's kind; those marked * read the op's numbers, which a plan can't "
        "ask for on a device)\n");
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        const struct iq_kind *kind = first_of_kind(op);
        if (!kind || !kind->values) continue;
        iq_buf_printf(b, "  %s\n", kind->name);
        for (const struct iq_value *v = kind->values; v->name; v++)
            iq_buf_printf(b, "    value.%-12s %-8s %-4s %s%s\n", v->name, value_type(v),
                          v->call ? "call" : "row", v->help, v->reads ? " *" : "");
    }
}

static void fields_json(struct iq_buf *text)
{
    struct iq_jw w = IQ_JW(text);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "fields"), iq_jw_begin(&w, '[');
    for (const struct iq_trigger_field *f = iq_trigger_fields(); f->name; f++) {
        iq_jw_begin(&w, '{');
        key_str(&w, "name", f->name), key_str(&w, "type", iq_trigger_type_text(f->type));
        key_str(&w, "chooses", iq_trigger_level_text(f->level)), key_str(&w, "help", f->help);
        if (f->words) {
            iq_jw_key(&w, "words"), iq_jw_begin(&w, '[');
            for (size_t i = 0; f->words[i]; i++) iq_jw_str(&w, f->words[i]);
            iq_jw_end(&w, ']');
        }
        iq_jw_end(&w, '}');
    }
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "operands"), iq_jw_begin(&w, '{');
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        const struct iq_kind *kind = kind_with_fields(op);
        if (!kind) continue;
        iq_jw_key(&w, kind->name), iq_jw_begin(&w, '[');
        for (size_t i = 0; kind->fields[i]; i++) iq_jw_str(&w, kind->fields[i]);
        iq_jw_end(&w, ']');
    }
    iq_jw_end(&w, '}');
    values_json(&w);
    iq_jw_key(&w, "forms"), iq_jw_begin(&w, '[');
    for (const struct iq_trigger_form *f = iq_trigger_forms; f->form; f++) {
        iq_jw_begin(&w, '{');
        key_str(&w, "form", f->form), key_str(&w, "help", f->help);
        iq_jw_end(&w, '}');
    }
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
}

static void words_text(const char *before, const char *const *words, struct iq_buf *b)
{
    for (size_t i = 0; words[i]; i++) iq_buf_printf(b, "%s%s", i ? ", " : before, words[i]);
}

static void fields_text(struct iq_buf *b)
{
    const char *const *ops = NULL;
    for (const struct iq_trigger_field *f = iq_trigger_fields(); f->name; f++)
        if (!strcmp(f->name, "op")) ops = f->words;
    iq_buf_printf(b, "FIELDS (type; whether it decides for a step, a call of an op, or row by row)\n");
    for (const struct iq_trigger_field *f = iq_trigger_fields(); f->name; f++) {
        iq_buf_printf(b, "  %-18s %-8s %-5s %s", f->name, iq_trigger_type_text(f->type),
                      iq_trigger_level_text(f->level), f->help);
        if (f->words == ops) /* many, and of several fields */
            iq_buf_printf(b, " (words: OPS)");
        else if (f->words)
            words_text(": ", f->words, b);
        iq_buf_printf(b, "\n");
    }
    iq_buf_printf(b, "\nOPS ");
    if (ops) words_text("", ops, b);
    iq_buf_printf(b, "\n\nOPERANDS (integers, as arg.NAME, of the op's kind; strides in elements, x_bytes "
                     "from the first to the "
                     "end of the last row)\n");
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        const struct iq_kind *kind = kind_with_fields(op);
        if (!kind) continue;
        iq_buf_printf(b, "  %-14s ", kind->name);
        for (size_t i = 0; kind->fields[i]; i++) iq_buf_printf(b, "%sarg.%s", i ? ", " : "", kind->fields[i]);
        iq_buf_printf(b, "\n");
    }
    values_text(b);
    iq_buf_printf(b, "\nFORMS (of one field; all fields of `when` must hold)\n");
    for (const struct iq_trigger_form *f = iq_trigger_forms; f->form; f++)
        iq_buf_printf(b, "  %-24s %s\n", f->form, f->help);
}

static int fields(struct iq_call *call, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    if (iq_arg_on(call, "json"))
        fields_json(&text);
    else
        fields_text(&text);
    return print(call, &text, err);
}

/* ---- commands ---- */

static const struct iq_flag flags[] = {IQ_FLAG_JSON, {0}};
static const struct iq_flag kernel_flags[] = {IQ_KERNELS_FLAG, IQ_FLAG_JSON, {0}};

const struct iq_command iq_cmd_faults_list = {
    .name = "faults list",
    .one_line = "variants that a plan can put in place of an op, and what they need",
    .about =
        "A plan is {\"faults\": [{\"op\", \"variant\", \"params\", \"when\", \"rate\", \"seed\", \"per\", "
        "\"name\"}], \"engine\": {settings},\n"
        "\"seed\"}. Only op and variant are required. rate is the probability with which a fault strikes "
        "where `when` holds,\n"
        "drawn once per \"call\", \"row\", \"request\" or \"session\". It may change over the clock: [[0, "
        "0.008], "
        "[60000, 0.16]] rises\n"
        "from 0.008 at 0 ms to 0.16 at 60 s, {\"hours\": [[9, 0], [12, 0.1], [17, 0]]} goes by the hour of "
        "the "
        "day; a request or\n"
        "session is drawn once, at the rate of its first arrival, and stays as it was drawn. engine has the "
        "options of "
        "`run`,\n"
        "spelled with _ for -.\n"
        "The variant \"reference\" of every kind is correct: as the last fault it is a workaround.\n"
        "\n"
        "Your own kernels are variants, too: \"libraries\" of the plan names shared libraries (relative to "
        "the plan), built "
        "against\n"
        "inquest/kernel.h, or programs: [\"./mine.so\", {\"process\": [\"python3\", \"mine.py\"], "
        "\"timeout_s\": 10, "
        "\"memory_mb\": 2048}].\n"
        "They run in processes of their own; see `inquest run --help`.\n",
    .examples = "inquest faults list\ninquest faults list --json\ninquest faults list --kernels ./mine.so\n",
    .flags = kernel_flags,
    .run = list,
};

const struct iq_command iq_cmd_faults_show = {
    .name = "faults show",
    .one_line = "a variant's story, its places, its parameters with defaults and ranges, an example",
    .operands = "VARIANT",
    .operands_min = 1,
    .operands_max = 1,
    .examples = "inquest faults show k_tail\ninquest faults show my_norm --kernels ./mine.so\n",
    .flags = kernel_flags,
    .words = words,
    .run = show,
};

const struct iq_command iq_cmd_faults_fields = {
    .name = "faults fields",
    .one_line = "what a fault's `when` can ask: fields, types and forms",
    .about = "For instance {\"batch\": [3, 7], \"tokens\": {\"min\": 8}, \"pos\": {\"mod\": 16, \"is\": 0}, "
             "\"tracing\": false}.\n"
             "All fields must hold. `inquest plan check` says in words when a plan strikes, and when it "
             "never can.\n",
    .examples = "inquest faults fields\n",
    .flags = flags,
    .run = fields,
};
