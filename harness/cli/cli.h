/* The command line: commands and their flags are tables, and one table drives parsing, --help and completion.
 *
 * A command is a constant `struct iq_command` in its own file cmd_*.c and one line in commands.c. Its name is one word
 * ("doctor") or a group and a word ("model fetch"). What is unknown is refused with the choices and the nearest
 * spelling; a flag given twice is refused unless its type is IQ_FLAG_LIST; `--` ends the flags.
 *
 * Exit status: 0, or what `run` left in `verdict` (IQ_FOUND, IQ_INCONCLUSIVE); 2 when `run` returned an error, whose
 * sentence goes to standard error, or when standard output could not be written. Standard output is data: all of it
 * goes through call->out. Standard error is talk: iq_say and progress bars.
 *
 * Ownership: strings from getters are borrowed from argv or the table and live as long as the process.
 * Asking a getter for a flag that the table does not have, or has with another type, is a bug and aborts. */
#ifndef IQ_HARNESS_CLI_H
#define IQ_HARNESS_CLI_H

#include "harness/cli/out.h"
#include "kernels/base/buf.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum iq_flag_type {
    IQ_FLAG_SWITCH, /* --json; with fallback "on" also --no-NAME, which is the form that help shows */
    IQ_FLAG_STRING, /* --name TEXT */
    IQ_FLAG_LIST,   /* as string, may be repeated */
    IQ_FLAG_INT,    /* lo to hi, both included; at most 2^53 in magnitude */
    IQ_FLAG_FLOAT,  /* finite, lo to hi */
    IQ_FLAG_CHOICE  /* one of the words of meta: "chain|ops|tensors" */
};

struct iq_flag {
    const char *name; /* without dashes; NULL ends the table */
    enum iq_flag_type type;
    const char *meta; /* what stands for the value in help: "N", "FILE", "DIR" (these two complete paths) */
    const char *help; /* one sentence without a full stop */
    const char *fallback; /* the value where the flag is absent, spelled as a user would; NULL: none */
    double lo, hi;        /* IQ_FLAG_INT, IQ_FLAG_FLOAT */
    bool required;
};

/* The row that nearly every table ends with. */
#define IQ_FLAG_JSON                                                                                         \
    {                                                                                                        \
        .name = "json", .type = IQ_FLAG_SWITCH, .help = "print JSON"                                         \
    }

enum { IQ_FOUND = 1, IQ_INCONCLUSIVE = 3 }; /* values of verdict, which are exit statuses */

enum { IQ_FLAGS_MAX = 64 };

struct iq_call;

struct iq_command {
    const char *name;               /* "doctor", "model fetch" */
    const char *one_line;           /* what it does, without a full stop */
    const char *operands;           /* as in the usage line: "MODEL", "[NAME]"; NULL: none */
    int operands_min, operands_max; /* -1: any number */
    const char *about;              /* paragraphs for --help, wrapped, ending with a newline; may be NULL */
    const char *examples;           /* lines, each ending with a newline */
    const char *statuses;           /* lines "  1  ..." that only this command has; may be NULL */
    const struct iq_flag *flags;
    void (*words)(
        struct iq_buf *); /* appends "WORD " for each operand that is known, for completion; NULL: paths */
    int (*run)(struct iq_call *, struct iq_err *);
};

/* The table, in the order in which help lists it; NULL-terminated. */
extern const struct iq_command *const iq_commands[];

struct iq_flag_value {
    bool given;       /* on the command line */
    bool set;         /* given, or by its fallback */
    const char *text; /* NULL where not set; for lists the first */
    int64_t i;
    double f;
};

struct iq_call {
    const struct iq_command *command;
    struct iq_flag_value value[IQ_FLAGS_MAX]; /* as command->flags */
    char **argv;                              /* what follows the command's name */
    int argc;
    const char **operands; /* owned */
    int n_operands;
    struct iq_out *out;
    int verdict; /* 0, IQ_FOUND or IQ_INCONCLUSIVE: set by run */
};

bool iq_arg_given(const struct iq_call *, const char *flag); /* on the command line, any type */
bool iq_arg_on(const struct iq_call *, const char *flag);
const char *iq_arg_str(const struct iq_call *, const char *flag); /* strings and choices; NULL where absent */
int64_t iq_arg_int(const struct iq_call *, const char *flag);     /* 0 where absent and without fallback */
double iq_arg_f64(const struct iq_call *, const char *flag);
/* The i-th value of a repeated flag, in order; NULL behind the last. */
const char *iq_arg_list(const struct iq_call *, const char *flag, int i);

/* Reads argv (without the command's name) by the command's table. call->operands is freed by iq_call_close, also
 * after a failure. `help` is set, and nothing else checked, where --help or -h was found before `--`. */
int iq_call_open(const struct iq_command *, int argc, char **argv, struct iq_call *, bool *help,
                 struct iq_err *);
void iq_call_close(struct iq_call *);

/* Runs a whole command line; argv[0] is the program. Returns the exit status. */
int iq_cli_run(int argc, char **argv, struct iq_out *);

/* Texts made from the tables. */
void iq_help_all(struct iq_buf *);
void iq_help_group(const char *group, struct iq_buf *);
void iq_help_command(const struct iq_command *, struct iq_buf *);
void iq_completion_bash(struct iq_buf *);

/* The length of the group's name in a command's ("model fetch": 5), 0 where it is in none. */
size_t iq_command_group(const struct iq_command *);
bool iq_command_in(const struct iq_command *, const char *group);

#endif
