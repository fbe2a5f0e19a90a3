/* The tuner, loaded and called as NCCL does. */
#include "kernels/base/rng.h"
#include "kernels/nccl/tuner/rules.h"
#include "kernels/nccl/tuner/tuner_abi.h"
#include "tests/check_main.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BROADCAST, REDUCE, ALL_GATHER, REDUCE_SCATTER, ALL_REDUCE, SEND_RECV }; /* ncclFunc_t */
enum { TREE, RING, COLLNET_DIRECT, COLLNET_CHAIN, NVLS, NVLS_TREE, PAT, ALGORITHMS };
enum { LL, LL128, SIMPLE, PROTOCOLS };

static char said[8192];
static unsigned warnings, lines;

static void __attribute__((format(printf, 5, 6)))
log_line(int level, unsigned long subsystems, const char *file, int line, const char *fmt, ...)
{
    va_list ap;
    size_t n = strlen(said);
    ck_assert_uint_ne(subsystems, 0);
    ck_assert_ptr_nonnull(file);
    ck_assert_int_gt(line, 0);
    warnings += level == TUNER_LOG_WARN;
    lines++;
    va_start(ap, fmt);
    vsnprintf(said + n, sizeof said - n, fmt, ap);
    va_end(ap);
    ck_assert_ptr_null(strchr(said + n, '\n'));
}

static const struct tuner_v3 *v3;
static const struct tuner_v4 *v4;
static const struct tuner_v5 *v5;
static void *context;

static void setup(void)
{
    void *lib = dlopen(IQ_TEST_TUNER, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(lib != NULL, "%s", dlerror());
    v3 = dlsym(lib, "ncclTunerPlugin_v3");
    v4 = dlsym(lib, "ncclTunerPlugin_v4");
    v5 = dlsym(lib, "ncclTunerPlugin_v5");
    ck_assert(v3 && v4 && v5);
    ck_assert_ptr_null(dlsym(lib, "iq_tuner_parse")); /* nothing else is exported */
    *said = 0, warnings = lines = 0;
}

/* As for a communicator of `ranks`. */
static void open_tuner(const char *rules, size_t ranks)
{
    if (rules)
        setenv("INQUEST_NCCL_TUNER", rules, 1);
    else
        unsetenv("INQUEST_NCCL_TUNER");
    context = NULL;
    ck_assert_int_eq(v5->init(&context, 0x1234, ranks, 1, log_line, NULL, NULL), 0);
}

static void close_tuner(void) { ck_assert_int_eq(v5->finish(context), 0); }

/* NCCL's part: a table in which everything costs something, and the choice of the lowest. */
struct choice {
    int algorithm, protocol, channels;
};
static float table[ALGORITHMS][PROTOCOLS];

static void fill(void)
{
    for (int a = 0; a < ALGORITHMS; a++)
        for (int p = 0; p < PROTOCOLS; p++) table[a][p] = 10.0f + (float)(a * PROTOCOLS + p);
}

static struct choice choose(int channels)
{
    struct choice best = {-1, -1, channels};
    float least = 3.4e38f;
    for (int a = 0; a < ALGORITHMS; a++)
        for (int p = 0; p < PROTOCOLS; p++)
            if (table[a][p] >= 0 && table[a][p] < least) {
                best.algorithm = a, best.protocol = p;
                least = table[a][p];
            }
    return best;
}

static struct choice ask(int collective, size_t bytes)
{
    int channels = 0;
    ck_assert_int_eq(
        v5->get_info(context, collective, bytes, 1, (float **)table, ALGORITHMS, PROTOCOLS, 0, &channels), 0);
    return choose(channels);
}

static void expect(int collective, size_t bytes, int algorithm, int protocol, int channels)
{
    fill();
    struct choice c = ask(collective, bytes);
    ck_assert_msg(c.algorithm == algorithm && c.protocol == protocol && c.channels == channels,
                  "collective %d of %zu bytes: found %d/%d with %d channels, expected %d/%d with %d\n%s",
                  collective, bytes, c.algorithm, c.protocol, c.channels, algorithm, protocol, channels,
                  said);
}

/* What an unchanged table gives. */
static void expect_nccls(int collective, size_t bytes) { expect(collective, bytes, TREE, LL, 0); }

START_TEST(sizes_choose_between_rules)
{
    open_tuner("allreduce 0-64K tree/ll128; allreduce 64K-4M ring/ll128 channels=8\n"
               "AllReduce 4M- NVLS/Simple   # the rest\n"
               "\n"
               "allgather all ring/simple;",
               8);
    ck_assert_uint_eq(warnings, 0);
    expect(ALL_REDUCE, 0, TREE, LL128, 0);
    expect(ALL_REDUCE, 65535, TREE, LL128, 0);
    expect(ALL_REDUCE, 65536, RING, LL128, 8);
    expect(ALL_REDUCE, (4 << 20) - 1, RING, LL128, 8);
    expect(ALL_REDUCE, 4 << 20, NVLS, SIMPLE, 0);
    expect(ALL_REDUCE, SIZE_MAX, NVLS, SIMPLE, 0);
    expect(ALL_GATHER, 1, RING, SIMPLE, 0);
    expect_nccls(REDUCE_SCATTER, 1);
    expect_nccls(SEND_RECV, 1);
    expect_nccls(-7, 1);
    expect_nccls(1000, 1);
    close_tuner();
}
END_TEST

START_TEST(the_first_rule_that_fits_wins)
{
    open_tuner(
        "allreduce 100-200 ring/ll; allreduce 50-150 tree/simple; any all pat/simple; broadcast all ring/ll",
        2);
    expect(ALL_REDUCE, 99, TREE, SIMPLE, 0);
    expect(ALL_REDUCE, 100, RING, LL, 0);
    expect(ALL_REDUCE, 149, RING, LL, 0);
    expect(ALL_REDUCE, 200, PAT, SIMPLE, 0);
    expect(BROADCAST, 1, PAT, SIMPLE, 0);
    expect(SEND_RECV, 1, PAT, SIMPLE, 0);
    close_tuner();
}
END_TEST

START_TEST(ranks_choose_too)
{
    static const char rules[] =
        "allreduce all ring/ll ranks=2; allreduce all tree/simple channels=4 ranks=3-8";
    open_tuner(rules, 2);
    expect(ALL_REDUCE, 1, RING, LL, 0);
    close_tuner();
    open_tuner(rules, 8);
    expect(ALL_REDUCE, 1, TREE, SIMPLE, 4);
    close_tuner();
    open_tuner(rules, 9);
    expect_nccls(ALL_REDUCE, 1);
    close_tuner();
}
END_TEST

/* NCCL takes the first of equal costs; a rule must win over a cost of 0 that stands before its own. */
START_TEST(a_tie_is_the_rules)
{
    open_tuner("any all pat/simple", 1);
    fill();
    table[RING][SIMPLE] = 0; /* as for one rank */
    struct choice c = ask(ALL_REDUCE, 4);
    ck_assert_int_eq(c.algorithm, PAT);
    ck_assert_int_eq(c.protocol, SIMPLE);
    close_tuner();
}
END_TEST

START_TEST(what_is_not_to_be_had_stays_so)
{
    open_tuner("allreduce all nvls/simple channels=3", 4);
    fill();
    table[NVLS][SIMPLE] = -1;
    for (int i = 0; i < 2; i++) {
        struct choice c = ask(ALL_REDUCE, 4);
        ck_assert_int_eq(c.algorithm, TREE);
        ck_assert_int_eq(c.channels, 0);
    }
    ck_assert_float_eq(table[NVLS][SIMPLE], -1);
    ck_assert_ptr_nonnull(strstr(said, "nvls/simple: not to be had here, NCCL decides"));
    ck_assert_uint_eq(lines, 2); /* once, and the line of init */
    expect(ALL_REDUCE, 8, NVLS, SIMPLE, 3);
    close_tuner();
}
END_TEST

/* An older NCCL knows fewer algorithms: nothing behind its table is touched. */
START_TEST(a_smaller_table_is_not_left)
{
    int channels = 0;
    open_tuner("any all pat/simple", 4);
    fill();
    ck_assert_int_eq(v5->get_info(context, ALL_REDUCE, 4, 1, (float **)table, PAT, PROTOCOLS, 0, &channels),
                     0);
    ck_assert_float_eq(table[PAT][SIMPLE], 10.0f + PAT * PROTOCOLS + SIMPLE);
    close_tuner();
    open_tuner("any all tree/simple", 4);
    fill();
    ck_assert_int_eq(v5->get_info(context, ALL_REDUCE, 4, 1, (float **)table, 1, 2, 0, &channels), 0);
    ck_assert_float_eq(table[TREE][SIMPLE], 12);
    close_tuner();
}
END_TEST

START_TEST(every_version_gives_the_same_choice)
{
    void *c3 = NULL, *c4 = NULL;
    int channels = 0;
    setenv("INQUEST_NCCL_TUNER", "allreduce all ring/ll128 channels=2", 1);
    ck_assert_int_eq(v3->init(4, 1, log_line, &c3), 0);
    ck_assert_int_eq(v4->init(4, 1, log_line, &c4), 0);
    fill();
    ck_assert_int_eq(v3->get_info(c3, ALL_REDUCE, 9, 1, (float **)table, ALGORITHMS, PROTOCOLS, &channels),
                     0);
    struct choice a = choose(channels);
    fill();
    channels = 0;
    ck_assert_int_eq(v4->get_info(c4, ALL_REDUCE, 9, 1, (float **)table, ALGORITHMS, PROTOCOLS, 1, &channels),
                     0);
    struct choice b = choose(channels);
    ck_assert(a.algorithm == RING && a.protocol == LL128 && a.channels == 2);
    ck_assert(b.algorithm == RING && b.protocol == LL128 && b.channels == 2);
    ck_assert_int_eq(v3->finish(c3), 0);
    ck_assert_int_eq(v4->finish(c4), 0);
    ck_assert_str_eq(v3->name, "inquest");
    ck_assert_str_eq(v4->name, "inquest");
    ck_assert_str_eq(v5->name, "inquest");
}
END_TEST

static const struct {
    const char *rules, *words;
} refused[] = {
    {NULL, "is not set, so NCCL decides"},
    {"", "is not set, so NCCL decides"},
    {";;\n#", "line 2: found no rule"},
    {"alltoall all ring/ll", "line 1: found 'alltoall', expected a collective: broadcast"},
    {"allreduce all ring/ll\nreduce 1-2 ring", "line 2: found 'ring', expected ALGORITHM/PROTOCOL"},
    {"allreduce", "line 1: found '', expected bytes"},
    {"allreduce 5", "found '5', expected bytes"},
    {"allreduce 5-5 ring/ll", "found bytes 5-5, which are none"},
    {"allreduce 2K-1K ring/ll", "found bytes 2K-1K, which are none"},
    {"allreduce -5 ring/ll", "found '-5', expected bytes"},
    {"allreduce 1-2KB ring/ll", "found '1-2KB', expected bytes"},
    {"allreduce 99999999999999999999- ring/ll", "expected bytes"},
    {"allreduce 99999999999999999G- ring/ll", "expected bytes"},
    {"allreduce all ring/ll256", "found 'ring/ll256', expected ALGORITHM/PROTOCOL"},
    {"allreduce all /ll", "found '/ll', expected ALGORITHM"},
    {"allreduce all ring/ll extra", "found 'extra', expected channels=N, ranks=A-B or the end of the rule"},
    {"allreduce all ring/ll channels=0", "expected channels from 1 to 64"},
    {"allreduce all ring/ll channels=65", "expected channels from 1 to 64"},
    {"allreduce all ring/ll channels=", "expected channels from 1 to 64"},
    {"allreduce all ring/ll channels=2 channels=2", "found channels twice"},
    {"allreduce all ring/ll ranks=0", "expected ranks=N or ranks=A-B"},
    {"allreduce all ring/ll ranks=3-2", "expected ranks=N or ranks=A-B"},
    {"allreduce all ring/ll ranks=2 ranks=3", "found ranks twice"},
    {"allreduce all ring/ll\x01", "found byte 0x01, expected plain text"},
    {"allreduce aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa ring/ll",
     "a word of more than 39 letters"},
    {"/nonexistent/rules", "No such file or directory"},
    {"/", "NCCL decides as without it"},
};
enum { REFUSED = sizeof refused / sizeof refused[0] };

START_TEST(what_is_not_understood_is_one_warning_and_nccls_choice)
{
    open_tuner(refused[_i].rules, 4);
    ck_assert_uint_eq(warnings, 1);
    ck_assert_uint_eq(lines, 1);
    ck_assert_msg(strstr(said, refused[_i].words), "'%s' is not in: %s", refused[_i].words, said);
    expect_nccls(ALL_REDUCE, 100);
    close_tuner();
}
END_TEST

START_TEST(help_shows_the_form)
{
    open_tuner("help", 4);
    ck_assert_ptr_nonnull(strstr(said, "COLLECTIVE BYTES ALGORITHM/PROTOCOL"));
    expect_nccls(ALL_REDUCE, 100);
    close_tuner();
}
END_TEST

static void file_write(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(bytes, 1, n, f), n);
    fclose(f);
}

START_TEST(rules_may_stand_in_a_file)
{
    char dir[] = "/tmp/iq-tuner-XXXXXX", path[64];
    static const char two[] = "# two\nallreduce all ring/simple\nbroadcast 1K- tree/ll128";
    static char big[IQ_TUNER_BYTES + 1];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/rules", dir);
    file_write(path, two, sizeof two - 1);
    open_tuner(path, 4);
    ck_assert_uint_eq(warnings, 0);
    expect(ALL_REDUCE, 1, RING, SIMPLE, 0);
    expect(BROADCAST, 1024, TREE, LL128, 0);
    close_tuner();
    memset(big, '\n', sizeof big);
    file_write(path, big, sizeof big);
    open_tuner(path, 4);
    ck_assert_ptr_nonnull(strstr(said, "found more than 65536 bytes of rules"));
    close_tuner();
    file_write(path, "any all ring/ll\0", 16);
    open_tuner(path, 4);
    ck_assert_ptr_nonnull(strstr(said, "found byte 0x00"));
    close_tuner();
    unlink(path);
    rmdir(dir);
}
END_TEST

START_TEST(there_is_an_end_to_rules)
{
    enum { RULE = sizeof "any all ring/ll;" - 1 };
    static char text[(IQ_TUNER_RULES + 1) * RULE + 1];
    for (int i = 0; i < IQ_TUNER_RULES; i++) strcat(text + i * RULE, "any all ring/ll;");
    open_tuner(text, 4);
    ck_assert_uint_eq(warnings, 0);
    close_tuner();
    strcat(text, "any all ring/ll;");
    open_tuner(text, 4);
    ck_assert_ptr_nonnull(strstr(said, "found more than 256 rules"));
    close_tuner();
}
END_TEST

/* NCCL may have no log, and no memory is no failure either. */
START_TEST(nothing_depends_on_a_log)
{
    setenv("INQUEST_NCCL_TUNER", "nonsense", 1);
    ck_assert_int_eq(v5->init(&context, 0, 2, 1, NULL, NULL, NULL), 0);
    expect_nccls(ALL_REDUCE, 1);
    close_tuner();
    context = NULL;
    expect_nccls(ALL_REDUCE, 1);
    close_tuner();
}
END_TEST

/* Whatever the text: an answer, and rules that are in range. */
START_TEST(random_text_is_read_or_refused)
{
    static const char *const words[] = {
        "allreduce", "any", "all",       "0-", "1K-2G", "ring/ll", "pat/simple", "ranks=", "1-",
        ";",         "\n",  "channels=", "9",  "#",     "-",       "/tree",      " ",      "broadcast"};
    uint64_t seed = 20261201;
    unsigned understood = 0;
    static struct iq_tuner_rules rules;
    for (int round = 0; round < 200000; round++) {
        char text[200] = "", why[200];
        size_t n = 0;
        seed = iq_mix64(seed + 1);
        if (round % 2) n = (size_t)snprintf(text, sizeof text, "any all ring/ll ");
        for (uint64_t bits = seed; bits; bits >>= 5) {
            n += (size_t)snprintf(text + n, sizeof text - n, "%s%s",
                                  words[bits % (sizeof words / sizeof *words)], bits & 16 ? " " : "");
        }
        if (round % 3 == 0) text[seed % (n + 1)] = (char)(seed >> 56);
        if (!iq_tuner_parse(text, n, &rules, why, sizeof why)) {
            ck_assert_uint_eq(rules.n, 0);
            continue;
        }
        understood++;
        for (size_t i = 0; i < rules.n; i++) {
            const struct iq_tuner_rule *r = &rules.rule[i];
            ck_assert(r->algorithm < ALGORITHMS && r->protocol < PROTOCOLS && r->from < r->below);
            ck_assert(r->channels >= 0 && r->channels <= 64 && r->ranks_lo && r->ranks_lo <= r->ranks_hi);
        }
    }
    printf("%u of 200000 texts were rules\n", understood);
    ck_assert_uint_gt(understood, 0);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl_tuner");
    TCase *tests = tcase_create("tuner");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, sizes_choose_between_rules);
    tcase_add_test(tests, the_first_rule_that_fits_wins);
    tcase_add_test(tests, ranks_choose_too);
    tcase_add_test(tests, a_tie_is_the_rules);
    tcase_add_test(tests, what_is_not_to_be_had_stays_so);
    tcase_add_test(tests, a_smaller_table_is_not_left);
    tcase_add_test(tests, every_version_gives_the_same_choice);
    tcase_add_loop_test(tests, what_is_not_understood_is_one_warning_and_nccls_choice, 0, REFUSED);
    tcase_add_test(tests, help_shows_the_form);
    tcase_add_test(tests, rules_may_stand_in_a_file);
    tcase_add_test(tests, there_is_an_end_to_rules);
    tcase_add_test(tests, nothing_depends_on_a_log);
    tcase_add_test(tests, random_text_is_read_or_refused);
    suite_add_tcase(suite, tests);
    return check_main(suite);
}
