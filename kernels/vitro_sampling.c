/* Made-up operands of sample, temper and mask: rows side by side that ask for different things, so that a variant which takes
 * a neighbour's shows. */
#include "kernels/vitro_parts.h"

enum { VOCAB_MAX = 1 << 22 };

static int check_shape(const struct iq_vitro_shape *s, const char *kind, struct iq_err *err)
{
    if (s->vocab && s->vocab <= VOCAB_MAX && s->k <= s->vocab) return IQ_OK;
    return iq_fail(err, IQ_SHAPE, "in vitro: %s: expected k <= vocab, and vocab from 1 to %d", kind,
                   VOCAB_MAX);
}

/* ---- what a row's distribution looks like ---- */

/* In (0, 1). */
static float uniform(struct iq__vitro *v) { return 0.5f + 0.5f * iq__vitro_uniform(v); }

static void soft(struct iq__vitro *v, float *x)
{
    for (uint32_t i = 0; i < v->shape.vocab; i++) x[i] = 4 * uniform(v);
}

/* Nearly all of the mass on one token. */
static void one_hot(struct iq__vitro *v, float *x)
{
    for (uint32_t i = 0; i < v->shape.vocab; i++) x[i] = -uniform(v);
    x[iq__vitro_below(v, v->shape.vocab)] = 40;
}

/* Few values, so that every cut falls among equals. */
static void tied(struct iq__vitro *v, float *x)
{
    for (uint32_t i = 0; i < v->shape.vocab; i++) x[i] = (float)iq__vitro_below(v, 5);
}

static void steep(struct iq__vitro *v, float *x)
{
    for (uint32_t i = 0; i < v->shape.vocab; i++) x[i] = -30 * uniform(v);
}

static void (*const shapes[])(struct iq__vitro *, float *) = {soft, one_hot, tied, steep};

static void fill_logits(struct iq__vitro *v, unsigned call)
{
    for (uint32_t r = 0; r < v->shape.rows; r++) shapes[call](v, v->in + (size_t)r * v->shape.vocab);
}

static float *temperatures(const struct iq__vitro *v, float *t, unsigned call)
{
    static const float of[] = {0.7f, 0, 1.6f, 1};
    for (uint32_t r = 0; r < v->shape.rows; r++) t[r] = of[(r + call) % 4];
    return t;
}

/* ---- sample ---- */

/* What each row asks for, by row. */
struct asked {
    uint64_t *seed;
    uint32_t *pos, *top_k;
    float *temperature, *top_p, *min_p;
};

static struct asked asked_of(const struct iq__vitro *v)
{
    const struct iq_sample *a = &v->args.sample;
    char *room = v->buffer[v->buffers - 1];
    size_t n = a->rows;
    struct asked q = {.seed = (uint64_t *)(void *)room};
    q.pos = (uint32_t *)(void *)(room + 8 * n);
    q.top_k = q.pos + n;
    q.temperature = (float *)(void *)(q.top_k + n);
    q.top_p = q.temperature + n;
    q.min_p = q.top_p + n;
    return q;
}

static int sample_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t rows = s->rows;
    IQ_TRY(check_shape(s, "sample", err));
    if (!s->k) return iq_fail(err, IQ_SHAPE, "in vitro: sample: expected k of at least 1");
    v->in = iq__vitro_reserve(v, rows * s->vocab, sizeof *v->in, err);
    uint32_t *ids = v->in ? iq__vitro_reserve(v, rows * s->k, sizeof *ids, err) : NULL;
    float *values = ids ? iq__vitro_reserve(v, rows * s->k, sizeof *values, err) : NULL;
    uint32_t *token = values ? iq__vitro_reserve(v, rows, sizeof *token, err) : NULL;
    if (!token || !iq__vitro_reserve(v, rows, 8 + 5 * 4, err)) return err->status;
    v->args.sample = (struct iq_sample){.rows = s->rows,
                                        .vocab = s->vocab,
                                        .k = s->k,
                                        .logits = v->in,
                                        .ld = s->vocab,
                                        .ids = ids,
                                        .values = values,
                                        .token = token};
    struct asked q = asked_of(v);
    v->args.sample.seed = q.seed;
    v->args.sample.pos = q.pos;
    v->args.sample.top_k = q.top_k;
    v->args.sample.temperature = q.temperature;
    v->args.sample.top_p = q.top_p;
    v->args.sample.min_p = q.min_p;
    return IQ_OK;
}

static void sample_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    const struct iq_sample *a = &v->args.sample;
    const uint32_t top_k[] = {0, 2, a->k, 0, 3};
    struct asked q = asked_of(v);
    (void)exact;
    fill_logits(v, call);
    temperatures(v, q.temperature, call);
    for (uint32_t r = 0; r < a->rows; r++) {
        q.seed[r] = (uint64_t)iq__vitro_below(v, UINT32_MAX) << 32 | iq__vitro_below(v, UINT32_MAX);
        q.pos[r] = iq__vitro_below(v, 4096);
        uint32_t k = top_k[(r + call) % 5];
        q.top_k[r] = k < a->k ? k : a->k;
        q.top_p[r] = r % 3 == 1 ? 0.6f : 1;
        q.min_p[r] = r % 7 == 3 ? 0.1f : 0;
    }
    /* Its candidates are right: what precedes the op under test is golden. */
    struct iq_topk t = {a->rows,
                        a->vocab,
                        a->k,
                        1,
                        a->logits,
                        a->ld,
                        (uint32_t *)(uintptr_t)a->ids,
                        (float *)(uintptr_t)a->values};
    iq_variant_find("topk", "reference")->run(NULL, NULL, &t, NULL, NULL);
}

/* ---- temper ---- */

static int temper_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t rows = s->rows;
    IQ_TRY(check_shape(s, "temper", err));
    v->in = iq__vitro_reserve(v, rows * s->vocab, sizeof *v->in, err);
    float *y = v->in ? iq__vitro_reserve(v, rows * s->vocab, sizeof *y, err) : NULL;
    float *t = y ? iq__vitro_reserve(v, rows, sizeof *t, err) : NULL;
    if (!t) return err->status;
    v->args.temper = (struct iq_temper){.rows = s->rows,
                                        .n = s->vocab,
                                        .x = v->in,
                                        .temperature = t,
                                        .y = y,
                                        .ldx = s->vocab,
                                        .ldy = s->vocab};
    return IQ_OK;
}

static void temper_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    (void)exact;
    fill_logits(v, call);
    temperatures(v, (float *)(uintptr_t)v->args.temper.temperature, call);
}

/* ---- mask ---- */

static int mask_make(struct iq__vitro *v, struct iq_err *err)
{
    const struct iq_vitro_shape *s = &v->shape;
    uint64_t rows = s->rows, words = iq_mask_words(s->vocab);
    IQ_TRY(check_shape(s, "mask", err));
    v->in = iq__vitro_reserve(v, rows * s->vocab, sizeof *v->in, err);
    float *y = v->in ? iq__vitro_reserve(v, rows * s->vocab, sizeof *y, err) : NULL;
    uint64_t *bits = y ? iq__vitro_reserve(v, rows * words, sizeof *bits, err) : NULL;
    const uint64_t **allow = bits ? iq__vitro_reserve(v, rows, sizeof *allow, err) : NULL;
    if (!allow) return err->status;
    for (uint32_t r = 0; r < s->rows; r++) allow[r] = r % 3 == 2 ? NULL : bits + r * words;
    v->args.mask = (struct iq_mask){
        .rows = s->rows, .n = s->vocab, .x = v->in, .allow = allow, .y = y, .ldx = s->vocab, .ldy = s->vocab};
    return IQ_OK;
}

/* Rows forbid a few tokens, nearly all, or none. */
static void mask_fill(struct iq__vitro *v, bool exact, unsigned call)
{
    const struct iq_mask *a = &v->args.mask;
    (void)exact;
    fill_logits(v, call);
    for (uint32_t r = 0; r < a->rows; r++) {
        uint64_t *bits = (uint64_t *)(uintptr_t)a->allow[r];
        for (uint32_t t = 0; bits && t < a->n; t++) {
            bool rare = iq__vitro_below(v, 16) == 0, allowed = r % 3 ? rare : !rare;
            if (t % 64 == 0) bits[t / 64] = 0;
            bits[t / 64] |= (uint64_t)allowed << t % 64;
        }
    }
}

const struct iq__vitro_kind iq__vitro_sampling[] = {
    {"sample", IQ_OP_SAMPLE, 4, 0, sample_make, sample_fill, NULL, NULL, true},
    {"temper", IQ_OP_TEMPER, 2, 0, temper_make, temper_fill, NULL, NULL, false},
    {"mask", IQ_OP_MASK, 2, 0, mask_make, mask_fill, NULL, NULL, false},
    {.kind = NULL},
};
