/* topk, sample and digest on CUDA give what the CPU's references give. */
#include "tests/check_main.h"
#include "tests/cuda/device_case.h"

#include "kernels/ops/sampling.h"

#include <math.h>

/* Logits of a kind: spread, crowded (many ties), odd values, all equal, rising, mostly NaN. */
static void fill(float *x, size_t n, uint32_t kind, uint64_t *seed)
{
    dice_floats(seed, x, n, kind == 2);
    for (size_t i = 0; i < n; i++)
        x[i] = kind == 1   ? (float)dice(seed, 7)
               : kind == 3 ? 2.5f
               : kind == 4 ? (float)i * 0x1p-10f
               : kind == 5 ? (dice(seed, 50) ? NAN : x[i])
                           : x[i];
}

struct topk_case {
    struct iq_topk host, on_device;
    float *logits;
    struct output ids, values;
};

static void topk_open(struct topk_case *c, uint32_t rows, uint32_t vocab, uint32_t k, uint32_t kind,
                      uint64_t *seed)
{
    size_t ld = vocab + 3, out = (size_t)rows * k * 4;
    c->logits = malloc(rows * ld * 4 + 4);
    fill(c->logits, rows * ld, kind, seed);
    c->host = (struct iq_topk){rows, vocab, k, 1, c->logits, ld, malloc(out + 1), malloc(out + 1)};
    c->ids = output_open(c->host.ids, out), c->values = output_open(c->host.values, out);
    ck_assert_int_eq(reference("topk", &c->host), IQ_OK);
    c->on_device = c->host;
    c->on_device.logits = to_device(c->logits, rows * ld * 4);
}

static void topk_close(struct topk_case *c)
{
    device_release();
    output_close(&c->ids), output_close(&c->values);
    free(c->logits), free(c->host.ids), free(c->host.values);
}

START_TEST(topk_gives_what_the_reference_gives)
{
    uint64_t seed = 0x800;
    for (int n = 0; n < 24; n++) {
        uint64_t replay = seed;
        uint32_t vocab = 1 + dice(&seed, n % 4 ? 300 : 5000), rows = n % 6 == 5 ? 8 : 1 + dice(&seed, 3);
        uint32_t k = n % 8 == 7 ? vocab : 1 + dice(&seed, vocab < 64 ? vocab : 64);
        struct topk_case c;
        topk_open(&c, rows, vocab, k, (uint32_t)n % 6, &seed);
        for (unsigned s = 0; use_schedule(s, seed); s++) {
            c.on_device.ids = output_fresh(&c.ids), c.on_device.values = output_fresh(&c.values);
            ck_assert_int_eq(device.kernels->topk(&c.on_device, NULL), IQ_OK);
            output_check(&c.ids, replay, s, "ids"), output_check(&c.values, replay, s, "values");
        }
        c.on_device.k = vocab + 1;
        ck_assert_int_eq(device.kernels->topk(&c.on_device, NULL), IQ_SHAPE);
        topk_close(&c);
    }
}
END_TEST

enum { ROWS = 12 };

struct sample_case {
    struct topk_case top;
    struct iq_sample host, on_device;
    uint32_t pos[ROWS], top_k[ROWS], token[ROWS];
    uint64_t seed[ROWS];
    float temperature[ROWS], top_p[ROWS], min_p[ROWS];
    struct output out;
};

static void sample_open(struct sample_case *c, uint32_t rows, uint32_t vocab, uint32_t k, uint32_t kind,
                        uint64_t *seed)
{
    static const float p[] = {1, 0.9f, 0.5f, 0, 0.999f, NAN, 2, -1, 1e-9f},
                       m[] = {0, 0.05f, 0.5f, 1, NAN, 3, 1e-7f};
    topk_open(&c->top, rows, vocab, k, kind, seed);
    for (uint32_t r = 0; r < rows; r++) {
        c->pos[r] = dice(seed, 5000), c->seed[r] = dice(seed, 1000);
        c->temperature[r] = dice(seed, 8) ? 0.7f : 0;
        c->top_p[r] = p[dice(seed, 9)], c->min_p[r] = m[dice(seed, 7)];
        c->top_k[r] = dice(seed, 2) ? dice(seed, k + 1 + (dice(seed, 9) == 0)) : 0;
    }
    if (dice(seed, 6) == 0) c->top.host.ids[0] = vocab; /* a candidate that is none */
    c->host = (struct iq_sample){rows,
                                 vocab,
                                 k,
                                 c->top.logits,
                                 c->top.host.ld,
                                 c->top.host.ids,
                                 c->top.host.values,
                                 c->pos,
                                 c->seed,
                                 c->temperature,
                                 c->top_p,
                                 c->min_p,
                                 c->top_k,
                                 c->token};
    c->out = output_open(c->token, rows * sizeof *c->token);
    struct iq_sample *d = &c->on_device;
    *d = c->host;
    d->logits = c->top.on_device.logits;
    d->ids = to_device(c->host.ids, (size_t)rows * k * 4),
    d->values = to_device(c->host.values, (size_t)rows * k * 4);
    d->pos = to_device(c->pos, rows * 4), d->seed = to_device(c->seed, rows * 8),
    d->top_k = to_device(c->top_k, rows * 4);
    d->temperature = to_device(c->temperature, rows * 4), d->top_p = to_device(c->top_p, rows * 4);
    d->min_p = to_device(c->min_p, rows * 4);
}

START_TEST(sample_draws_what_the_reference_draws)
{
    uint64_t seed = 0x900;
    int drawn = 0, refused = 0;
    for (int n = 0; n < 36; n++) {
        uint64_t replay = seed;
        static struct sample_case c;
        uint32_t vocab = 1 + dice(&seed, n % 6 ? 200 : 3000), rows = n % 6 ? 1 + dice(&seed, ROWS) : 2;
        sample_open(&c, rows, vocab, dice(&seed, vocab < 50 ? vocab + 1 : 50), dice(&seed, 6), &seed);
        int status = reference("sample", &c.host);
        int32_t rows_status[ROWS] = {0};
        void *status_at = to_device(rows_status, sizeof rows_status);
        for (unsigned s = 0; use_schedule(s, seed); s++) {
            c.on_device.token = output_fresh(&c.out);
            ck_assert_int_eq(device.kernels->sample(&c.on_device, status_at, NULL), IQ_OK);
            output_check(&c.out, replay, s, "token");
            from_device(rows_status, status_at, sizeof rows_status);
            int first = IQ_OK;
            for (uint32_t r = rows; r-- > 0;) {
                ck_assert_int_eq(rows_status[r] == IQ_OK, c.token[r] != UINT32_MAX);
                first = rows_status[r] ? rows_status[r] : first;
            }
            ck_assert_int_eq(first, status);
        }
        for (uint32_t r = 0; r < rows; r++)
            drawn += c.token[r] != UINT32_MAX, refused += c.token[r] == UINT32_MAX;
        output_close(&c.out);
        topk_close(&c.top);
    }
    ck_assert_int_gt(drawn, 100);
    ck_assert_int_gt(refused, 3);
}
END_TEST

/* Every length of XXH3's cases, in words, as a segment and as the list of segments. */
START_TEST(digests_of_rows_are_those_of_the_library)
{
    uint64_t seed = 0xa00;
    uint32_t lengths[300], count = 0;
    for (uint32_t n = 0; n <= 131; n++) lengths[count++] = n;
    for (uint32_t n = 1; n <= 24; n++) lengths[count++] = 128 * n + dice(&seed, 128);
    const uint32_t more[] = {8191, 8192, 8193, 12288, 49152, 60001};
    for (uint32_t n = 0; n < 6; n++) lengths[count++] = more[n];
    for (uint32_t i = 0; i < count; i++) {
        uint32_t n = lengths[i], rows = n < 3000 ? 3 : 1, head = n % 3 ? n : n / 3;
        size_t ld = n + 2;
        float *x = new_floats(&seed, rows * ld, false);
        struct iq_digest want[3], got[3];
        for (uint32_t r = 0; r < rows; r++) want[r] = iq_digest_row(x + r * ld, n, 4);
        const float *at = to_device(x, rows * ld * 4);
        struct iq_cuda_digest d = {
            rows, {{at, ld, head}, {at + head, ld, n - head}}, to_device(got, sizeof got)};
        for (unsigned s = 0; use_schedule(s, seed); s++) {
            ck_assert_int_eq(device.kernels->digest(&d, NULL), IQ_OK);
            from_device(got, d.out, rows * sizeof *got);
            ck_assert_msg(!memcmp(got, want, rows * sizeof *got), "%u elements, schedule %u", n, s);
        }
        device_release();
        free(x);
    }
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cuda sampling");
    TCase *t = tcase_create("sampling");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, topk_gives_what_the_reference_gives);
    tcase_add_test(t, sample_draws_what_the_reference_draws);
    tcase_add_test(t, digests_of_rows_are_those_of_the_library);
    suite_add_tcase(s, t);
    return check_main(s);
}
