/* The whole model: decode at batch 1 and 32, prefill of 512, with and without the chain, as JSON lines
 * {"test", "threads", "chain", "tok_s": median, "best", "repeats"}.
 *
 *   bench_engine MODEL [REPEATS [THREADS...]]      e.g. bench_engine m.gguf 5 1 2
 *
 * Decode counts only steps in which every request decodes, after prompts of 128 tokens, as llama-batched-bench -npp 128
 * -ntg 64 does; prefill is one prompt of 512 tokens in one step. Each repeat measures every case once, so that a busy
 * minute of the machine falls on all of them alike; the first repeat only warms up. */
#define _GNU_SOURCE
#include "engine/engine.h"
#include "kernels/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { REPEATS_MAX = 64, THREADS_MAX = 8, BATCH_MAX = 32, PROMPT_MAX = 512 };

static const struct test {
    const char *name;
    uint32_t batch, prompt, answer;
    bool decode;
} tests[] = {
    {"decode_1", 1, 128, 64, true}, {"decode_32", 32, 128, 64, true}, {"prefill_512", 1, 512, 1, false}};
enum { TESTS = sizeof tests / sizeof *tests };

static double rate[TESTS][THREADS_MAX][2][REPEATS_MAX];

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int fail(const struct iq_err *err)
{
    fprintf(stderr, "bench_engine: %s\n", err->text);
    exit(2);
}

/* Tokens per second over the steps that count. */
static double measure(const struct iq_model *m, const struct test *t, uint32_t threads, bool chain)
{
    static uint32_t prompt[BATCH_MAX][PROMPT_MAX];
    struct iq_request request[BATCH_MAX];
    struct iq_err err = {0};
    struct iq_engine *e;
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    for (uint32_t i = 0; i < t->batch; i++) {
        for (uint32_t p = 0; p < t->prompt; p++)
            prompt[i][p] = (uint32_t)(iq_draw(i, p, IQ_DRAW_DATA) % m->config.vocab);
        request[i] = (struct iq_request){.index = i,
                                         .id = "bench",
                                         .params = "{}",
                                         .prompt = prompt[i],
                                         .n_prompt = t->prompt,
                                         .max_tokens = t->answer,
                                         .top_p = 1,
                                         .ignore_stop = true};
    }
    c.threads = threads;
    c.batch = t->batch;
    c.prefix_cache = false;
    c.untraced = !chain;
    if (iq_engine_open(m, &c, request, t->batch, &e, &err) != IQ_OK) fail(&err);
    double seconds = 0, tokens = 0;
    uint64_t before = 0;
    for (bool more = true; more;) {
        double start = now();
        if (iq_engine_step(e, &more, &err) != IQ_OK) fail(&err);
        uint64_t rows = iq_engine_stats(e)->tokens - before;
        before += rows;
        if (rows != (t->decode ? t->batch : t->prompt)) continue;
        seconds += now() - start;
        tokens += (double)rows;
    }
    iq_engine_close(e);
    return tokens / seconds;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void report(const struct test *t, unsigned threads, int chain, double *r, int n)
{
    qsort(r, (size_t)n, sizeof *r, ascending);
    printf("{\"test\":\"%s\",\"threads\":%u,\"chain\":%s,\"tok_s\":%.1f,\"best\":%.1f,\"repeats\":%d}\n",
           t->name, threads, chain ? "true" : "false", n % 2 ? r[n / 2] : (r[n / 2 - 1] + r[n / 2]) / 2,
           r[n - 1], n);
}

int main(int argc, char **argv)
{
    struct iq_err err = {0};
    struct iq_model *m;
    unsigned threads[THREADS_MAX] = {1, 2};
    int repeats = argc > 2 ? atoi(argv[2]) : 5, n = argc > 3 ? argc - 3 : 2;
    if (argc < 2 || repeats < 1 || repeats > REPEATS_MAX || n > THREADS_MAX)
        return fprintf(stderr, "usage: bench_engine MODEL [REPEATS (1 to %d) [THREADS...]]\n", REPEATS_MAX),
               2;
    for (int i = 0; i < n && argc > 3; i++) threads[i] = (unsigned)atoi(argv[i + 3]);
    if (iq_kernels_register(&err) != IQ_OK ||
        iq_model_open(argv[1], &(struct iq_model_options){.threads = 2, .weights = true}, &m, &err) != IQ_OK)
        fail(&err);
    for (int r = -1; r < repeats; r++)
        for (int i = 0; i < n; i++)
            for (int t = 0; t < TESTS; t++)
                for (int chain = 0; chain < 2; chain++)
                    rate[t][i][chain][r < 0 ? 0 : r] = measure(m, &tests[t], threads[i], chain);
    for (int t = 0; t < TESTS; t++)
        for (int i = 0; i < n; i++)
            for (int chain = 0; chain < 2; chain++)
                report(&tests[t], threads[i], chain, rate[t][i][chain], repeats);
    iq_model_close(m);
    return 0;
}
