/* What the dispatch point costs when nothing is armed: a model's step through sites, slots and iq_dispatch, against
 * direct calls of the same functions. Prints {"dispatches", "ns_per_dispatch", "step_us", "share"}: of a decode step at
 * batch 1 on one thread.
 *
 *   bench_dispatch MODEL
 *
 * The functions do nothing, so that only the way to them is timed; both ways are timed in turn, many times over, and the
 * median of the differences is taken. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "kernels/ops/vector.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 401, CALLS = 20000, TOKENS = 64 };

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const struct iq_err *err)
{
    fprintf(stderr, "bench_dispatch: %s\n", err->text);
    exit(2);
}

static int run_nothing(struct iq_exec *x, const struct iq_site *s, const void *args, const void *params,
                       void *state)
{
    (void)s, (void)params, (void)state;
    __asm__ volatile("" ::"r"(x), "r"(args) : "memory");
    return IQ_OK;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Dispatches of a decode step, counted by a selector; and the seconds of one without it. */
static int count(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    (void)site, (void)args, (void)out;
    ++*(uint64_t *)self;
    return 0;
}
static bool always(void *self, enum iq_op_id op)
{
    (void)self, (void)op;
    return true;
}

static void decode(const struct iq_model *m, uint64_t *dispatches, double *seconds)
{
    static const uint32_t prompt[] = {1, 2, 3};
    const struct iq_request r = {.id = "r",
                                 .params = "{}",
                                 .prompt = prompt,
                                 .n_prompt = 3,
                                 .max_tokens = TOKENS,
                                 .top_p = 1,
                                 .ignore_stop = true};
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    struct iq_err err = {0};
    struct iq_engine *e;
    const struct iq_selector counting = {dispatches, count, always};
    double times[TOKENS];
    size_t n = 0;
    c.untraced = true;
    if (iq_engine_open(m, &c, &r, 1, &e, &err) != IQ_OK) fail(&err);
    for (bool more = true; more && n < TOKENS; n++) {
        double start = now();
        if (iq_engine_step(e, &more, &err) != IQ_OK) fail(&err);
        times[n] = now() - start;
        if (n == TOKENS - 3) iq_engine_arm(e, &counting);
        if (n == TOKENS - 2) iq_engine_arm(e, NULL);
    }
    iq_engine_close(e);
    qsort(times, n, sizeof *times, ascending);
    *seconds = times[0]; /* the fastest: a busy machine would flatter the share */
}

static struct iq_slots *slots;
static struct iq_exec ex;

/* As iq_forward makes them: a site filled in, a slot found, a call through it. */
static double dispatched(const struct iq_step *step, const struct iq_row *row, const struct iq_add *args)
{
    double start = now();
    for (uint32_t i = 0; i < CALLS; i++) {
        uint32_t layer = i % 30;
        const struct iq_site site = {.op = IQ_OP_ATTN_ADD,
                                     .layer = (uint16_t)layer,
                                     .prev_op = IQ_OP_ATTN_REDUCE,
                                     .next_op = IQ_OP_FFN_NORM,
                                     .step = step,
                                     .row = row,
                                     .rows = 1,
                                     .slot = iq_slots_at(slots, IQ_OP_ATTN_ADD, layer, 0)};
        if (iq_dispatch(&ex, &site, args) != IQ_OK) exit(2);
    }
    return now() - start;
}

static double direct(const struct iq_add *args)
{
    iq_run_fn *volatile keep = run_nothing;
    iq_run_fn *run = keep; /* a pointer, as a table of kernels has it: no inlining */
    double start = now();
    for (uint32_t i = 0; i < CALLS; i++)
        if (run(&ex, NULL, args, NULL, NULL) != IQ_OK) exit(2);
    return now() - start;
}

int main(int argc, char **argv)
{
    static const struct iq_variant nothing = {
        .kind = "add", .name = "nothing", .device = "cpu", .flags = IQ_V_GOLDEN, .run = run_nothing};
    static double cost[ROUNDS];
    struct iq_err err = {0};
    struct iq_model *m;
    uint64_t dispatches = 0;
    double seconds;
    if (argc != 2) return fprintf(stderr, "usage: bench_dispatch MODEL\n"), 2;
    if (iq_kernels_register(&err) != IQ_OK ||
        iq_model_open(argv[1], &(struct iq_model_options){.threads = 1, .weights = true}, &m, &err) != IQ_OK)
        fail(&err);
    decode(m, &dispatches, &seconds);
    iq_model_close(m);
    if (iq_slots_open(30, 1, &slots, &err) != IQ_OK || iq_slots_golden(slots, &nothing, &err) != IQ_OK)
        fail(&err);
    const struct iq_step step = {.batch = 1};
    const struct iq_row row = {.cell = 0};
    const struct iq_add args = {.rows = 1};
    for (int i = 0; i < ROUNDS; i++) cost[i] = (dispatched(&step, &row, &args) - direct(&args)) / CALLS;
    qsort(cost, ROUNDS, sizeof *cost, ascending);
    printf("{\"dispatches\":%llu,\"ns_per_dispatch\":%.2f,\"step_us\":%.1f,\"share\":%.6f}\n",
           (unsigned long long)dispatches, cost[ROUNDS / 2] * 1e9, seconds * 1e6,
           (double)dispatches * cost[ROUNDS / 2] / seconds);
    iq_slots_close(slots);
    return 0;
}
