/* NCCL on GPUs: the variants over communicators of 1 to 8 ranks, a GPU each. Prints one JSON object a line; returns 0, 1 where
 * a check failed, 77 where there is no GPU or no NCCL. With IQ_TEST_DEVICE=cuda-shim the same program runs with a fake of the
 * library on the shim's devices (IQ_SHIM_DEVICES): that the program itself works.
 *
 *   test_gpu_nccl            all of it; what may hang runs as a program of its own, with a limit
 *   test_gpu_nccl capture N  a captured collective of N ranks: 0 it replays, 1 it doesn't
 *   test_gpu_nccl tuner N    one collective, for the log of what loaded the tuner */
#include "kernels/base/json.h"
#include "tests/nccl/nccl_rig.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

enum { LIMIT_S = 50, CHILD_S = 8, CALLS = 12 };
static bool fake;
static int gpus, failures;

/* ---- rows ---- */

static struct iq_buf buf;
static struct iq_jw row;

static void row_begin(const char *check, int ranks)
{
    buf = IQ_BUF(1 << 20);
    row = IQ_JW(&buf);
    iq_jw_begin(&row, '{');
    iq_jw_key(&row, "check");
    iq_jw_str(&row, check);
    if (!ranks) return;
    iq_jw_key(&row, "ranks");
    iq_jw_i64(&row, ranks);
}

static void row_str(const char *key, const char *value)
{
    iq_jw_key(&row, key);
    iq_jw_str(&row, value);
}

static void row_int(const char *key, int64_t value)
{
    iq_jw_key(&row, key);
    iq_jw_i64(&row, value);
}

static void row_end(void)
{
    iq_jw_end(&row, '}');
    puts(buf.data);
    fflush(stdout);
    iq_buf_free(&buf);
}

/* A check that has to hold: `why` where it doesn't. */
static void row_judge(bool ok, const char *why)
{
    failures += !ok;
    row_str("state", ok ? "passed" : "failed");
    if (!ok) row_str("failed", why);
    row_end();
}

/* ---- forms of the sum ---- */

struct form {
    const char *name;
    struct iq_nccl_options options;
    bool certain; /* every machine has it */
};

static const struct form forms[] = {
    {"library", {0}, true},
    {"ring LL", {.algorithm = IQ_NCCL_RING, .protocol = IQ_NCCL_LL}, true},
    {"ring LL128", {.algorithm = IQ_NCCL_RING, .protocol = IQ_NCCL_LL128}, false},
    {"ring Simple", {.algorithm = IQ_NCCL_RING, .protocol = IQ_NCCL_SIMPLE}, true},
    {"tree LL", {.algorithm = IQ_NCCL_TREE, .protocol = IQ_NCCL_LL}, false},
    {"tree LL128", {.algorithm = IQ_NCCL_TREE, .protocol = IQ_NCCL_LL128}, false},
    {"tree Simple", {.algorithm = IQ_NCCL_TREE, .protocol = IQ_NCCL_SIMPLE}, false},
    {"NVLS", {.algorithm = IQ_NCCL_NVLS}, false},
    {"ring Simple, 2 channels", {.algorithm = IQ_NCCL_RING, .protocol = IQ_NCCL_SIMPLE, .channels = 2}, true},
    {"bf16", {.bf16 = true}, true},
    {"scatter", {.scatter = true}, true},
    {"scatter bf16", {.scatter = true, .bf16 = true}, true},
};
enum { FORMS = sizeof forms / sizeof forms[0] };

/* IQ_OK and the output's bits (free them), or why not: cuda->err. */
static int run_form(struct call *c, const struct iq_nccl_options *options, float **y)
{
    call_output(c);
    IQ_TRY(iq_nccl_all_reduce(&exec, &c->a, options, NULL));
    IQ_TRY(iq_cuda_done(cuda, cuda->api->stream_sync(cuda->stream), "an all-reduce"));
    IQ_TRY(iq_nccl_check(cuda));
    *y = malloc(c->bytes);
    from_device(*y, c->a.y, c->bytes);
    return IQ_OK;
}

/* Small integers: each form gives the exact sum, or says that this machine doesn't have it. */
static void check_exact(int ranks, const struct form *form)
{
    int equal = 0, status = IQ_OK;
    for (uint64_t i = 0; i < CALLS && !status; i++) {
        uint64_t seed = iq_mix64(i + 100);
        float *y = NULL;
        struct call *c = call_open(&seed, (uint32_t)ranks, (uint32_t)(i % 3), true);
        status = run_form(c, &form->options, &y);
        equal += !status && !memcmp(y, c->want, c->bytes);
        free(y);
        call_close(c);
        device_release();
    }
    row_begin("exact sum", ranks);
    row_str("form", form->name);
    if (status && !form->certain) {
        row_str("state", "not here");
        row_str("said", cuda->err.text);
        row_end();
        return;
    }
    row_int("calls", CALLS);
    row_int("equal", equal);
    row_judge(equal == CALLS, status ? cuda->err.text : "another sum than the exact one");
}

static void check_gather(int ranks)
{
    int equal = 0, status = IQ_OK;
    for (uint64_t i = 0; i < CALLS && !status; i++) {
        uint64_t seed = iq_mix64(i + 500);
        struct call *c = call_open(&seed, (uint32_t)ranks, (uint32_t)(i % 3), false);
        float *y = malloc(c->bytes);
        call_output(c);
        status = iq_nccl_gather(&exec, &c->a, false);
        if (!status) status = iq_cuda_done(cuda, cuda->api->stream_sync(cuda->stream), "a gather");
        if (!status) from_device(y, c->a.y, c->bytes);
        equal += !status && !memcmp(y, c->want, c->bytes);
        free(y);
        call_close(c);
        device_release();
    }
    row_begin("gather = golden", ranks);
    row_int("calls", CALLS);
    row_int("equal", equal);
    row_judge(equal == CALLS, status ? cuda->err.text : "other bits than golden's");
}

/* ---- orders: what a form does to real numbers ---- */

/* rows x n, one piece a rank, row r of any number of rows the same. */
static struct call *orders_open(uint32_t ranks, uint32_t rows, uint32_t n)
{
    struct call *c = calloc(1, sizeof *c);
    c->host = (struct iq_all_reduce){rows, n, ranks, ranks, IQ_ACT_F32, c->host_piece, NULL, n};
    c->bytes = (size_t)rows * n * sizeof(float);
    for (uint32_t r = 0; r < ranks; r++) {
        uint64_t seed = 900 + r;
        float *x = new_floats(&seed, (size_t)rows * n, false);
        c->host_piece[r] = c->piece[r] = (struct iq_piece){r, 1, r, x, n};
        c->piece[r].x = to_device(x, c->bytes);
    }
    c->want = c->host.y = malloc(c->bytes);
    ck_assert_int_eq(reference("all_reduce", &c->host), IQ_OK);
    c->a = c->host;
    c->a.piece = c->piece;
    return c;
}

static int64_t differing(const float *a, const float *b, size_t n)
{
    int64_t d = 0;
    for (size_t i = 0; i < n; i++) d += memcmp(a + i, b + i, sizeof *a) != 0;
    return d;
}

/* How many elements have other bits than golden's; whether a row has the bits of a call of its own; that the op's invariant
 * holds and that a second run gives the same. */
static void check_order(int ranks, const struct form *form, uint32_t rows)
{
    uint32_t n = fake ? 60 : 576;
    struct call *many = orders_open((uint32_t)ranks, rows, n), *alone = orders_open((uint32_t)ranks, 1, n);
    float *y = NULL, *again = NULL, *first = NULL;
    struct iq_err err = {0};
    int status = run_form(many, &form->options, &y);
    if (!status) status = run_form(many, &form->options, &again);
    if (!status) status = run_form(alone, &form->options, &first);
    row_begin("order", ranks);
    row_str("form", form->name);
    row_int("rows", rows);
    if (status) {
        row_str("state", "not here");
        row_str("said", cuda->err.text);
        row_end();
    } else {
        float *want = many->host.y;
        many->host.y = y;
        bool sums = form->options.bf16 || !iq_kind_find("all_reduce")->check(&many->host, &err);
        bool same = !memcmp(y, again, many->bytes);
        row_int("elements", (int64_t)rows * n);
        row_int("other_bits_than_golden", differing(y, want, (size_t)rows * n));
        row_int("of_row_0_than_alone", differing(y, first, n));
        row_int("same_when_repeated", same);
        row_judge(sums && (same || !form->certain), sums ? "a second run gave other bits" : err.text);
    }
    free(y), free(again), free(first);
    call_close(many), call_close(alone);
    device_release();
}

/* ---- what may hang, as a program of its own ---- */

/* Its exit status; -1: it was killed after CHILD_S; 126: it could not be run. */
static int child_run(const char *self, const char *what, const char *number)
{
    char *argv[] = {(char *)self, (char *)what, (char *)number, NULL};
    pid_t pid;
    int status;
    if (posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ)) return 126;
    for (int tenth = 0; tenth < CHILD_S * 10; tenth++) {
        if (waitpid(pid, &status, WNOHANG) == pid)
            return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        nanosleep(&(struct timespec){0, 100000000}, NULL);
    }
    kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    return -1;
}

/* NCCL advises against it with more than one rank: that it hangs there is a finding, and no failure of inquest. */
static void check_capture(const char *self, int ranks)
{
    char number[12];
    snprintf(number, sizeof number, "%d", ranks);
    int code = child_run(self, "capture", number);
    row_begin("captured collective", ranks);
    row_str("result", code == 0 ? "replays" : code < 0 ? "hangs" : "fails");
    row_judge(code == 0 || ranks > 1, "a captured collective of one rank does not replay");
}

static bool line_with(const char *path, const char *words)
{
    char line[1024];
    bool found = false;
    FILE *f = fopen(path, "r");
    while (f && !found && fgets(line, sizeof line, f)) found = strstr(line, words) != NULL;
    if (f) fclose(f);
    return found;
}

static void check_tuner(const char *self)
{
    char log[] = "/tmp/iq-nccl-log-XXXXXX";
    int fd = mkstemp(log), ranks = gpus > 1 ? 2 : 1;
    if (fd < 0) return;
    close(fd);
    setenv("NCCL_TUNER_PLUGIN", IQ_TEST_TUNER, 1);
    setenv("INQUEST_NCCL_TUNER", "allreduce all ring/simple", 1);
    setenv("NCCL_DEBUG", "INFO", 1);
    setenv("NCCL_DEBUG_SUBSYS", "INIT,TUNING", 1);
    setenv("NCCL_DEBUG_FILE", log, 1);
    int code = child_run(self, "tuner", ranks == 1 ? "1" : "2");
    row_begin("tuner", ranks);
    row_int("loaded", line_with(log, "Using inquest (v"));
    row_int("read_its_rules", line_with(log, "inquest tuner: 1 rules"));
    row_int("decided", line_with(log, "ring/simple: decides"));
    row_judge(fake || (!code && line_with(log, "Using inquest (v")),
              "NCCL did not take the tuner, or failed with it");
    unlink(log);
    for (size_t i = 0; i < 5; i++)
        unsetenv((const char *const[]){"NCCL_TUNER_PLUGIN", "INQUEST_NCCL_TUNER", "NCCL_DEBUG",
                                       "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE"}[i]);
}

static void check_duplicate(const struct iq_nccl_api *api)
{
    void *comm[2] = {0};
    const int device[2] = {0, 0};
    int code = api->comm_init_all(comm, 2, device);
    struct iq_err err = {0};
    iq_nccl_check_code(api, code, NULL, "two ranks on one GPU", &err);
    row_begin("two ranks on one GPU", 2);
    row_int("code", code);
    row_str("said", err.text);
    row_judge(code == IQ_NCCL_INVALID_USAGE, "expected that NCCL refuses it as invalid usage (5)");
}

/* ---- the program ---- */

static void out_of_time(int signal_number)
{
    static const char said[] = "{\"check\": \"time\", \"failed\": \"a collective hangs\"}\n";
    (void)signal_number;
    if (write(STDOUT_FILENO, said, sizeof said - 1) < 0) _exit(2);
    _exit(1);
}

/* 0, or the exit status where there is nothing to test with. */
static int open_all(void)
{
    struct iq_err err = {0};
    const struct iq_nccl_api *api;
    setenv("IQ_TEST_DEVICE", "cuda", 0);
    int code = device_open();
    if (code) return code;
    fake = device.shim;
    if (fake) iq_nccl_use(&fake_nccl);
    int status = iq_nccl_api(&api, &err);
    if (!status) status = iq_kernels_register(&err);
    if (!status) status = iq_cuda_open(fake, 0, &cuda, &err);
    if (status) {
        printf("%s\n", err.text);
        return status == IQ_UNSUPPORTED ? 77 : 1; /* what is broken is not what is missing */
    }
    exec.cuda = cuda;
    return cuda->api->device_count(&gpus) ? 1 : 0;
}

/* Twenty replays, each of the whole sum. */
static int replay(struct call *c, void *run)
{
    const struct iq_cuda_api *api = cuda->api;
    int wrong = 0;
    for (int i = 0; i < 20 && !wrong; i++) {
        float *y = malloc(c->bytes);
        wrong = api->memset_async(c->a.y, 0x5a, c->bytes, cuda->stream) ||
                api->graph_launch(run, cuda->stream) || api->stream_sync(cuda->stream);
        if (!wrong) from_device(y, c->a.y, c->bytes);
        wrong = wrong || memcmp(y, c->want, c->bytes) != 0;
        free(y);
    }
    return wrong;
}

static int capture(struct call *c)
{
    const struct iq_nccl_options options = {.capture = true};
    const struct iq_cuda_api *api = cuda->api;
    void *graph, *run;
    if (iq_nccl_all_reduce(&exec, &c->a, &options, NULL) || api->stream_sync(cuda->stream)) return 1;
    if (api->capture_begin(cuda->stream)) return 1;
    int status = iq_nccl_all_reduce(&exec, &c->a, &options, NULL);
    if (api->capture_end(cuda->stream, &graph) || status || api->graph_instantiate(&run, graph)) return 1;
    int wrong = replay(c, run);
    return api->exec_destroy(run) || api->graph_destroy(graph) || wrong;
}

static int plain(struct call *c)
{
    const struct iq_nccl_options options = {0};
    float *y = NULL;
    int wrong = run_form(c, &options, &y) || memcmp(y, c->want, c->bytes);
    free(y);
    return wrong;
}

/* What a program of its own does. */
static int alone(const char *what, int ranks)
{
    uint64_t seed = 1;
    struct call *c = call_open(&seed, (uint32_t)ranks, IQ_ACT_F32, true);
    call_output(c);
    int wrong = strcmp(what, "capture") ? plain(c) : capture(c);
    call_close(c);
    device_release();
    return wrong;
}

static const int worlds[] = {1, 2, 3, 4, 8};

/* Every form opens communicators of its own, which takes time: all of them for 1, 2 and the most ranks. */
static void check_world(const char *self, int ranks)
{
    bool most = ranks == 8 || (ranks == 4 && gpus < 8), full = ranks <= 2 || most;
    check_gather(ranks);
    for (int f = 0; f < (full ? FORMS : 1); f++) check_exact(ranks, &forms[f]);
    for (int f = 0; f < FORMS && full && ranks > 1; f++)
        for (uint32_t rows = 1; rows <= 64; rows *= 8) check_order(ranks, &forms[f], rows);
    iq_nccl_close(cuda);
    if (full) check_capture(self, ranks);
}

static void all_checks(const char *self, const struct iq_nccl_api *api)
{
    char text[300];
    struct iq_err err = {0};
    iq_nccl_describe(gpus, text, sizeof text, &err);
    row_begin("library", 0);
    row_str("nccl", text);
    row_str("device", cuda->what.name);
    row_int("gpus", gpus);
    row_end();
    check_tuner(self);
    for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++)
        if (worlds[i] <= gpus) check_world(self, worlds[i]);
    if (gpus == 1) {
        row_begin("order", 2);
        row_str("skipped", "one GPU: nothing is added over a link, so orders need a machine with more");
        row_end();
    }
    check_duplicate(api);
}

/* The rig's assertions need a running test; NCCL and CUDA outlive no fork, so it runs in this process. */
static int arguments;
static char **argument;

START_TEST(on_the_devices)
{
    const struct iq_nccl_api *api;
    ck_assert_int_eq(iq_nccl_api(&api, NULL), IQ_OK);
    if (arguments == 3)
        failures = alone(argument[1], atoi(argument[2]));
    else
        all_checks(argument[0], api);
    iq_nccl_close(cuda);
    iq_cuda_close(cuda);
}
END_TEST

int main(int argc, char **argv)
{
    arguments = argc, argument = argv;
    signal(SIGALRM, out_of_time);
    alarm(LIMIT_S);
    int code = open_all();
    if (code) return code;
    Suite *suite = suite_create("gpu_nccl");
    TCase *tests = tcase_create("devices");
    tcase_set_timeout(tests, 0);
    tcase_add_test(tests, on_the_devices);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_set_fork_status(runner, CK_NOFORK);
    srunner_run_all(runner, CK_SILENT);
    if (srunner_ntests_failed(runner)) {
        TestResult **failed = srunner_failures(runner);
        row_begin("program", 0);
        row_judge(false, tr_msg(failed[0]));
        free(failed);
    }
    srunner_free(runner);
    return failures != 0;
}
