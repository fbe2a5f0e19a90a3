#define _GNU_SOURCE
#include "harness/incidents/replay.h"

#include "golden/compare.h"
#include "harness/trial/judge.h"
#include "harness/trial/record.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

struct job {
    struct iq_incident *incident;
    const struct iq_replay_options *options;
    struct iq_store *store;
    struct iq_replay *out;
};

/* ---- runs ---- */

/* An arm whose fault never strikes comes out otherwise than predicted, and this says why. */
struct sleepers {
    const struct iq_plan *plan;
    struct iq_buf *text;
};

static int on_slept(void *self, size_t fault, const char *why)
{
    const struct sleepers *s = self;
    if (fault < s->plan->n && !iq_fault_is_workaround(&s->plan->fault[fault]))
        iq_buf_printf(s->text, "%s never fired: %s\n", s->plan->fault[fault].name, why);
    return IQ_OK;
}

/* plan NULL, and slept: golden. */
static int record(struct job *j, unsigned set, const struct iq_settings *settings, const struct iq_plan *plan,
                  const char *name, struct iq_buf *slept, struct iq_recorded *done, struct iq_err *err)
{
    struct sleepers s = {plan, slept};
    const struct iq_trial_events events = {.self = &s, .slept = plan ? on_slept : NULL};
    struct iq_trial t = {.model = j->options->model,
                         .settings = *settings,
                         .prompts = &j->incident->set[set].prompts,
                         .plan = plan,
                         .golden = plan ? j->out->golden[set] : NULL};
    struct iq_record r = {
        .store = j->store, .mode = plan ? IQ_WRITE_TRIAL : IQ_WRITE_GOLDEN, .name = name, .move_name = true};
    return iq_record_run(&t, &r, &events, done, err);
}

static int record_golden(struct job *j, unsigned set, struct iq_err *err)
{
    char name[IQ_STORE_NAME + 1];
    struct iq_recorded done;
    int n = snprintf(name, sizeof name, "%s/golden", j->incident->name);
    if (set) snprintf(name + n, sizeof name - (size_t)n, "-%u", set);
    struct iq_settings settings = j->incident->settings;
    for (unsigned i = 0; i < j->incident->n_arms; i++) { /* cells are compared where both runs have them */
        const struct iq_arm *arm = &j->incident->arm[i];
        if (arm->set == set && arm->settings.level > settings.level) settings.level = arm->settings.level;
    }
    IQ_TRY(record(j, set, &settings, NULL, name, NULL, &done, err));
    memcpy(j->out->golden[set], done.run, sizeof done.run);
    return IQ_OK;
}

static int compare(const struct iq_trace *golden, const struct iq_trace *subject, struct iq_finding **out,
                   struct iq_err *err)
{
    struct iq_policy policy = IQ_POLICY_DEFAULT;
    struct iq_judge judge;
    policy.show_fired = true;
    int status = iq_judge_open(subject->manifest, subject->manifest_len, &judge, err);
    if (status == IQ_OK) status = iq_compare(golden, subject, &policy, iq_judge_suspect, &judge, out, err);
    iq_judge_close(&judge);
    return status;
}

static int find(struct job *j, unsigned set, struct iq_arm_result *r, struct iq_err *err)
{
    struct iq_trace golden = {0}, subject = {0};
    int status = iq_store_trace(j->store, j->out->golden[set], &golden, err);
    if (status == IQ_OK) status = iq_store_trace(j->store, r->run, &subject, err);
    if (status == IQ_OK) status = compare(&golden, &subject, &r->finding, err);
    iq_trace_close(&golden);
    iq_trace_close(&subject);
    return status;
}

static int run_arm(struct job *j, unsigned i, struct iq_err *err)
{
    const struct iq_arm *arm = &j->incident->arm[i];
    struct iq_arm_result *r = &j->out->arm[i];
    char name[IQ_STORE_NAME + 1];
    struct iq_recorded done;
    snprintf(name, sizeof name, "%s/%s", j->incident->name, arm->name);
    r->slept = IQ_BUF(1 << 20);
    IQ_TRY(record(j, arm->set, &arm->settings, &arm->plan, name, &r->slept, &done, err));
    memcpy(r->run, done.run, sizeof r->run);
    IQ_TRY(find(j, arm->set, r, err));
    IQ_TRY(iq_predict_check(arm->predict, r->finding, r->check, &r->n_checks, err));
    r->held = true;
    for (unsigned c = 0; c < r->n_checks; c++) r->held &= r->check[c].held;
    return IQ_OK;
}

static int run_all(struct job *j, struct iq_err *err)
{
    struct iq_store_options o = {.create = true};
    IQ_TRY(iq_store_open(j->options->store, &o, &j->store, err));
    for (unsigned i = 0; i < j->incident->n_sets; i++) IQ_TRY(record_golden(j, i, err));
    j->out->held = true;
    for (unsigned i = 0; i < j->incident->n_arms; i++) {
        int status = run_arm(j, i, err);
        if (status != IQ_OK) {
            iq_err_prefix(err, "arm %s: ", j->incident->arm[i].name);
            return status;
        }
        j->out->held &= j->out->arm[i].held;
        if (j->options->told) j->options->told(j->options->self, i);
    }
    return IQ_OK;
}

/* ---- a store for one replay ---- */

/* The folder is removed by a process that waits for the end of this one, however it comes: a signal too. */
struct scratch {
    char path[4096];
    pid_t keeper;
    int alive; /* open while this process lives */
};

/* A store is a flat folder. */
static void scratch_remove(const char *path)
{
    DIR *dir = opendir(path);
    for (const struct dirent *e; dir && (e = readdir(dir));) unlinkat(dirfd(dir), e->d_name, 0);
    if (dir) closedir(dir);
    rmdir(path);
}

static _Noreturn void keep(const char *path, int alive)
{
    char end;
    setsid(); /* what is typed at a terminal, and its end, are not meant for it */
    for (int fd = 0; fd <= STDERR_FILENO; fd++) close(fd); /* nor does a pipe's reader wait for it */
    while (read(alive, &end, 1) < 0 && errno == EINTR) {}
    scratch_remove(path);
    _exit(0);
}

static int scratch_make(struct scratch *s, struct iq_err *err)
{
    const char *top = getenv("TMPDIR");
    int ends[2];
    if (!top || !*top) top = P_tmpdir;
    if (pipe2(ends, O_CLOEXEC)) return iq_fail(err, IQ_IO, "no pipe for the replay: %s", strerror(errno));
    int n = snprintf(s->path, sizeof s->path, "%s/inquest-replay-XXXXXX", top);
    if (n >= (int)sizeof s->path || !mkdtemp(s->path)) {
        iq_fail(err, IQ_IO, "%s: no folder can be made for the store: %s; name one with --store", top,
                n >= (int)sizeof s->path ? "the path is too long" : strerror(errno));
        close(ends[0]), close(ends[1]);
        return IQ_IO;
    }
    if ((s->keeper = fork()) == 0) close(ends[1]), keep(s->path, ends[0]);
    close(ends[0]);
    s->alive = ends[1];
    return IQ_OK;
}

static void scratch_end(struct scratch *s)
{
    close(s->alive);
    while (s->keeper > 0 && waitpid(s->keeper, NULL, 0) < 0 && errno == EINTR) {}
    scratch_remove(s->path); /* where there was no process to do it */
}

int iq_replay_run(struct iq_incident *incident, const struct iq_replay_options *options,
                  struct iq_replay *out, struct iq_err *err)
{
    struct iq_replay_options o = *options;
    struct job j = {.incident = incident, .options = &o, .out = out};
    struct scratch scratch;
    *out = (struct iq_replay){.incident = incident};
    out->arm = calloc(incident->n_arms, sizeof *out->arm);
    out->golden = calloc(incident->n_sets, sizeof *out->golden);
    if (!out->arm || !out->golden) {
        iq_replay_free(out);
        return iq_fail(err, IQ_MEMORY, "no memory for %u arms", incident->n_arms);
    }
    if (!options->store) {
        IQ_TRY(scratch_make(&scratch, err));
        o.store = scratch.path;
    }
    int status = run_all(&j, err);
    iq_store_close(j.store);
    if (!options->store) scratch_end(&scratch);
    return status;
}

void iq_replay_free(struct iq_replay *r)
{
    for (unsigned i = 0; r->arm && i < r->incident->n_arms; i++) {
        iq_finding_free(r->arm[i].finding);
        iq_buf_free(&r->arm[i].slept);
        for (unsigned c = 0; c < r->arm[i].n_checks; c++) iq_check_free(&r->arm[i].check[c]);
    }
    free(r->arm);
    free(r->golden);
    *r = (struct iq_replay){0};
}
