/* Time of attention, kv_write, topk and sample on the shapes of SmolLM2-135M: a JSON line each.
 * usage: bench_attention [THREADS]. Times are the least of many calls: neighbours only ever add. */
#define _GNU_SOURCE
#include "kernels/tables.h"
#include "tests/kernels/attention_case.h"

#include <stdio.h>
#include <time.h>

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* Seconds of the fastest call; `cold`, if any, is walked between calls so that the caches forget the operands. */
static double fastest(const struct iq_variant *v, struct iq_exec *x, const void *args, const float *cold,
                      size_t n)
{
    double best = INFINITY, start = now();
    volatile float sink = 0;
    for (int i = 0; i < 3 || now() - start < 0.5; i++) {
        for (size_t j = 0; j < n; j += 16) sink = sink + cold[j];
        double t = now();
        if (v->run(x, NULL, args, NULL, NULL)) exit(1);
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void attention(struct iq_exec *x, const char *what, const struct shape *sh)
{
    struct attention_case c;
    double products = 0;
    case_open(&c, sh, 1, 0);
    for (uint32_t s = 0; s < sh->seqs; s++)
        for (uint32_t i = 0; i < sh->rows[s]; i++)
            products += 2.0 * sh->heads * sh->dim * (sh->pos[s] + i + 1);
    for (size_t i = 0; iq__variants_attention[i]; i++) {
        const struct iq_variant *v = iq__variants_attention[i];
        if (strcmp(v->kind, "attention") || (v->usable && !v->usable())) continue;
        if (v->flags & IQ_V_REFERENCE || !strcmp(v->name, "scalar")) continue;
        double s = fastest(v, x, &c.a, NULL, 0);
        printf("{\"kind\":\"attention\",\"case\":\"%s\",\"variant\":\"%s\",\"threads\":%d,\"seconds\":%.3g,"
               "\"gflops\":%.1f}\n",
               what, v->name, iq_pool_threads(x->pool), s, 2 * products / s * 1e-9);
    }
    case_close(&c);
}

static void kv_write(struct iq_exec *x, const char *what, const struct shape *sh)
{
    struct attention_case c;
    case_open(&c, sh, 1, 0);
    struct iq_kv_write w = {c.a.rows, 3, 0, c.q, c.q + 192, c.a.ldq, c.a.ldq, &c.cache, c.seq, c.a.seqs};
    for (size_t i = 0; iq__variants_attention[i]; i++) {
        const struct iq_variant *v = iq__variants_attention[i];
        if (strcmp(v->kind, "kv_write")) continue;
        printf("{\"kind\":\"kv_write\",\"case\":\"%s\",\"variant\":\"%s\",\"threads\":%d,\"seconds\":%.3g}\n",
               what, v->name, iq_pool_threads(x->pool), fastest(v, x, &w, NULL, 0));
    }
    case_close(&c);
}

int main(int argc, char **argv)
{
    struct iq_err err = {0};
    struct iq_exec x = {0};
    if (iq_pool_open(argc > 1 ? atoi(argv[1]) : 1, &x.pool, &err))
        return fprintf(stderr, "%s\n", err.text), 2;
    struct shape prefill = {9, 3, 64, 0, 1, {0}, {512}};
    struct shape one = {9, 3, 64, 0, 1, {255}, {1}};
    struct shape batch = {9, 3, 64, 0, 32, {0}, {0}};
    for (uint32_t s = 0; s < 32; s++) batch.pos[s] = 200 + 10 * s, batch.rows[s] = 1;
    attention(&x, "prefill 512", &prefill);
    attention(&x, "decode 1, context 256", &one);
    attention(&x, "decode 32, contexts 201 to 511", &batch);
    kv_write(&x, "prefill 512", &prefill);
    kv_write(&x, "decode 32", &batch);
    iq_exec_close(&x);
    iq_pool_close(x.pool);
    return 0;
}
