/* Time of one call of attention, kv_write (one layer of SmolLM2-135M), topk and sample: a JSON line each.
 * usage: bench_attention [THREADS]. Times are the least of many calls: neighbours only ever add. */
#define _GNU_SOURCE
#include "kernels/ops/sampling.h"
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

static double fastest(const struct iq_variant *v, struct iq_exec *x, const void *const *args, int n)
{
    double best = INFINITY, start = now();
    for (int i = 0; i < 5 || now() - start < 0.5; i++) {
        double t = now();
        if (v->run(x, NULL, args[i % n], NULL, NULL)) exit(1);
        t = now() - t;
        best = t < best ? t : best;
    }
    return best;
}

static void line(const struct iq_variant *v, const char *what, const struct iq_exec *x, double s,
                 const char *more)
{
    printf("{\"kind\":\"%s\",\"case\":\"%s\",\"variant\":\"%s\",\"threads\":%d,\"seconds\":%.4g%s}\n",
           v->kind, what, v->name, iq_pool_threads(x->pool), s, more);
    fflush(stdout);
}

/* `copies` caches in turn: as many as make the processor's caches forget them, as a model's layers do. */
static void attention(struct iq_exec *x, const char *what, const struct shape *sh, int copies)
{
    static struct attention_case c[8];
    const void *args[8];
    double products = 0, keys = 0;
    char more[96];
    for (int i = 0; i < copies; i++) {
        case_open(&c[i], sh, (uint64_t)i, 0);
        args[i] = &c[i].a;
    }
    for (uint32_t s = 0; s < sh->seqs; s++) {
        for (uint32_t i = 0; i < sh->rows[s]; i++)
            products += 2.0 * sh->heads * sh->dim * (sh->pos[s] + i + 1);
        keys += sh->pos[s] + sh->rows[s];
    }
    for (size_t i = 0; iq__variants_attention[i]; i++) {
        const struct iq_variant *v = iq__variants_attention[i];
        if (strcmp(v->kind, "attention") || (v->flags & IQ_V_REFERENCE) || (v->usable && !v->usable()))
            continue;
        double s = fastest(v, x, args, copies);
        snprintf(more, sizeof more, ",\"gflops\":%.1f,\"read_gbs\":%.1f", 2e-9 * products / s,
                 keys * sh->kv_heads * sh->dim * 8e-9 / s);
        line(v, what, x, s, more);
    }
    for (int i = 0; i < copies; i++) case_close(&c[i]);
}

static void kv_write(struct iq_exec *x, const char *what, const struct shape *sh)
{
    struct attention_case c;
    case_open(&c, sh, 1, 0);
    struct iq_kv_write w = {c.a.rows, 3, 0, c.q, c.q + 192, c.a.ldq, c.a.ldq, &c.cache, c.seq, c.a.seqs};
    for (size_t i = 0; iq__variants_attention[i]; i++) {
        const struct iq_variant *v = iq__variants_attention[i];
        if (!strcmp(v->kind, "kv_write")) line(v, what, x, fastest(v, x, (const void *[]){&w}, 1), "");
    }
    case_close(&c);
}

/* One row of `vocab` logits, normal with deviation 3 as a model's are. */
static void sampling(struct iq_exec *x, const char *what, uint32_t vocab, uint32_t k, uint32_t top_k,
                     float top_p)
{
    float *logits = case_alloc(vocab), *values = case_alloc(vocab), one = 1, off = 0;
    uint32_t *ids = case_alloc(vocab), pos = 3, token;
    uint64_t seed = 5;
    for (uint32_t i = 0; i < vocab; i++) {
        float sum = 0; /* of twelve uniform ones: near enough to normal */
        for (uint64_t j = 0; j < 12; j++) sum += case_float(j, i);
        logits[i] = 1.5f * sum;
    }
    struct iq_topk t = {1, vocab, k, 1, logits, vocab, ids, values};
    struct iq_sample s = {1,    vocab, k,    logits, vocab, ids,    values,
                          &pos, &seed, &one, &top_p, &off,  &top_k, &token};
    for (size_t i = 0; iq__variants_sampling[i]; i++) {
        const struct iq_variant *v = iq__variants_sampling[i];
        bool topk = !strcmp(v->kind, "topk");
        if (v->usable && !v->usable()) continue;
        line(v, what, x, fastest(v, x, (const void *[]){topk ? (const void *)&t : &s}, 1), "");
    }
    free(logits), free(values), free(ids);
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
    attention(&x, "prefill 512", &prefill, 1);
    attention(&x, "decode 1, context 256", &one, 1);
    attention(&x, "decode 32, contexts 201 to 511", &batch, 1);
    attention(&x, "decode 32, contexts 201 to 511, from memory", &batch, 8);
    kv_write(&x, "prefill 512", &prefill);
    kv_write(&x, "decode 32", &batch);
    sampling(&x, "vocabulary 49152, k 8, top_k 0", 49152, 8, 0, 1);
    sampling(&x, "vocabulary 49152, k 64, top_k 64, top_p 0.9", 49152, 64, 64, 0.9f);
    sampling(&x, "vocabulary 151936, k 64, top_k 0, top_p 0.9", 151936, 64, 0, 0.9f);
    iq_exec_close(&x);
    iq_pool_close(x.pool);
    return 0;
}
