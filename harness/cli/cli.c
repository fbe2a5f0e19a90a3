/* From argv to a command and its exit status. */
#define _GNU_SOURCE
#include "harness/cli/cli.h"

#include "harness/cli/progress.h"
#include "harness/cli/version.h"
#include "kernels/base/json.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_MAX = 64, HELP_MAX = 1 << 20, EXIT_USAGE = 2 };

static const struct iq_command *find_command(int argc, char **argv, int *used)
{
    for (const struct iq_command *const *c = iq_commands; *c; c++) {
        size_t group = iq_command_group(*c);
        *used = group ? 2 : 1;
        if (!group && argc > 0 && !strcmp((*c)->name, argv[0])) return *c;
        if (group && argc > 1 && iq_command_in(*c, argv[0]) && !strcmp((*c)->name + group + 1, argv[1]))
            return *c;
    }
    return NULL;
}

static bool is_group(const char *word)
{
    for (const struct iq_command *const *c = iq_commands; *c; c++)
        if (iq_command_in(*c, word)) return true;
    return false;
}

/* The words that may stand in a place: commands and groups, or with a group its commands. */
static int unknown_command(const char *group, const char *word, struct iq_err *err)
{
    const char *known[NAMES_MAX];
    char names[NAMES_MAX][32];
    struct iq_buf list = IQ_BUF(500);
    int n = 0;
    for (const struct iq_command *const *c = iq_commands; *c && n < NAMES_MAX - 2; c++) {
        size_t len = iq_command_group(*c);
        if (group && !iq_command_in(*c, group)) continue;
        if (group)
            snprintf(names[n], sizeof names[n], "%s", (*c)->name + len + 1);
        else
            snprintf(names[n], sizeof names[n], "%.*s", len ? (int)len : 31, (*c)->name);
        if (n && !strcmp(names[n], names[n - 1])) continue;
        known[n] = names[n];
        iq_buf_printf(&list, "%s%s", n ? ", " : "", names[n]);
        n++;
    }
    if (!group) known[n++] = "help";
    known[n] = NULL;
    const char *near = word ? iq_nearest(word, known) : NULL;
    const char *space = group ? " " : "";
    if (!group) group = "";
    if (word)
        iq_fail(err, IQ_USAGE, "unknown command '%.60s'%s%s%s%s; commands%s%s: %s", word,
                near ? "; nearest is " : "", near ? group : "", near ? space : "", near ? near : "",
                *group ? " of " : "", group, list.data ? list.data : "");
    else
        iq_fail(err, IQ_USAGE, "a command is missing; commands%s%s: %s", *group ? " of " : "", group,
                list.data ? list.data : "");
    iq_buf_free(&list);
    return IQ_USAGE;
}

static int print_help(int argc, char **argv, struct iq_out *out, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(HELP_MAX);
    int used, status = IQ_OK;
    const struct iq_command *c = find_command(argc, argv, &used);
    if (argc == 0)
        iq_help_all(&text);
    else if (c)
        iq_help_command(c, &text);
    else if (is_group(argv[0]) && argc == 1)
        iq_help_group(argv[0], &text);
    else
        status =
            is_group(argv[0]) ? unknown_command(argv[0], argv[1], err) : unknown_command(NULL, argv[0], err);
    if (!status && text.failed) status = iq_fail(err, IQ_MEMORY, "no memory for the help text");
    if (!status) iq_out_put(out, text.data, text.len);
    iq_buf_free(&text);
    return status;
}

static int run_command(const struct iq_command *c, int argc, char **argv, struct iq_out *out, int *verdict,
                       struct iq_err *err)
{
    struct iq_call call;
    bool help;
    int status = iq_call_open(c, argc, argv, &call, &help, err);
    call.out = out;
    if (!status && help) {
        struct iq_buf text = IQ_BUF(HELP_MAX);
        iq_help_command(c, &text);
        iq_out_put(out, text.data, text.len);
        iq_buf_free(&text);
    } else if (!status) {
        status = c->run(&call, err);
        *verdict = call.verdict;
    }
    iq_call_close(&call);
    return status;
}

static bool is(const char *word, const char *a, const char *b)
{
    return !strcmp(word, a) || !strcmp(word, b);
}

int iq_cli_run(int argc, char **argv, struct iq_out *out)
{
    struct iq_err err = {0};
    int status, verdict = 0, used = 0;
    const struct iq_command *c = argc > 1 ? find_command(argc - 1, argv + 1, &used) : NULL;
    if (argc < 2)
        status = unknown_command(NULL, NULL, &err);
    else if (is(argv[1], "--version", "-V")) {
        iq_out_printf(out, "inquest %s\n", IQ_VERSION);
        status = IQ_OK;
    } else if (is(argv[1], "--help", "-h") || !strcmp(argv[1], "help"))
        status = print_help(argc - 2, argv + 2, out, &err);
    else if (c)
        status = run_command(c, argc - 1 - used, argv + 1 + used, out, &verdict, &err);
    else if (is_group(argv[1]))
        status = argc > 2 && is(argv[2], "--help", "-h")
                     ? print_help(1, argv + 1, out, &err)
                     : unknown_command(argv[1], argc > 2 ? argv[2] : NULL, &err);
    else
        status = unknown_command(NULL, argv[1], &err);

    struct iq_err write_err = {0};
    if (iq_out_flush(out, &write_err) && !status) {
        status = write_err.status;
        err = write_err;
    }
    if (!status) return verdict;
    iq_say("%s%s%s", c ? c->name : "", c ? ": " : "", err.text[0] ? err.text : iq_status_text(status));
    return EXIT_USAGE;
}
