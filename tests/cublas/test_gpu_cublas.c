/* cuBLAS on a GPU: the variants against exact sums, which algorithm is taken for how many rows, and golden's speed beside
 * the library's. Prints one JSON object a line; returns 0, 1 where a check failed, 77 where there is no GPU or no cuBLAS.
 *
 *   test_gpu_cublas                  all of it
 *   test_gpu_cublas --record FILE    the library's answers, for tests on machines without a GPU (tests/data/cublas)
 *   test_gpu_cublas --made FILE      the same program on the shim, against such answers: that the program itself works
 */
#include "tests/cublas/cublas_case.h"
#include "tests/cublas/fake.h"

#include "kernels/cublas/survey.h"

#include <time.h>

static bool made; /* small shapes: the shim is slow, and its speed says nothing */
static struct iq_cublas *b;

static void line_begin(struct iq_buf *buf, struct iq_jw *jw)
{
    *buf = IQ_BUF(64 << 20);
    *jw = IQ_JW(buf);
    iq_jw_begin(jw, '{');
}

static void line_end(struct iq_buf *buf, struct iq_jw *jw)
{
    iq_jw_end(jw, '}');
    puts(buf->data);
    fflush(stdout);
    iq_buf_free(buf);
}

static void field_str(struct iq_jw *jw, const char *key, const char *value)
{
    iq_jw_key(jw, key);
    iq_jw_str(jw, value);
}

static void field_number(struct iq_jw *jw, const char *key, double value)
{
    iq_jw_key(jw, key);
    iq_jw_f64(jw, value);
}

/* Rows of float32 weights and x: small integers, or any. */
static struct product product_of(uint32_t rows, uint32_t n, uint32_t k, bool integers, uint64_t seed)
{
    struct product p;
    float *w = new_floats(&seed, (size_t)n * k, false), *x = new_floats(&seed, (size_t)rows * k, false);
    for (size_t i = 0; integers && i < (size_t)n * k; i++) w[i] = (float)((int)dice(&seed, 9) - 4);
    for (size_t i = 0; integers && i < (size_t)rows * k; i++) x[i] = (float)((int)dice(&seed, 9) - 4);
    product_open(&p, rows, packed(IQ_F32, n, k, IQ_UNIT, (uint8_t *)w), x);
    free(w);
    return p;
}

static void product_free(struct product *p)
{
    device_release();
    free((void *)p->host.data);
    free(p->x);
}

static const char *const variants[] = {"cublas", "cublaslt"};

static void say_check(const char *check, const char *by, unsigned type, const char *measured, double value)
{
    struct iq_buf buf;
    struct iq_jw jw;
    line_begin(&buf, &jw);
    field_str(&jw, "check", check);
    field_str(&jw, "variant", by);
    field_str(&jw, "type", iq_cublas_types[type].name);
    field_number(&jw, measured, value);
    line_end(&buf, &jw);
}

static const uint32_t checked_rows[] = {1, 2, 7, 8, 9, 33};
enum { CHECKED = sizeof checked_rows / sizeof *checked_rows };

START_TEST(integer_data_gives_exact_sums)
{
    unsigned type = (unsigned)_i % IQ_CUBLAS_TYPES;
    struct chosen c = chosen(variants[_i / IQ_CUBLAS_TYPES], type);
    struct product p = product_of(33, 200, made ? 64 : 576, true, 0xb00);
    for (int r = 0; r < CHECKED; r++) {
        float *y = product_run(&p, &c, checked_rows[r]), *w = malloc(p.host.k * sizeof *w);
        for (uint32_t o = 0; o < p.host.n; o++) {
            iq_matrix_row(&p.host, o, w);
            for (uint32_t row = 0; row < checked_rows[r]; row++) {
                double sum = 0;
                for (uint32_t k = 0; k < p.host.k; k++) sum += (double)p.x[row * p.host.k + k] * w[k];
                ck_assert_msg((double)y[row * p.host.n + o] == sum,
                              "%s, %s, %u rows: y[%u][%u] is %g, expected %g", c.v->name,
                              iq_cublas_types[type].name, checked_rows[r], row, o, y[row * p.host.n + o],
                              sum);
            }
        }
        free(y), free(w);
    }
    product_free(&p);
    say_check("exact on integers", c.v->name, type, "wrong", 0);
}
END_TEST

START_TEST(other_data_stays_within_rounding)
{
    unsigned type = (unsigned)_i % IQ_CUBLAS_TYPES;
    struct chosen c = chosen(variants[_i / IQ_CUBLAS_TYPES], type);
    struct product p = product_of(33, 200, made ? 64 : 1536, false, 0xb01);
    double worst = 0;
    for (int r = 0; r < CHECKED; r++) {
        float *y = product_run(&p, &c, checked_rows[r]);
        double far = product_distance(&p, type, y, checked_rows[r]);
        ck_assert_msg(far <= 1, "%s, %s, %u rows: %g times what rounding may do", c.v->name,
                      iq_cublas_types[type].name, checked_rows[r], far);
        worst = far > worst ? far : worst;
        free(y);
    }
    product_free(&p);
    say_check("within rounding", c.v->name, type, "of_the_bound", worst);
}
END_TEST

/* For how many of the numbers of rows row 0 has other bits than alone: what the library does, and what pinning does. */
static unsigned other_bits(const struct product *p, const struct chosen *c, uint32_t most)
{
    float *alone = product_run(p, c, 1);
    unsigned others = 0;
    for (uint32_t rows = 2; rows <= most; rows++) {
        float *y = product_run(p, c, rows);
        others += memcmp(y, alone, p->host.n * sizeof *y) != 0;
        free(y);
    }
    free(alone);
    return others;
}

START_TEST(row_0_by_number_of_rows_free_and_pinned)
{
    unsigned type = (unsigned)_i;
    uint32_t most = made ? 12 : 64;
    struct product p = product_of(most, 576, made ? 160 : 1536, false, 0xb02);
    struct chosen lt = chosen("cublaslt", type), gemm = chosen("cublas", type);
    unsigned free_lt = other_bits(&p, &lt, most), free_gemm = other_bits(&p, &gemm, most), held_at;
    choose(&lt, "bucket", most);
    held_at = other_bits(&p, &lt, most);
    say_check("row 0 has other bits than alone, for so many numbers of rows", "cublas", type, "count",
              free_gemm);
    say_check("row 0 has other bits than alone, for so many numbers of rows", "cublaslt", type, "count",
              free_lt);
    say_check("the same with one algorithm for all", "cublaslt", type, "count", held_at);
    product_free(&p);
}
END_TEST

/* The library does not say what cublasGemmEx chose; equal bits say that it may be Lt's first choice. */
START_TEST(gemm_beside_the_first_choice_of_lt)
{
    unsigned type = (unsigned)_i, others = 0;
    struct product p = product_of(33, 576, made ? 160 : 1536, false, 0xb05);
    struct chosen lt = chosen("cublaslt", type), gemm = chosen("cublas", type);
    for (int r = 0; r < CHECKED; r++) {
        float *a = product_run(&p, &lt, checked_rows[r]), *c = product_run(&p, &gemm, checked_rows[r]);
        others += memcmp(a, c, checked_rows[r] * (size_t)p.host.n * sizeof *a) != 0;
        free(a), free(c);
    }
    product_free(&p);
    say_check("other bits than cublaslt's first choice, for so many numbers of rows", "cublas", type, "count",
              others);
}
END_TEST

/* SmolLM2's products: q and out, k and v, gate and up, down, logits. */
static const struct {
    uint32_t n, k;
} smollm2[] = {{576, 576}, {192, 576}, {1536, 576}, {576, 1536}, {49152, 576}};
enum { SHAPES = sizeof smollm2 / sizeof *smollm2 };

START_TEST(which_algorithm_is_taken_for_how_many_rows)
{
    for (unsigned type = 0; type < IQ_CUBLAS_TYPES; type++) {
        struct iq_cublas_shape shape = {.rows = 512, .n = smollm2[_i].n, .k = smollm2[_i].k, .type = type};
        struct iq_cublas_survey s;
        struct iq_err err = {0};
        struct iq_buf buf;
        struct iq_jw jw;
        ck_assert_msg(!iq_cublas_survey(b, &shape, 1, &s, &err), "%s", err.text);
        line_begin(&buf, &jw);
        iq_jw_key(&jw, "survey");
        iq_cublas_survey_json(&s, &jw);
        line_end(&buf, &jw);
        iq_cublas_survey_free(&s);
    }
}
END_TEST

/* ---- speed ---- */

/* Microseconds a call: the best of some rounds, each long enough to hide what a launch costs the host. */
static double timed(int (*call)(void *), void *self)
{
    enum { ROUNDS = 5 };
    int calls = made ? 1 : 50;
    double best = INFINITY;
    for (int round = 0; round <= ROUNDS; round++) { /* the first warms up */
        struct timespec from, to;
        clock_gettime(CLOCK_MONOTONIC, &from);
        for (int i = 0; i < calls; i++) ck_assert_msg(!call(self), "%s", cuda->err.text);
        device_ok(cuda->api->stream_sync(cuda->stream), "a product");
        clock_gettime(CLOCK_MONOTONIC, &to);
        double us =
            ((double)(to.tv_sec - from.tv_sec) * 1e6 + (double)(to.tv_nsec - from.tv_nsec) * 1e-3) / calls;
        if (round && us < best) best = us;
    }
    return best;
}

struct golden_call {
    struct iq_matmul m;
};

static int golden_run(void *self)
{
    struct golden_call *g = self;
    return iq_cuda_launched(cuda, cuda->kernels->matmul(&g->m, cuda->stream), "golden");
}

struct cublas_call {
    struct iq_cublas_shape shape;
    void *w, *x;
    float *y;
};

/* The library's product alone: its operands lie there in its own form. */
static int cublas_run(void *self)
{
    struct cublas_call *c = self;
    return iq_cublas_product(b, &c->shape, c->w, c->x, c->y, &cuda->err);
}

static void say_speed(const struct cublas_call *c, double golden, double library)
{
    struct iq_buf buf;
    struct iq_jw jw;
    line_begin(&buf, &jw);
    field_str(&jw, "speed", "golden beside cuBLAS");
    field_number(&jw, "rows", c->shape.rows);
    field_number(&jw, "n", c->shape.n);
    field_number(&jw, "k", c->shape.k);
    field_str(&jw, "golden_weights", "Q4_1");
    field_str(&jw, "cublas_type", iq_cublas_types[c->shape.type].name);
    field_number(&jw, "golden_us", golden);
    field_number(&jw, "cublas_us", library);
    field_number(&jw, "ratio", golden / library);
    line_end(&buf, &jw);
}

static struct iq_matrix q4_matrix(uint32_t n, uint32_t k)
{
    struct random r = {0xb03, 0};
    uint8_t *raw = random_rows(&r, IQ_Q4_1, n, k, 0);
    struct iq_matrix w = packed(IQ_Q4_1, n, k, IQ_UNIT, raw);
    free(raw);
    return w;
}

START_TEST(golden_beside_cublas_as_a_ratio)
{
    static const uint32_t rows[] = {1, 8, 32, 512}, few[] = {1, 2, 8, 9};
    uint32_t n = made ? 96 : smollm2[3 + _i].n, k = made ? 160 : smollm2[3 + _i].k;
    struct product p;
    uint64_t seed = 0xb04;
    product_open(&p, 512, q4_matrix(n, k), new_floats(&seed, 512 * (size_t)k, false));
    for (int i = 0; i < 4; i++) {
        float *y = device_room(512 * (size_t)n * sizeof *y);
        struct golden_call golden = {product_args(&p, made ? few[i] : rows[i], y)};
        double golden_us = timed(golden_run, &golden);
        for (unsigned type = 0; type < IQ_CUBLAS_TYPES; type++) {
            struct cublas_call c = {.shape = {golden.m.rows, n, k, iq_cublas_ld(type, k), type}, .y = y};
            size_t width = (size_t)c.shape.ld * iq_cublas_types[type].bytes;
            c.w = device_room(n * width), c.x = device_room(golden.m.rows * width);
            const struct iq_cublas_unpack unpack = {&p.moved, c.w, c.shape.ld, iq_cublas_types[type].element};
            const struct iq_cublas_take take = {
                p.x_moved, k, golden.m.rows, k, c.shape.ld, iq_cublas_types[type].element, c.x};
            ck_assert_int_eq(IQ_CUDA_PICK(cuda, cublas_unpack)(&unpack, cuda->stream), IQ_OK);
            ck_assert_int_eq(IQ_CUDA_PICK(cuda, cublas_take)(&take, cuda->stream), IQ_OK);
            say_speed(&c, golden_us, timed(cublas_run, &c));
        }
    }
    product_free(&p);
}
END_TEST

static int record(const char *path)
{
    static const char source[] =
        "recorded by test_gpu_cublas --record from the library and the device named here";
    struct iq_cublas_shape shapes[SHAPES * IQ_CUBLAS_TYPES];
    struct iq_buf buf = IQ_BUF(64 << 20);
    struct iq_jw jw = IQ_JW(&buf);
    struct iq_err err = {0};
    for (unsigned i = 0; i < SHAPES * IQ_CUBLAS_TYPES; i++)
        shapes[i] = (struct iq_cublas_shape){.rows = 512,
                                             .n = smollm2[i / IQ_CUBLAS_TYPES].n,
                                             .k = smollm2[i / IQ_CUBLAS_TYPES].k,
                                             .type = i % IQ_CUBLAS_TYPES};
    int status =
        iq_cublas_record_json(b, source, shapes, SHAPES * IQ_CUBLAS_TYPES, IQ_CUBLAS_CHOICES, &jw, &err);
    FILE *f = status ? NULL : fopen(path, "w");
    bool written = f && fwrite(buf.data, 1, buf.len, f) == buf.len;
    if (f && fclose(f)) written = false;
    if (!written)
        fprintf(stderr, "%s\n", status ? err.text : "the record was not written; is the folder writable?");
    iq_buf_free(&buf);
    return !written;
}

static Suite *suite(void)
{
    Suite *s = suite_create("cublas on a GPU");
    TCase *t = tcase_create("gpu");
    tcase_set_timeout(t, 300);
    tcase_add_loop_test(t, integer_data_gives_exact_sums, 0, 2 * IQ_CUBLAS_TYPES);
    tcase_add_loop_test(t, other_data_stays_within_rounding, 0, 2 * IQ_CUBLAS_TYPES);
    tcase_add_loop_test(t, row_0_by_number_of_rows_free_and_pinned, 0, IQ_CUBLAS_TYPES);
    tcase_add_loop_test(t, gemm_beside_the_first_choice_of_lt, 0, IQ_CUBLAS_TYPES);
    tcase_add_loop_test(t, which_algorithm_is_taken_for_how_many_rows, 0, SHAPES);
    tcase_add_loop_test(t, golden_beside_cublas_as_a_ratio, 0, 2);
    suite_add_tcase(s, t);
    return s;
}

/* Check prints nothing itself: what failed is a line, too. */
static int run_all(void)
{
    SRunner *runner = srunner_create(suite());
    srunner_set_fork_status(runner, CK_NOFORK); /* CUDA does not outlive a fork */
    srunner_run_all(runner, CK_SILENT);
    int failed = srunner_ntests_failed(runner);
    TestResult **results = srunner_failures(runner);
    for (int i = 0; i < failed; i++) {
        struct iq_buf buf;
        struct iq_jw jw;
        line_begin(&buf, &jw);
        field_str(&jw, "failed", tr_tcname(results[i]));
        field_str(&jw, "why", tr_msg(results[i]));
        line_end(&buf, &jw);
    }
    free(results);
    srunner_free(runner);
    return failed != 0;
}

static void say_where(const char *key, const char *value)
{
    struct iq_buf buf;
    struct iq_jw jw;
    line_begin(&buf, &jw);
    field_str(&jw, "test", "cublas");
    field_str(&jw, key, value);
    if (b) {
        field_str(&jw, "library", b->api->name);
        field_number(&jw, "version", b->version);
    }
    line_end(&buf, &jw);
}

int main(int argc, char **argv)
{
    struct iq_err err = {0};
    made = argc == 3 && !strcmp(argv[1], "--made");
    bool recording = argc == 3 && !strcmp(argv[1], "--record");
    if (argc != 1 && !made && !recording) {
        fprintf(stderr, "expected no argument, --record FILE or --made FILE\n");
        return 1;
    }
    if (made) iq_cublas_replace(fake_open(argv[2]));
    device.shim = made;
    int status = iq_cuda_open(made, 0, &cuda, &err);
    if (!status) {
        device.api = cuda->api, device.kernels = cuda->kernels;
        on_device = (struct iq_exec){.cuda = cuda};
        status = iq_cublas_of(cuda, &b, &err);
    }
    if (status) {
        say_where(status == IQ_UNSUPPORTED ? "skipped" : "failed", err.text);
        iq_cuda_close(cuda);
        return status == IQ_UNSUPPORTED ? 77 : 1;
    }
    say_where("device", cuda->what.name);
    int failed = recording ? record(argv[2]) : run_all();
    iq_cublas_close(cuda);
    iq_cuda_close(cuda);
    if (made) fake_close();
    return failed;
}
