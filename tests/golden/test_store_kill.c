/* kill -9, full disks, moving runs. */
#include "kernels/base/rng.h"
#include "kernels/base/sha256.h"
#include "tests/check_main.h"
#include "tests/golden/store_scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct synth RUN = {
    .layers = 12, .requests = 40, .prompt = 6, .generate = 30, .group = 4, .seed = 3, .label = "golden"};

/* A record that can be resumed, as the command does it. */
struct resume {
    struct iq_writer *w;
};
static bool have(void *ctx, uint32_t request) { return iq_writer_has(((struct resume *)ctx)->w, request); }

static int record(struct iq_store *s, enum iq_level level, uint32_t *had)
{
    struct synth y = RUN;
    struct resume r;
    uint32_t n;
    struct iq_node *nodes = synth_nodes(&y, &n);
    char *manifest = synth_manifest(&y);
    struct iq_write_spec spec = {.manifest = manifest,
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .level = level,
                                 .mode = IQ_WRITE_GOLDEN,
                                 .name = "golden",
                                 .resume = true};
    int rc = iq_store_begin(s, &spec, &r.w, &err);
    free(nodes);
    free(manifest);
    if (rc) return rc;
    *had = 0;
    for (uint32_t i = 0; i < y.requests; i++) *had += iq_writer_has(r.w, i);
    y.skip = have;
    y.ctx = &r;
    struct iq_sink k = iq_writer_sink(r.w);
    rc = synth_run(&y, &k);
    if (!rc) return iq_writer_finish(r.w, IQ_RUN_COMPLETE, NULL, &err);
    err = *iq_writer_error(r.w);
    iq_writer_abort(r.w);
    return rc;
}

/* The final store holds exactly what an undisturbed one would. */
static void check_whole(struct iq_store *s)
{
    struct iq_run_info a;
    struct iq_store_tally sum;
    OK(iq_store_verify(s, &sum, &err));
    OK(iq_store_find(s, "golden", &a, &err));
    ck_assert_int_eq(a.state, IQ_RUN_COMPLETE);
    ck_assert_uint_eq(a.requests, RUN.requests);
    ck_assert_uint_eq(sum.positions, RUN.requests * 35u);
}

START_TEST(kill_9_loses_at_most_the_requests_in_flight)
{
    uint64_t seed = scratch_seed();
    uint32_t had = 0, before = 0;
    for (int i = 0; i < 20; i++) {
        pid_t pid = fork();
        if (!pid) {
            struct iq_store *s = scratch_open(&dir, 0);
            _exit(record(s, IQ_LEVEL_OPS, &had) != IQ_OK);
        }
        usleep((useconds_t)(iq_draw(seed, (uint64_t)i, IQ_DRAW_FAULT) % 12000));
        kill(pid, SIGKILL);
        waitpid(pid, NULL, 0);
        struct iq_store *s = scratch_open(&dir, 0);
        struct iq_run_info info;
        OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
        if (!iq_store_find(s, "golden", &info, &err)) {
            ck_assert_uint_ge(info.requests, before);
            before = (uint32_t)info.requests;
        }
        iq_store_close(s);
    }
    struct iq_store *s = scratch_open(&dir, 0);
    OK(record(s, IQ_LEVEL_OPS, &had));
    ck_assert_uint_eq(had, before);
    check_whole(s);
    iq_store_close(s);
}
END_TEST

START_TEST(kill_9_of_a_trial_leaves_nothing_visible_and_nothing_behind)
{
    uint64_t seed = scratch_seed();
    struct iq_store *s = scratch_open(&dir, 0);
    struct synth y = RUN;
    y.label = "trial";
    y.contents = true;
    for (int i = 0; i < 10; i++) {
        pid_t pid = fork();
        if (!pid) {
            struct iq_store *mine = scratch_open(&dir, 0);
            y.requests = 400;
            _exit(synth_record(&y, mine, IQ_LEVEL_TENSORS, IQ_WRITE_TRIAL, "trial", &err) != IQ_OK);
        }
        usleep((useconds_t)(20000 + iq_draw(seed, (uint64_t)i, IQ_DRAW_FAULT) % 60000));
        kill(pid, SIGKILL);
        int status;
        waitpid(pid, &status, 0);
        struct iq_run_info *list;
        size_t n;
        OK(iq_store_runs(s, &list, &n, &err));
        ck_assert(n == 0 || WIFEXITED(status));
        free(list);
        OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
        if (WIFEXITED(status)) break;
    }
    struct iq_store_tally sum;
    iq_store_rm(s, "trial", NULL, &err);
    y.requests = 1;
    y.label = "small";
    OK(synth_record(&y, s, IQ_LEVEL_CHAIN, IQ_WRITE_TRIAL, "small", &err)); /* sweeps */
    OK(iq_store_verify(s, &sum, &err));
    ck_assert_uint_lt(sum.pages, 60);
    iq_store_close(s);
}
END_TEST

/* ---- full ---- */

/* Fails with IQ_FULL at some point, keeps what was committed, and goes on where there is room again. */
static void full_then_room(const char *why)
{
    uint32_t had;
    struct iq_store *s = scratch_open(&dir, 0);
    struct iq_run_info info;
    OK(iq_store_verify(s, &(struct iq_store_tally){0}, &err));
    OK(iq_store_find(s, "golden", &info, &err));
    ck_assert_msg(info.requests > 0 && info.requests < RUN.requests, "%s: %llu requests", why,
                  (unsigned long long)info.requests);
    OK(record(s, IQ_LEVEL_OPS, &had));
    ck_assert_uint_eq(had, info.requests);
    check_whole(s);
    iq_store_close(s);
}

START_TEST(a_size_limit_is_a_clear_error_and_loses_nothing)
{
    uint32_t had;
    struct iq_store *s = scratch_open(&dir, 1 << 20);
    ck_assert_int_eq(record(s, IQ_LEVEL_OPS, &had), IQ_FULL);
    ck_assert_ptr_nonnull(strstr(err.text, "size limit of 1048576 bytes"));
    iq_store_close(s);
    full_then_room("size limit");
}
END_TEST

START_TEST(a_file_size_limit_of_the_process_is_a_clear_error_and_loses_nothing)
{
    pid_t pid = fork();
    if (!pid) {
        uint32_t had;
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){1 << 20, 1 << 20});
        struct iq_store *s = scratch_open(&dir, 0);
        int rc = record(s, IQ_LEVEL_OPS, &had);
        if (rc != IQ_FULL) fprintf(stderr, "%s: %s\n", iq_status_text(rc), err.text);
        _exit(rc != IQ_FULL);
    }
    int status;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    full_then_room("RLIMIT_FSIZE");
}
END_TEST

START_TEST(a_full_disk_is_a_clear_error_and_loses_nothing)
{
    mkdir(dir.store, 0777);
    if (mount("tmpfs", dir.store, "tmpfs", 0, "size=1m")) {
        printf("no mount here (%s): a_full_disk_is_a_clear_error_and_loses_nothing did not run\n",
               strerror(errno));
        return;
    }
    uint32_t had;
    struct iq_store *s = scratch_open(&dir, 0);
    int rc = record(s, IQ_LEVEL_OPS, &had);
    iq_store_close(s);
    bool grown = !mount("tmpfs", dir.store, "tmpfs", MS_REMOUNT, "size=64m");
    if (rc == IQ_FULL && grown) full_then_room("tmpfs");
    umount(dir.store);
    ck_assert_msg(rc == IQ_FULL && grown, "%s: %s", iq_status_text(rc), err.text);
}
END_TEST

START_TEST(the_map_grows_by_itself)
{
    struct synth y = RUN;
    y.layers = 30;
    y.requests = 60;
    y.generate = 120;
    struct iq_store *s = scratch_open(&dir, 0); /* first map: 1 MiB */
    OK(synth_record(&y, s, IQ_LEVEL_OPS, IQ_WRITE_TRIAL, "big", &err));
    struct iq_store_tally sum;
    OK(iq_store_verify(s, &sum, &err));
    ck_assert_uint_gt(sum.pages * 4096, 30u << 20);
    iq_store_close(s);
}
END_TEST

/* ---- export, import ---- */

static void drop_copy(const char *from, const char *to, size_t keep, size_t flip, int value)
{
    char *bytes = malloc(8 << 20);
    FILE *f = fopen(from, "rb");
    size_t n = fread(bytes, 1, 8 << 20, f);
    fclose(f);
    if (keep < n) n = keep;
    if (flip < n) bytes[flip] = (char)(bytes[flip] ^ value);
    f = fopen(to, "wb");
    fwrite(bytes, 1, n, f);
    fclose(f);
    free(bytes);
}

static void two_stores(struct iq_store **a, struct iq_store **b, enum iq_level level)
{
    struct synth y = RUN;
    y.requests = 3;
    y.layers = 2;
    y.contents = level == IQ_LEVEL_TENSORS;
    struct scratch other = dir;
    snprintf(other.store, sizeof other.store, "%s/other", dir.dir);
    *a = scratch_open(&dir, 0);
    *b = scratch_open(&other, 0);
    OK(synth_record(&y, *a, level, IQ_WRITE_GOLDEN, "golden", &err));
    OK(iq_store_export(*a, "golden", dir.file, &err));
}

START_TEST(a_firing_log_is_exported_and_imported_whole)
{
    struct iq_store *a, *b;
    struct iq_run_info info;
    struct iq_trace t;
    struct iq_firing f;
    bool known;
    char file[128];
    two_stores(&a, &b, IQ_LEVEL_CHAIN);
    snprintf(file, sizeof file, "%s/fired", dir.dir);
    struct iq_writer *w = scratch_begin(a, &RUN, "{\"f\":1}", IQ_LEVEL_CHAIN, "fired");
    struct iq_sink k = iq_writer_sink(w);
    for (uint32_t i = 0; i < 200; i++)
        ck_assert_int_eq(k.fired(k.self, &(struct iq_firing){.step = i + 1}), IQ_OK);
    OK(iq_writer_finish(w, IQ_RUN_COMPLETE, NULL, &err));
    OK(iq_store_export(a, "fired", file, &err));
    OK(iq_store_import(b, file, "other", &info, &known, &err));
    OK(iq_store_trace(b, "other", &t, &err));
    for (uint32_t i = 0; i < 200; i++) {
        OK(t.firing(t.self, i, &f, &err));
        ck_assert_uint_eq(f.step, i + 1);
    }
    iq_trace_close(&t);
    OK(iq_store_verify(b, &(struct iq_store_tally){0}, &err));
    iq_store_close(a);
    iq_store_close(b);
}
END_TEST

START_TEST(an_exported_run_imports_with_every_byte_and_twice_is_once)
{
    struct iq_store *a, *b;
    struct iq_run_info x, y, z;
    struct iq_store_tally sa, sb;
    bool known;
    two_stores(&a, &b, IQ_LEVEL_TENSORS);
    ck_assert_int_eq(iq_store_export(a, "golden", dir.file, &err), IQ_EXISTS);
    OK(iq_store_import(b, dir.file, NULL, &x, &known, &err));
    ck_assert(!known);
    OK(iq_store_import(b, dir.file, NULL, &y, &known, &err));
    ck_assert(known);
    OK(iq_store_find(a, "golden", &z, &err));
    ck_assert_str_eq(x.id, z.id);
    ck_assert_str_eq(x.name, "golden");
    ck_assert_uint_eq(x.created_ms, z.created_ms);
    OK(iq_store_verify(a, &sa, &err));
    OK(iq_store_verify(b, &sb, &err));
    ck_assert_uint_eq(sa.runs, sb.runs);
    ck_assert_uint_eq(sa.cells, sb.cells);
    ck_assert_uint_eq(sa.tensors, sb.tensors);
    ck_assert_uint_gt(sa.tensors, 0);
    char again[128];
    snprintf(again, sizeof again, "%s/again", dir.dir);
    OK(iq_store_export(b, "golden", again, &err));
    char ha[65], hb[65];
    OK(iq_sha256_file(dir.file, ha, &err));
    OK(iq_sha256_file(again, hb, &err));
    ck_assert_str_eq(ha, hb);
    iq_store_close(a);
    iq_store_close(b);
}
END_TEST

START_TEST(a_cut_or_altered_file_is_refused_and_leaves_nothing)
{
    uint64_t seed = scratch_seed();
    struct iq_store *a, *b;
    struct iq_run_info x, *list;
    struct stat st;
    size_t n;
    bool known;
    char bad[128];
    snprintf(bad, sizeof bad, "%s/bad", dir.dir);
    two_stores(&a, &b, IQ_LEVEL_OPS);
    stat(dir.file, &st);
    for (uint64_t i = 0; i < 120; i++) {
        size_t at = iq_draw(seed, i, IQ_DRAW_DATA) % (size_t)st.st_size;
        if (i % 2)
            drop_copy(dir.file, bad, at, SIZE_MAX, 0);
        else
            drop_copy(dir.file, bad, SIZE_MAX, at, 1 << i % 8);
        int rc = iq_store_import(b, bad, NULL, &x, &known, &err);
        ck_assert_msg(rc == IQ_FORMAT || rc == IQ_MISMATCH || rc == IQ_ABI, "try %llu at %zu: %s",
                      (unsigned long long)i, at, iq_status_text(rc));
        ck_assert_ptr_nonnull(strstr(err.text, bad));
    }
    OK(iq_store_runs(b, &list, &n, &err));
    ck_assert_uint_eq(n, 0);
    free(list);
    iq_store_close(a);
    iq_store_close(b);
}
END_TEST

/* Whoever can alter a file can also make its SHA-256 anew: what is inside must still be checked. */
static void reseal(const char *file)
{
    char cmd[1200];
    snprintf(cmd, sizeof cmd,
             "n=$(($(stat -c %%s '%s')-32)); head -c $n '%s' >'%s.x'; "
             "printf \"$(sha256sum <'%s.x' | cut -c1-64 | sed 's/../\\\\x&/g')\" >>'%s.x'; mv '%s.x' '%s'",
             file, file, file, file, file, file, file);
    ck_assert_int_eq(system(cmd), 0);
}

START_TEST(a_lying_file_with_a_right_seal_is_refused_and_leaves_nothing)
{
    uint64_t seed = scratch_seed();
    struct iq_store *a, *b;
    struct iq_run_info x, *list;
    struct stat st;
    size_t n, refused = 0;
    bool known;
    char bad[128];
    snprintf(bad, sizeof bad, "%s/bad", dir.dir);
    two_stores(&a, &b, IQ_LEVEL_OPS);
    stat(dir.file, &st);
    for (uint64_t i = 0; i < 60; i++) {
        size_t at = iq_draw(seed, i, IQ_DRAW_DATA) % (size_t)(st.st_size - 32);
        if (i % 3 == 0) at %= 400;
        drop_copy(dir.file, bad, SIZE_MAX, at, 1 << i % 8);
        reseal(bad);
        int rc = iq_store_import(b, bad, NULL, &x, &known, &err);
        refused += rc != IQ_OK;
        /* A creation time, an attribute of a position: not covered by chains. */
        if (!rc) OK(iq_store_rm(b, x.id, NULL, &err));
        OK(iq_store_verify(b, &(struct iq_store_tally){0}, &err));
    }
    ck_assert_uint_gt(refused, 30);
    OK(iq_store_runs(b, &list, &n, &err));
    ck_assert_uint_eq(n, 0);
    free(list);
    iq_store_close(a);
    iq_store_close(b);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("store under stress");
    TCase *t = tcase_create("stress");
    tcase_add_checked_fixture(t, scratch_on_disk, scratch_drop);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, kill_9_loses_at_most_the_requests_in_flight);
    tcase_add_test(t, kill_9_of_a_trial_leaves_nothing_visible_and_nothing_behind);
    tcase_add_test(t, a_size_limit_is_a_clear_error_and_loses_nothing);
    tcase_add_test(t, a_file_size_limit_of_the_process_is_a_clear_error_and_loses_nothing);
    tcase_add_test(t, a_full_disk_is_a_clear_error_and_loses_nothing);
    tcase_add_test(t, the_map_grows_by_itself);
    tcase_add_test(t, a_firing_log_is_exported_and_imported_whole);
    tcase_add_test(t, an_exported_run_imports_with_every_byte_and_twice_is_once);
    tcase_add_test(t, a_cut_or_altered_file_is_refused_and_leaves_nothing);
    tcase_add_test(t, a_lying_file_with_a_right_seal_is_refused_and_leaves_nothing);
    suite_add_tcase(suite, t);
    return check_main(suite);
}
