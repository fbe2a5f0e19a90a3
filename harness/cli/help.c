/* Help and completion, printed from the tables. */
#include "harness/cli/cli.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_AT = 26, WIDTH = 100 };

size_t iq_command_group(const struct iq_command *c)
{
    const char *space = strchr(c->name, ' ');
    return space ? (size_t)(space - c->name) : 0;
}

bool iq_command_in(const struct iq_command *c, const char *group)
{
    size_t n = iq_command_group(c);
    return n && strlen(group) == n && !memcmp(c->name, group, n);
}

static void spell(const struct iq_flag *f, char *out, size_t size)
{
    if (f->type == IQ_FLAG_SWITCH)
        snprintf(out, size, "--%s%s", f->fallback && !strcmp(f->fallback, "on") ? "no-" : "", f->name);
    else
        snprintf(out, size, "--%s %s", f->name, f->meta);
}

/* Two columns: `left`, then `text` wrapped between TEXT_AT and WIDTH. */
static void row(struct iq_buf *b, const char *left, const char *text)
{
    int at = 2 + (int)strlen(left);
    iq_buf_printf(b, "  %s", left);
    if (at >= TEXT_AT) {
        iq_buf_printf(b, "\n");
        at = 0;
    }
    while (*text) {
        size_t n = strcspn(text, " ");
        if (at > TEXT_AT && at + 1 + (int)n > WIDTH) {
            iq_buf_printf(b, "\n");
            at = 0;
        }
        if (at < TEXT_AT) {
            iq_buf_printf(b, "%*s", TEXT_AT - at, "");
            at = TEXT_AT;
        } else {
            iq_buf_printf(b, " ");
            at++;
        }
        iq_buf_printf(b, "%.*s", (int)n, text);
        at += (int)n;
        text += n + (text[n] == ' ');
    }
    iq_buf_printf(b, "\n");
}

static void flag_row(struct iq_buf *b, const struct iq_flag *f)
{
    char left[128], text[512];
    spell(f, left, sizeof left);
    int n = snprintf(text, sizeof text, "%s", f->help);
    const char *more = "";
    char note[96];
    if (f->required)
        more = " (required)";
    else if (f->type == IQ_FLAG_LIST)
        more = " (may be repeated)";
    else if (f->fallback && f->type != IQ_FLAG_SWITCH) {
        snprintf(note, sizeof note, " [%s]", f->fallback);
        more = note;
    }
    if (n > 0 && (size_t)n < sizeof text) snprintf(text + n, sizeof text - (size_t)n, "%s", more);
    row(b, left, text);
}

void iq_help_command(const struct iq_command *c, struct iq_buf *b)
{
    iq_buf_printf(b, "inquest %s: %s\n\nusage: inquest %s%s%s [options]\n", c->name, c->one_line, c->name,
                  c->operands ? " " : "", c->operands ? c->operands : "");
    if (c->about) iq_buf_printf(b, "\n%s", c->about);
    iq_buf_printf(b, "\nOPTIONS\n");
    for (const struct iq_flag *f = c->flags; f && f->name; f++) flag_row(b, f);
    row(b, "--help", "print this text");
    if (c->examples) {
        iq_buf_printf(b, "\nEXAMPLES\n");
        for (const char *line = c->examples; *line;) {
            size_t n = strcspn(line, "\n");
            iq_buf_printf(b, "  %.*s\n", (int)n, line);
            line += n + (line[n] == '\n');
        }
    }
    /* The command's own statuses stand around 2. */
    const char *own = c->statuses ? c->statuses : "", *above = strstr(own, "  3  ");
    int below = above ? (int)(above - own) : (int)strlen(own);
    iq_buf_printf(b, "\nEXIT STATUS\n  0  done\n%.*s  2  wrong use or a broken environment\n%s", below, own,
                  own + below);
}

void iq_help_group(const char *group, struct iq_buf *b)
{
    iq_buf_printf(b, "usage: inquest %s COMMAND [options]\n\nCOMMANDS\n", group);
    for (const struct iq_command *const *c = iq_commands; *c; c++)
        if (iq_command_in(*c, group)) row(b, (*c)->name, (*c)->one_line);
    iq_buf_printf(b, "\n`inquest help %s COMMAND` tells more.\n", group);
}

void iq_help_all(struct iq_buf *b)
{
    iq_buf_printf(b, "inquest: fault injection and forensics for the infrastructure under LLM inference\n\n"
                     "usage: inquest COMMAND [options]\n\nCOMMANDS\n");
    for (const struct iq_command *const *c = iq_commands; *c; c++) row(b, (*c)->name, (*c)->one_line);
    row(b, "help [COMMAND]", "print help");
    iq_buf_printf(
        b, "\nEvery command has --help with examples. Standard output is data, standard error is talk.\n"
           "\nEXIT STATUS\n  0  done; nothing was found, or all predictions hold\n  1  found\n"
           "  2  wrong use or a broken environment\n  3  inconclusive\n");
}

/* One case of the shell function per command: its flags, and the words of its choices. */
static void completion_case(const struct iq_command *c, struct iq_buf *b)
{
    char spelled[128];
    iq_buf_printf(b, "        '%s')\n            case $prev in\n", c->name);
    for (const struct iq_flag *f = c->flags; f && f->name; f++) {
        if (f->type == IQ_FLAG_SWITCH) continue;
        iq_buf_printf(b, "                --%s) ", f->name);
        if (f->type == IQ_FLAG_CHOICE) {
            iq_buf_printf(b, "words='");
            for (const char *m = f->meta; *m; m++) iq_buf_put(b, *m == '|' ? " " : m, 1);
            iq_buf_printf(b, "'");
        } else {
            iq_buf_printf(b, "words=; %s",
                          strcmp(f->meta, "FILE") && strcmp(f->meta, "DIR") ? "return" : "paths=1");
        }
        iq_buf_printf(b, " ;;\n");
    }
    iq_buf_printf(b, "                *) words='");
    for (const struct iq_flag *f = c->flags; f && f->name; f++) {
        spell(f, spelled, sizeof spelled);
        iq_buf_printf(b, "%.*s ", (int)strcspn(spelled, " "), spelled);
    }
    iq_buf_printf(b, "--help ");
    if (c->words) c->words(b);
    iq_buf_printf(b, "'; %s ;;\n            esac ;;\n", c->operands ? "paths=1" : ":");
}

void iq_completion_bash(struct iq_buf *b)
{
    iq_buf_printf(
        b, "# bash completion for inquest; use: . <(inquest completion bash)\n"
           "_inquest() {\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} command words= paths=\n"
           "    command=${COMP_WORDS[1]}\n    case $command in\n");
    const char *last = "";
    for (const struct iq_command *const *c = iq_commands; *c; c++) {
        size_t n = iq_command_group(*c);
        if (!n || (strlen(last) > n && last[n] == ' ' && !memcmp(last, (*c)->name, n))) continue;
        last = (*c)->name;
        iq_buf_printf(b,
                      "        %.*s)\n            if [ \"$COMP_CWORD\" = 2 ]; then COMPREPLY=($(compgen -W '",
                      (int)n, last);
        for (const struct iq_command *const *m = c; *m; m++)
            if (iq_command_group(*m) == n && !memcmp((*m)->name, last, n))
                iq_buf_printf(b, "%s ", (*m)->name + n + 1);
        iq_buf_printf(b, "' -- \"$cur\")); return; fi\n            command+=\" ${COMP_WORDS[2]}\" ;;\n");
    }
    iq_buf_printf(b, "    esac\n    if [ \"$COMP_CWORD\" = 1 ]; then command=; fi\n    case $command in\n    "
                     "    '') words='help");
    for (const struct iq_command *const *c = iq_commands; *c; c++) {
        size_t n = iq_command_group(*c);
        if (n && c > iq_commands && iq_command_group(c[-1]) == n && !memcmp(c[-1]->name, (*c)->name, n))
            continue;
        iq_buf_printf(b, " %.*s", n ? (int)n : (int)strlen((*c)->name), (*c)->name);
    }
    iq_buf_printf(b, "' ;;\n");
    for (const struct iq_command *const *c = iq_commands; *c; c++) completion_case(*c, b);
    iq_buf_printf(
        b, "    esac\n"
           "    COMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
           "    if [ \"$paths\" ] && [[ $cur != -* ]]; then COMPREPLY+=($(compgen -f -- \"$cur\")); fi\n"
           "}\ncomplete -o filenames -F _inquest inquest\n");
}
