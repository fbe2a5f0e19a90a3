/* A command line against a command's flags. */
#define _GNU_SOURCE
#include "harness/cli/cli.h"
#include "kernels/base/json.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int find(const struct iq_command *c, const char *name, size_t n)
{
    for (int i = 0; c->flags && c->flags[i].name; i++)
        if (strlen(c->flags[i].name) == n && !memcmp(c->flags[i].name, name, n)) return i;
    return -1;
}

static bool has_negation(const struct iq_flag *f)
{
    return f->type == IQ_FLAG_SWITCH && f->fallback && !strcmp(f->fallback, "on");
}

/* "--threads" or "--no-special" to a row; *off for the latter. The name ends at '=' or NUL. */
static int find_spelled(const struct iq_command *c, const char *arg, bool *off)
{
    const char *name = arg + 2;
    size_t n = strcspn(name, "=");
    *off = false;
    int at = find(c, name, n);
    if (at < 0 && n > 3 && !memcmp(name, "no-", 3)) {
        at = find(c, name + 3, n - 3);
        if (at >= 0 && !has_negation(&c->flags[at])) at = -1;
        *off = at >= 0;
    }
    return at;
}

static int unknown_flag(const struct iq_command *c, const char *arg, struct iq_err *err)
{
    const char *known[IQ_FLAGS_MAX + 2];
    char spelled[IQ_FLAGS_MAX][40], word[64];
    struct iq_buf list = IQ_BUF(400);
    int n = 0;
    for (; c->flags && c->flags[n].name; n++) {
        snprintf(spelled[n], sizeof spelled[n], "--%s%s", has_negation(&c->flags[n]) ? "no-" : "",
                 c->flags[n].name);
        known[n] = spelled[n];
        iq_buf_printf(&list, "%s, ", spelled[n]);
    }
    known[n] = "--help";
    known[n + 1] = NULL;
    snprintf(word, sizeof word, "%.*s", (int)strcspn(arg, "="), arg);
    const char *near = iq_nearest(word, known);
    iq_fail(err, IQ_USAGE, "unknown option %s%s%s; options of `%s`: %s--help", word,
            near ? "; nearest is " : "", near ? near : "", c->name, list.data ? list.data : "");
    iq_buf_free(&list);
    return IQ_USAGE;
}

static int take_choice(const struct iq_flag *f, const char *text, struct iq_err *err)
{
    char copy[256];
    const char *known[32];
    int n = 0;
    snprintf(copy, sizeof copy, "%s", f->meta);
    char *save = NULL;
    for (char *w = strtok_r(copy, "|", &save); w && n < 31; w = strtok_r(NULL, "|", &save)) {
        if (!strcmp(w, text)) return IQ_OK;
        known[n++] = w;
    }
    known[n] = NULL;
    const char *near = iq_nearest(text, known);
    return iq_fail(err, IQ_USAGE, "--%s: found '%.80s'%s%s%s, expected one of %s", f->name, text,
                   near ? " (nearest is " : "", near ? near : "", near ? ")" : "", f->meta);
}

static int take_int(const struct iq_flag *f, const char *text, int64_t *out, struct iq_err *err)
{
    char *end = NULL;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    bool digits = *text && (text[*text == '-'] >= '0' && text[*text == '-'] <= '9');
    if (!digits || *end || errno || !((double)v >= f->lo && (double)v <= f->hi))
        return iq_fail(err, IQ_USAGE, "--%s: found '%.80s', expected a whole number from %.0f to %.0f",
                       f->name, text, f->lo, f->hi);
    *out = v;
    return IQ_OK;
}

static int take_float(const struct iq_flag *f, const char *text, double *out, struct iq_err *err)
{
    char *end = NULL;
    double v = strtod(text, &end);
    bool plain = *text && strspn(text, "+-.0123456789eE") == strlen(text); /* no hex, nan, inf, blanks */
    if (!plain || *end || !(v >= f->lo && v <= f->hi))
        return iq_fail(err, IQ_USAGE, "--%s: found '%.80s', expected a number from %.9g to %.9g", f->name,
                       text, f->lo, f->hi);
    *out = v;
    return IQ_OK;
}

static int take(const struct iq_flag *f, const char *text, struct iq_flag_value *v, struct iq_err *err)
{
    if (f->type == IQ_FLAG_CHOICE) IQ_TRY(take_choice(f, text, err));
    if (f->type == IQ_FLAG_INT) IQ_TRY(take_int(f, text, &v->i, err));
    if (f->type == IQ_FLAG_FLOAT) IQ_TRY(take_float(f, text, &v->f, err));
    if (f->type == IQ_FLAG_SWITCH) v->i = !strcmp(text, "on");
    if (!v->text || f->type != IQ_FLAG_LIST) v->text = text;
    v->set = true;
    return IQ_OK;
}

/* One flag at argv[*at]; *at moves to the last argument that it used. */
static int take_flag(struct iq_call *call, int *at, struct iq_err *err)
{
    const char *arg = call->argv[*at], *equals = strchr(arg, '=');
    bool off;
    int i = find_spelled(call->command, arg, &off);
    if (i < 0) return unknown_flag(call->command, arg, err);
    const struct iq_flag *f = &call->command->flags[i];
    struct iq_flag_value *v = &call->value[i];
    if (v->given && f->type != IQ_FLAG_LIST)
        return iq_fail(err, IQ_USAGE, "--%s is given twice; give it once", f->name);
    v->given = true;
    if (f->type == IQ_FLAG_SWITCH) {
        if (equals) return iq_fail(err, IQ_USAGE, "%.60s: --%s takes no value", arg, f->name);
        return take(f, off ? "off" : "on", v, err);
    }
    if (equals) return take(f, equals + 1, v, err);
    if (*at + 1 >= call->argc) return iq_fail(err, IQ_USAGE, "--%s needs a value (%s)", f->name, f->meta);
    const char *next = call->argv[*at + 1];
    if (!strncmp(next, "--", 2) && (!next[2] || find_spelled(call->command, next, &off) >= 0))
        return iq_fail(err, IQ_USAGE,
                       "--%s needs a value (%s), found the option %s; if that is the value, write --%s=%s",
                       f->name, f->meta, next, f->name, next);
    *at += 1;
    return take(f, next, v, err);
}

static bool asks_help(int argc, char **argv)
{
    for (int i = 0; i < argc && strcmp(argv[i], "--"); i++)
        if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) return true;
    return false;
}

static int check_operands(const struct iq_call *call, struct iq_err *err)
{
    const struct iq_command *c = call->command;
    int n = call->n_operands;
    if (c->operands_max >= 0 && n > c->operands_max)
        return iq_fail(err, IQ_USAGE, "unexpected argument '%.80s'; usage: inquest %s%s%s [options]",
                       call->operands[c->operands_max], c->name, c->operands ? " " : "",
                       c->operands ? c->operands : "");
    if (n < c->operands_min)
        return iq_fail(err, IQ_USAGE, "found %d argument%s, expected %s; usage: inquest %s %s [options]", n,
                       n == 1 ? "" : "s", c->operands, c->name, c->operands);
    return IQ_OK;
}

int iq_call_open(const struct iq_command *c, int argc, char **argv, struct iq_call *call, bool *help,
                 struct iq_err *err)
{
    *call = (struct iq_call){.command = c, .argc = argc, .argv = argv};
    *help = asks_help(argc, argv);
    if (*help) return IQ_OK;
    call->operands = calloc((size_t)argc + 1, sizeof *call->operands);
    if (!call->operands) return iq_fail(err, IQ_MEMORY, "no memory for %d arguments", argc);
    bool flags_over = false;
    for (int i = 0; i < argc; i++) {
        const char *a = argv[i];
        if (!flags_over && !strcmp(a, "--"))
            flags_over = true;
        else if (!flags_over && !strncmp(a, "--", 2))
            IQ_TRY(take_flag(call, &i, err));
        else if (!flags_over && a[0] == '-' && a[1])
            return iq_fail(err, IQ_USAGE,
                           "unknown option '%.60s': options are spelled with two dashes (see --help)", a);
        else
            call->operands[call->n_operands++] = a;
    }
    for (int i = 0; c->flags && c->flags[i].name; i++) {
        const struct iq_flag *f = &c->flags[i];
        if (call->value[i].given) continue;
        if (f->required) return iq_fail(err, IQ_USAGE, "--%s %s is missing", f->name, f->meta);
        if (f->fallback) IQ_TRY(take(f, f->fallback, &call->value[i], err));
    }
    return check_operands(call, err);
}

void iq_call_close(struct iq_call *call)
{
    free(call->operands);
    call->operands = NULL;
}

static int index_of(const struct iq_call *call, const char *flag, unsigned types)
{
    int i = find(call->command, flag, strlen(flag));
    if (i < 0 || !(types >> call->command->flags[i].type & 1))
        abort(); /* the command asks for what it lacks */
    return i;
}

bool iq_arg_given(const struct iq_call *c, const char *flag)
{
    return c->value[index_of(c, flag, ~0u)].given;
}

bool iq_arg_on(const struct iq_call *c, const char *flag)
{
    return c->value[index_of(c, flag, 1u << IQ_FLAG_SWITCH)].i;
}

const char *iq_arg_str(const struct iq_call *c, const char *flag)
{
    return c->value[index_of(c, flag, 1u << IQ_FLAG_STRING | 1u << IQ_FLAG_CHOICE)].text;
}

int64_t iq_arg_int(const struct iq_call *c, const char *flag)
{
    return c->value[index_of(c, flag, 1u << IQ_FLAG_INT)].i;
}

double iq_arg_f64(const struct iq_call *c, const char *flag)
{
    return c->value[index_of(c, flag, 1u << IQ_FLAG_FLOAT)].f;
}

const char *iq_arg_list(const struct iq_call *c, const char *flag, int i)
{
    int row = index_of(c, flag, 1u << IQ_FLAG_LIST);
    if (!c->value[row].given) return i == 0 ? c->value[row].text : NULL;
    for (int a = 0; a < c->argc && strcmp(c->argv[a], "--"); a++) {
        const char *arg = c->argv[a];
        bool off;
        if (strncmp(arg, "--", 2)) continue;
        int at = find_spelled(c->command, arg, &off);
        const char *equals = strchr(arg, '=');
        bool takes_next = at >= 0 && c->command->flags[at].type != IQ_FLAG_SWITCH && !equals;
        if (at == row && i-- == 0) return equals ? equals + 1 : c->argv[a + 1];
        a += takes_next;
    }
    return NULL;
}
