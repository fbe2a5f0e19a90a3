/* A run over a pipe, in pieces, cut, altered. */
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include "golden/wire.h"
#include "kernels/base/rng.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct synth RUN = {
    .layers = 2, .requests = 3, .prompt = 4, .generate = 6, .group = 3, .seed = 21, .label = "run"};

/* What arrives, as one digest over all records in order. */
struct sum {
    struct iq_digest d;
    uint32_t begun, notes, progress, done;
    char note[64];
};
static void add(struct sum *s, const void *p, size_t n)
{
    s->d = iq_digest_list((struct iq_digest[]){s->d, iq_digest_bytes(p, n)}, 2);
}
static int sum_row(void *self, const struct iq_cell *c, struct iq_digest d, const void *bytes, size_t n)
{
    add(self, c, sizeof *c);
    add(self, &d, sizeof d);
    if (bytes) add(self, bytes, n);
    return IQ_OK;
}
static int sum_position(void *self, const struct iq_position *p) { return add(self, p, sizeof *p), IQ_OK; }
static int sum_fired(void *self, const struct iq_firing *f) { return add(self, f, sizeof *f), IQ_OK; }
static int sum_done(void *self, const struct iq_request_end *e)
{
    struct sum *s = self;
    add(s, e->id, strlen(e->id));
    add(s, e->params, strlen(e->params));
    add(s, e->text, strlen(e->text));
    add(s, e->finish, strlen(e->finish));
    add(s, e->ids, 4 * (size_t)e->n_ids);
    add(s, &e->chain, 16);
    s->done++;
    return IQ_OK;
}
static struct iq_sink sum_sink(struct sum *s)
{
    return (struct iq_sink){s, sum_row, sum_position, sum_fired, sum_done};
}

static int on_begin(void *self, const char *manifest, const struct iq_node *nodes, uint32_t n,
                    enum iq_level level, const char *name, struct iq_sink *sink, struct iq_err *e)
{
    struct sum *s = self;
    (void)e;
    add(s, manifest, strlen(manifest));
    add(s, nodes, n * sizeof *nodes);
    add(s, &level, sizeof level);
    if (name) add(s, name, strlen(name));
    s->begun++;
    *sink = sum_sink(s);
    return IQ_OK;
}
static int on_note(void *self, const char *text)
{
    struct sum *s = self;
    s->notes++;
    snprintf(s->note, sizeof s->note, "%s", text);
    return IQ_OK;
}
static int on_progress(void *self, const struct iq_wire_progress *p)
{
    ((struct sum *)self)->progress += (uint32_t)p->requests;
    return IQ_OK;
}
static struct iq_wire_handler handler(struct sum *s)
{
    return (struct iq_wire_handler){s, on_begin, on_progress, on_note};
}

static void send_run(int fd, bool contents)
{
    struct iq_wire_out *o;
    uint32_t n;
    struct synth y = RUN;
    y.contents = contents;
    struct iq_node *nodes = synth_nodes(&y, &n);
    char *manifest = synth_manifest(&y);
    OK(iq_wire_open(fd, &o, &err));
    OK(iq_wire_begin(o, manifest, nodes, n, IQ_LEVEL_OPS, "name"));
    struct iq_sink k = iq_wire_sink(o);
    OK(synth_run(&y, &k));
    OK(k.fired(k.self, &(struct iq_firing){.fault = 3, .rows = 9}));
    OK(iq_wire_progress(o, &(struct iq_wire_progress){.requests = 3}));
    OK(iq_wire_note(o, "hello"));
    OK(iq_wire_end(o));
    iq_wire_close(o);
    free(nodes);
    free(manifest);
}

static void expect(struct sum *s, bool contents)
{
    uint32_t n;
    struct synth y = RUN;
    y.contents = contents;
    struct iq_node *nodes = synth_nodes(&y, &n);
    char *manifest = synth_manifest(&y);
    struct iq_sink k;
    on_begin(s, manifest, nodes, n, IQ_LEVEL_OPS, "name", &k, &err);
    OK(synth_run(&y, &k));
    k.fired(k.self, &(struct iq_firing){.fault = 3, .rows = 9});
    free(nodes);
    free(manifest);
}

/* The stream of a run, in memory. */
static char *stream(size_t *n)
{
    FILE *f = tmpfile();
    send_run(fileno(f), false);
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n);
    ck_assert_uint_eq(fread(p, 1, *n, f), *n);
    fclose(f);
    return p;
}

START_TEST(a_run_arrives_record_by_record_as_it_was_sent)
{
    int fd[2];
    struct sum want = {.begun = 0}, got = {.begun = 0};
    expect(&want, _i);
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    if (!pid) {
        close(fd[0]);
        send_run(fd[1], _i);
        _exit(0);
    }
    close(fd[1]);
    struct iq_wire_handler h = handler(&got);
    OK(iq_wire_serve(fd[0], &h, 10000, &err));
    waitpid(pid, NULL, 0);
    close(fd[0]);
    ck_assert(iq_digest_equal(want.d, got.d));
    ck_assert_uint_eq(got.done, 3);
    ck_assert_uint_eq(got.progress, 3);
    ck_assert_str_eq(got.note, "hello");
}
END_TEST

START_TEST(bytes_may_come_in_pieces_of_any_size)
{
    size_t n;
    char *p = stream(&n);
    struct sum want = {.begun = 0};
    expect(&want, false);
    for (size_t piece = 1; piece < 5000; piece = piece * 3 + 1) {
        struct sum got = {.begun = 0};
        struct iq_wire_handler h = handler(&got);
        struct iq_wire_in *in;
        OK(iq_wire_in_open(&h, &in, &err));
        for (size_t at = 0; at < n; at += piece)
            OK(iq_wire_feed(in, p + at, n - at < piece ? n - at : piece, &err));
        OK(iq_wire_eof(in, &err));
        ck_assert(iq_digest_equal(want.d, got.d));
        iq_wire_in_close(in);
    }
    free(p);
}
END_TEST

START_TEST(a_stream_cut_at_any_byte_is_a_death_of_the_trial)
{
    size_t n;
    char *p = stream(&n);
    for (size_t cut = 0; cut < n; cut++) {
        struct sum got = {.begun = 0};
        struct iq_wire_handler h = handler(&got);
        struct iq_wire_in *in;
        OK(iq_wire_in_open(&h, &in, &err));
        if (cut) OK(iq_wire_feed(in, p, cut, &err));
        ck_assert_int_eq(iq_wire_eof(in, &err), IQ_CRASHED);
        iq_wire_in_close(in);
    }
    free(p);
}
END_TEST

START_TEST(altered_bytes_never_hurt_the_reader)
{
    uint64_t seed = scratch_seed();
    size_t n;
    char *p = stream(&n), *q = malloc(n);
    for (uint64_t i = 0; i < 3000; i++) {
        struct sum got = {.begun = 0};
        struct iq_wire_handler h = handler(&got);
        struct iq_wire_in *in;
        memcpy(q, p, n);
        uint64_t r = iq_draw(seed, i, IQ_DRAW_FAULT);
        q[(r >> 8) % (i % 4 ? 4000 : n)] ^= (char)(1u << r % 8);
        OK(iq_wire_in_open(&h, &in, &err));
        if (!iq_wire_feed(in, q, n, &err)) iq_wire_eof(in, &err);
        iq_wire_in_close(in);
    }
    free(p);
    free(q);
}
END_TEST

START_TEST(a_failure_comes_with_its_status_and_sentence)
{
    int fd[2];
    struct iq_wire_out *o;
    ck_assert_int_eq(pipe(fd), 0);
    OK(iq_wire_open(fd[1], &o, &err));
    struct iq_err why;
    iq_fail(&why, IQ_SHAPE, "layer 3: rows disagree");
    OK(iq_wire_fail(o, &why));
    iq_wire_close(o);
    close(fd[1]);
    struct sum got = {.begun = 0};
    struct iq_wire_handler h = handler(&got);
    ck_assert_int_eq(iq_wire_serve(fd[0], &h, 1000, &err), IQ_SHAPE);
    ck_assert_str_eq(err.text, "layer 3: rows disagree");
    close(fd[0]);
}
END_TEST

START_TEST(a_silent_trial_is_given_up_after_the_limit)
{
    int fd[2];
    ck_assert_int_eq(pipe(fd), 0);
    struct sum got = {.begun = 0};
    struct iq_wire_handler h = handler(&got);
    ck_assert_int_eq(iq_wire_serve(fd[0], &h, 50, &err), IQ_LIMIT);
    close(fd[0]);
    close(fd[1]);
}
END_TEST

START_TEST(a_dead_coordinator_is_an_error_for_the_trial)
{
    int fd[2];
    struct iq_wire_out *o;
    signal(SIGPIPE, SIG_IGN);
    ck_assert_int_eq(pipe(fd), 0);
    close(fd[0]);
    OK(iq_wire_open(fd[1], &o, &err));
    ck_assert_int_eq(iq_wire_note(o, "anyone?"), IQ_IO);
    ck_assert_int_eq(iq_wire_end(o), IQ_IO);
    iq_wire_close(o);
    close(fd[1]);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("wire");
    TCase *t = tcase_create("wire");
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, a_run_arrives_record_by_record_as_it_was_sent, 0, 2);
    tcase_add_test(t, bytes_may_come_in_pieces_of_any_size);
    tcase_add_test(t, a_stream_cut_at_any_byte_is_a_death_of_the_trial);
    tcase_add_test(t, altered_bytes_never_hurt_the_reader);
    tcase_add_test(t, a_failure_comes_with_its_status_and_sentence);
    tcase_add_test(t, a_silent_trial_is_given_up_after_the_limit);
    tcase_add_test(t, a_dead_coordinator_is_an_error_for_the_trial);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
