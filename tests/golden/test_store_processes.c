/* One store, several handles and processes. */
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Runs it in a process of its own, whose exit status is what it returns. How the process ended. */
static int in_a_child(int (*run)(void *), void *self)
{
    int how;
    pid_t pid = fork();
    if (!pid) _exit(run(self));
    ck_assert_int_eq(waitpid(pid, &how, 0), pid);
    return how;
}

START_TEST(one_store_opens_twice_in_a_process)
{
    struct iq_store *a = scratch_open(&dir, 0), *b = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, a, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace x, y;
    OK(iq_store_trace(a, "golden", &x, &err));
    OK(iq_store_trace(b, "golden", &y, &err));
    ck_assert_str_eq(x.id, y.id);
    iq_trace_close(&x);
    iq_store_close(a);
    struct iq_request_end e;
    OK(y.request(y.self, 0, &e, &err));
    iq_trace_close(&y);
    iq_store_close(b);
}
END_TEST

static int use_old_and_new(void *old)
{
    struct iq_run_info info;
    struct iq_store *mine;
    int bad = iq_store_find(old, "golden", &info, &err) != IQ_USAGE;
    bad |= iq_store_open(dir.store, NULL, &mine, &err) != IQ_OK;
    bad |= iq_store_find(mine, "golden", &info, &err) != IQ_OK;
    iq_store_close(mine);
    iq_store_close(old);
    return bad;
}

START_TEST(a_handle_from_before_a_fork_is_refused_and_a_new_one_works)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace t;
    OK(iq_store_trace(s, "golden", &t, &err));
    ck_assert_int_eq(in_a_child(use_old_and_new, s), 0);
    struct iq_request_end e;
    OK(t.request(t.self, 0, &e, &err));
    iq_trace_close(&t);
    iq_store_close(s);
}
END_TEST

static int begin_beside(void *spec)
{
    char first[32];
    struct iq_store *mine;
    struct iq_writer *w;
    snprintf(first, sizeof first, "process %ld", (long)getppid());
    int bad = iq_store_open(dir.store, NULL, &mine, &err) != IQ_OK;
    bad |= iq_store_begin(mine, spec, &w, &err) != IQ_LIMIT || !strstr(err.text, first);
    iq_store_close(mine);
    return bad;
}

START_TEST(a_second_writer_is_told_the_pid_of_the_first)
{
    struct iq_store *s = scratch_open(&dir, 0);
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&SYNTH_SMALL, &n);
    struct iq_writer *w, *w2;
    struct iq_write_spec spec = {
        .manifest = "{}", .nodes = nodes, .n_nodes = n, .mode = IQ_WRITE_TRIAL, .name = "r"};
    OK(iq_store_begin(s, &spec, &w, &err));
    ck_assert_int_eq(iq_store_begin(s, &spec, &w2, &err), IQ_LIMIT);
    ck_assert_int_eq(in_a_child(begin_beside, &spec), 0);
    iq_writer_abort(w);
    iq_store_close(s);
    free(nodes);
}
END_TEST

static int read_and_die(void *unused)
{
    struct iq_store *mine;
    struct iq_trace t;
    (void)unused;
    if (iq_store_open(dir.store, NULL, &mine, &err) || iq_store_trace(mine, "golden", &t, &err)) return 1;
    return raise(SIGKILL);
}

START_TEST(six_hundred_killed_readers_block_nobody)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    iq_store_close(s);
    for (int i = 0; i < 600; i++) {
        int how = in_a_child(read_and_die, NULL);
        ck_assert(WIFSIGNALED(how) && WTERMSIG(how) == SIGKILL);
    }
    struct synth more = SYNTH_SMALL;
    more.label = "more";
    s = scratch_open(&dir, 0);
    OK(synth_record(&more, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "more", &err));
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
}
END_TEST

static int write_much(void *unused)
{
    struct synth big = SYNTH_SMALL;
    (void)unused;
    big.label = "big";
    big.layers = 30;
    big.requests = 20;
    big.generate = 60;
    return synth_record(&big, scratch_open(&dir, 0), IQ_LEVEL_OPS, IQ_WRITE_TRIAL, "big", &err);
}

START_TEST(a_reader_keeps_its_snapshot_while_another_process_writes_and_grows)
{
    struct iq_store *s = scratch_open(&dir, 0);
    OK(synth_record(&SYNTH_SMALL, s, IQ_LEVEL_CHAIN, IQ_WRITE_GOLDEN, "golden", &err));
    struct iq_trace t;
    OK(iq_store_trace(s, "golden", &t, &err));
    ck_assert_int_eq(in_a_child(write_much, NULL), 0);
    const struct iq_position *p;
    size_t n;
    OK(t.positions(t.self, 4, &p, &n, &err));
    ck_assert_uint_eq(n, 45);
    iq_trace_close(&t);
    struct iq_run_info info;
    OK(iq_store_find(s, "big", &info, &err)); /* the map of this process follows */
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    iq_store_close(s);
}
END_TEST

START_TEST(a_folder_without_a_store_is_not_found)
{
    struct iq_store *s;
    ck_assert_int_eq(iq_store_open(dir.dir, NULL, &s, &err), IQ_NOT_FOUND);
    ck_assert_ptr_null(s);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store processes");
    TCase *t = tcase_create("store processes");
    tcase_add_checked_fixture(t, scratch_on_disk, scratch_drop);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, one_store_opens_twice_in_a_process);
    tcase_add_test(t, a_handle_from_before_a_fork_is_refused_and_a_new_one_works);
    tcase_add_test(t, a_second_writer_is_told_the_pid_of_the_first);
    tcase_add_test(t, six_hundred_killed_readers_block_nobody);
    tcase_add_test(t, a_reader_keeps_its_snapshot_while_another_process_writes_and_grows);
    tcase_add_test(t, a_folder_without_a_store_is_not_found);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
