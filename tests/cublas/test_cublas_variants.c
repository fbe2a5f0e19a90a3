/* The variants end to end on the shim, against a library that answers from a record: right up to rounding, exact where the
 * data is, another algorithm for another number of rows, and pinned where the plan says so. */
#include "tests/check_main.h"
#include "tests/cublas/cublas_case.h"
#include "tests/cublas/fake.h"

static void setup(void)
{
    char path[1024];
    snprintf(path, sizeof path, "%s/cublas/made.json", getenv("IQ_TEST_DATA"));
    iq_cublas_replace(fake_open(path));
    cuda_open();
}

static void teardown(void)
{
    cuda_close();
    ck_assert_int_eq(fake_live(), 0);
    iq_cublas_replace(NULL);
    fake_close();
}

static struct product some_product(uint32_t rows, enum iq_format f, uint32_t n, uint32_t k, uint64_t seed)
{
    struct random r = {seed, 0};
    struct product p;
    uint8_t *raw = random_rows(&r, f, n, k, 0);
    product_open(&p, rows, packed(f, n, k, IQ_UNIT, raw), new_floats(&seed, (size_t)rows * k, false));
    free(raw);
    return p;
}

static void product_free(struct product *p)
{
    free((void *)p->host.data);
    free(p->x);
}

static const struct {
    const char *variant;
    unsigned type;
} all[] = {{"cublas", 0},   {"cublas", 1},   {"cublas", 2},   {"cublas", 3},
           {"cublaslt", 0}, {"cublaslt", 1}, {"cublaslt", 2}, {"cublaslt", 3}};
enum { ALL = sizeof all / sizeof *all };

START_TEST(products_are_the_exact_ones_up_to_the_rounding_of_their_type)
{
    struct chosen c = chosen(all[_i].variant, all[_i].type);
    for (int f = 0; f < IQ_FORMATS; f++) {
        struct product p = some_product(19, (enum iq_format)f, 70, 224, 0x500 + (uint64_t)f);
        float *y = product_run(&p, &c, 19);
        double far = product_distance(&p, all[_i].type, y, 19);
        ck_assert_msg(far <= 1, "%s: %g times what rounding may do", iq_format_info((enum iq_format)f)->name,
                      far);
        free(y);
        product_free(&p);
    }
}
END_TEST

/* Numbers that every type holds, and sums that float32 does. */
static float small_integer(uint64_t *seed) { return (float)((int)dice(seed, 9) - 4); }

static struct iq_matrix integer_matrix(uint32_t n, uint32_t k, uint64_t *seed)
{
    float *raw = malloc((size_t)n * k * sizeof *raw);
    for (size_t i = 0; i < (size_t)n * k; i++) raw[i] = small_integer(seed);
    struct iq_matrix m = packed(IQ_F32, n, k, IQ_UNIT, (uint8_t *)raw);
    free(raw);
    return m;
}

START_TEST(integer_data_gives_the_bits_of_the_reference_with_parts_bias_strides_and_rounding)
{
    enum { ROWS = 11, LDX = 203 };
    static const struct {
        uint32_t n, k, x_at, gap;
    } shape[] = {{70, 200, 3, 5}, {64, 192, 0, 0}, {1, 33, 7, 2}, {130, 1, 202, 1}};
    struct chosen c = chosen(all[_i].variant, all[_i].type);
    uint64_t seed = 0x600;
    for (uint32_t act = 0; act < 3; act++) {
        struct iq_matmul host = {.rows = ROWS, .parts = 4, .act = act, .ldx = LDX}, dev = host;
        struct iq_matrix w[4], moved[4];
        struct output y[4];
        float x[ROWS * LDX];
        for (size_t i = 0; i < ROWS * LDX; i++) x[i] = small_integer(&seed);
        host.x = x, dev.x = to_device(x, sizeof x);
        for (int i = 0; i < 4; i++) {
            uint32_t n = shape[i].n;
            w[i] = moved[i] = integer_matrix(n, shape[i].k, &seed);
            moved[i].data = to_device(w[i].data, w[i].panels * w[i].panel_bytes);
            float *bias = malloc(n * sizeof *bias);
            for (uint32_t o = 0; o < n; o++) bias[o] = small_integer(&seed);
            size_t ldy = n + shape[i].gap, bytes = ROWS * ldy * sizeof(float);
            host.part[i] =
                (struct iq_matmul_part){&w[i], i % 2 ? NULL : bias, malloc(bytes), ldy, shape[i].x_at};
            y[i] = output_open(host.part[i].y, bytes);
            dev.part[i] = host.part[i];
            dev.part[i].w = &moved[i], dev.part[i].y = output_fresh(&y[i]);
            if (dev.part[i].bias)
                dev.part[i].bias = to_device(bias, n * sizeof *bias);
            else
                free(bias);
        }
        ck_assert_int_eq(reference("matmul", &host), IQ_OK);
        ck_assert_msg(!c.v->run(&on_device, NULL, &dev, c.params, NULL), "%s", cuda->err.text);
        device_ok(cuda->api->stream_sync(cuda->stream), "a product");
        for (int i = 0; i < 4; i++) {
            output_check(&y[i], 0x600, act, "a part");
            output_close(&y[i]), free(host.part[i].y), free((void *)host.part[i].bias),
                free((void *)w[i].data);
        }
        device_release();
    }
}
END_TEST

static bool same(const float *a, const float *b, size_t n) { return !memcmp(a, b, n * sizeof *a); }

/* Row 0 of a call of 8 rows against row 0 of one of 9, by c. */
static bool row_0_is_the_same(const struct product *p, const struct chosen *c)
{
    float *few = product_run(p, c, 8), *more = product_run(p, c, 9);
    bool equal = same(few, more, p->host.n);
    free(few), free(more);
    return equal;
}

START_TEST(a_rows_bits_change_at_the_9th_row_where_the_library_takes_another_algorithm)
{
    struct product p = some_product(9, IQ_F16, 70, 1536, 0x700);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16), gemm = chosen("cublas", IQ_CUBLAS_BF16);
    ck_assert(!row_0_is_the_same(&p, &lt));
    ck_assert(!row_0_is_the_same(&p, &gemm));
    product_free(&p);
}
END_TEST

START_TEST(seven_and_eight_rows_share_an_algorithm_and_so_their_bits)
{
    struct product p = some_product(8, IQ_F16, 70, 1536, 0x701);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16);
    float *seven = product_run(&p, &lt, 7), *eight = product_run(&p, &lt, 8);
    ck_assert(same(seven, eight, 7 * (size_t)p.host.n));
    free(seven), free(eight);
    product_free(&p);
}
END_TEST

START_TEST(pinning_the_algorithm_hides_the_9th_row)
{
    struct product p = some_product(9, IQ_F16, 70, 1536, 0x702);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16), before = lt;
    struct iq_cublas_algo a;
    size_t n;
    free(product_run(&p, &lt, 8));
    a = iq_cublas_uses(cuda, &n)[0].choice.id;
    pin(&lt, &a);
    ck_assert(row_0_is_the_same(&p, &lt));
    float *chosen_8 = product_run(&p, &before, 8), *pinned_8 = product_run(&p, &lt, 8);
    ck_assert(same(chosen_8, pinned_8, 8 * (size_t)p.host.n));
    free(chosen_8), free(pinned_8);
    product_free(&p);
}
END_TEST

START_TEST(choosing_for_one_bucket_hides_the_9th_row)
{
    struct product p = some_product(9, IQ_F16, 70, 1536, 0x703);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16);
    choose(&lt, "bucket", 64);
    ck_assert(row_0_is_the_same(&p, &lt));
    product_free(&p);
}
END_TEST

START_TEST(the_second_choice_of_the_list_gives_other_bits_of_the_same_sum)
{
    struct product p = some_product(4, IQ_F32, 70, 1536, 0x704);
    struct chosen first = chosen("cublaslt", IQ_CUBLAS_BF16), second = first;
    choose(&second, "choice", 1);
    float *a = product_run(&p, &first, 4), *b = product_run(&p, &second, 4);
    ck_assert(!same(a, b, 4 * (size_t)p.host.n));
    ck_assert(product_distance(&p, IQ_CUBLAS_BF16, b, 4) <= 1);
    free(a), free(b);
    product_free(&p);
}
END_TEST

START_TEST(a_pinned_algorithm_runs_beside_the_librarys_own_choice)
{
    struct product p = some_product(4, IQ_F32, 70, 1536, 0x709);
    struct chosen own = chosen("cublaslt", IQ_CUBLAS_BF16), second = own, pinned = own;
    size_t n;
    choose(&second, "choice", 1);
    float *a = product_run(&p, &own, 4), *b = product_run(&p, &second, 4);
    pin(&pinned, &iq_cublas_uses(cuda, &n)[1].choice.id);
    float *c = product_run(&p, &pinned, 4);
    ck_assert(!same(a, c, 4 * (size_t)p.host.n));
    ck_assert(same(b, c, 4 * (size_t)p.host.n));
    ck_assert(iq_cublas_uses(cuda, &n)[2].pinned);
    ck_assert_uint_eq(n, 3);
    free(a), free(b), free(c);
    product_free(&p);
}
END_TEST

START_TEST(which_algorithm_ran_is_recorded_by_shape)
{
    struct product p = some_product(9, IQ_F16, 70, 96, 0x705);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16), gemm = chosen("cublas", IQ_CUBLAS_FP16);
    struct iq_buf buf = IQ_BUF(1 << 16);
    struct iq_jw jw = IQ_JW(&buf);
    free(product_run(&p, &lt, 8)), free(product_run(&p, &lt, 9)), free(product_run(&p, &lt, 8));
    free(product_run(&p, &gemm, 2));
    iq_cublas_uses_json(cuda, &jw);
    ck_assert_str_eq(
        buf.data,
        "[{\"variant\":\"cublaslt\",\"type\":\"bf16\",\"n\":70,\"k\":96,\"rows\":8,\"bucket\":8,\"choice\":0,"
        "\"pinned\":false,"
        "\"id\":\"algo=6,tile=11,stages=8,split_k=6,reduction=2,swizzle=0,custom=1,inner=0,cluster=0\","
        "\"pin\":{\"algo\":6,\"tile\":11,\"stages\":8,\"split_k\":6,\"reduction\":2,\"swizzle\":0,\"custom\":"
        "1,"
        "\"inner\":0,\"cluster\":0},\"workspace\":65536,\"calls\":2},"
        "{\"variant\":\"cublaslt\",\"type\":\"bf16\",\"n\":70,\"k\":96,\"rows\":9,\"bucket\":9,\"choice\":0,"
        "\"pinned\":false,"
        "\"id\":\"algo=31,tile=15,stages=15,split_k=3,reduction=2,swizzle=0,custom=0,inner=0,cluster=0\","
        "\"pin\":{\"algo\":31,\"tile\":15,\"stages\":15,\"split_k\":3,\"reduction\":2,\"swizzle\":0,"
        "\"custom\":0,"
        "\"inner\":0,\"cluster\":0},\"workspace\":65536,\"calls\":1},"
        "{\"variant\":\"cublas\",\"type\":\"fp16\",\"n\":70,\"k\":96,\"rows\":2,\"calls\":1}]");
    iq_buf_free(&buf);
    product_free(&p);
}
END_TEST

START_TEST(the_heuristic_is_asked_once_for_a_shape)
{
    struct product p = some_product(9, IQ_F16, 70, 96, 0x706);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16);
    for (int i = 0; i < 5; i++) free(product_run(&p, &lt, 8)), free(product_run(&p, &lt, 9));
    ck_assert_uint_eq(fake_calls("heuristic"), 2);
    ck_assert_uint_eq(fake_calls("create"), 1);
    product_free(&p);
}
END_TEST

START_TEST(weights_that_change_where_they_lie_are_seen_by_the_next_call)
{
    struct product p = some_product(2, IQ_F32, 64, 96, 0x707);
    struct chosen lt = chosen("cublaslt", IQ_CUBLAS_BF16);
    float *before = product_run(&p, &lt, 2);
    device_ok(device.api->memset_async((void *)p.moved.data, 0, p.moved.panel_bytes, NULL), "a fault");
    device_ok(device.api->stream_sync(NULL), "a fault");
    float *after = product_run(&p, &lt, 2);
    ck_assert(!same(before, after, 128));
    for (int i = 0; i < 128; i++) ck_assert_float_eq(after[i], 0.0f);
    free(before), free(after);
    product_free(&p);
}
END_TEST

START_TEST(a_captured_graph_gives_the_bits_of_the_call)
{
    struct product p = some_product(9, IQ_Q4_1, 70, 96, 0x708);
    struct chosen lt = chosen(all[_i].variant, all[_i].type);
    size_t bytes = 9 * 70 * sizeof(float);
    float *eager = product_run(&p, &lt, 9), *again = malloc(bytes), *moved = device_room(bytes);
    struct iq_matmul m = product_args(&p, 9, moved);
    void *graph, *exec;
    device_ok(cuda->api->capture_begin(cuda->stream), "capture");
    ck_assert_msg(!lt.v->run(&on_device, NULL, &m, lt.params, NULL), "%s", cuda->err.text);
    device_ok(cuda->api->capture_end(cuda->stream, &graph), "capture");
    device_ok(cuda->api->graph_instantiate(&exec, graph), "graph");
    for (int i = 0; i < 2; i++) {
        device_ok(cuda->api->memset_async(moved, 0xee, bytes, cuda->stream), "fill");
        device_ok(cuda->api->graph_launch(exec, cuda->stream), "graph");
        device_ok(cuda->api->stream_sync(cuda->stream), "graph");
        from_device(again, moved, bytes);
        ck_assert(same(eager, again, 9 * 70));
    }
    cuda->api->graph_destroy(graph), cuda->api->exec_destroy(exec);
    free(eager), free(again);
    product_free(&p);
}
END_TEST

START_TEST(weights_unpack_to_the_values_of_the_matrix_under_every_schedule)
{
    static const struct {
        uint32_t n, blocks;
    } shape[] = {{64, 2}, {65, 3}, {1, 1}, {130, 7}};
    enum iq_format f = (enum iq_format)_i;
    for (unsigned s = 0; use_schedule(s, 0x800); s++)
        for (size_t i = 0; i < 4; i++)
            for (uint32_t element = 0; element < IQ_CUBLAS_ELEMENTS; element++) {
                struct random r = {0x800 + i, 0};
                uint32_t n = shape[i].n, whole = (uint32_t)iq_format_info(f)->elements;
                uint32_t k = whole > 1 ? shape[i].blocks * whole : shape[i].blocks * 32 - 5, ld = k + 3;
                uint8_t *raw = random_rows(&r, f, n, k, 1);
                struct iq_matrix w = packed(f, n, k, IQ_UNIT, raw), moved = w;
                size_t width = element == IQ_CUBLAS_FLOAT ? 4 : 2, bytes = (size_t)n * ld * width;
                uint8_t *want = malloc(bytes);
                float *row = malloc(k * sizeof *row);
                struct output o = output_open(want, bytes);
                for (uint32_t at = 0; at < n; at++) {
                    iq_matrix_row(&w, at, row);
                    for (uint32_t c = 0; c < k; c++) {
                        uint16_t h =
                            element == IQ_CUBLAS_HALF ? iq_f32_to_f16(row[c]) : iq_f32_to_bf16(row[c]);
                        memcpy(want + ((size_t)at * ld + c) * width, width == 4 ? (void *)&row[c] : &h,
                               width);
                    }
                }
                moved.data = to_device(w.data, w.panels * w.panel_bytes);
                const struct iq_cublas_unpack u = {&moved, output_fresh(&o), ld, element};
                ck_assert_int_eq(IQ_CUDA_PICK(cuda, cublas_unpack)(&u, NULL), IQ_OK);
                output_check(&o, 0x800, s, iq_format_info(f)->name);
                output_close(&o), free(want), free(row), free(raw), free((void *)w.data);
                device_release();
            }
}
END_TEST

int main(void)
{
    if (device_open() || iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cublas variants");
    TCase *t = tcase_create("products");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_loop_test(t, products_are_the_exact_ones_up_to_the_rounding_of_their_type, 0, ALL);
    tcase_add_loop_test(t, integer_data_gives_the_bits_of_the_reference_with_parts_bias_strides_and_rounding,
                        0, ALL);
    tcase_add_test(t, a_rows_bits_change_at_the_9th_row_where_the_library_takes_another_algorithm);
    tcase_add_test(t, seven_and_eight_rows_share_an_algorithm_and_so_their_bits);
    tcase_add_test(t, pinning_the_algorithm_hides_the_9th_row);
    tcase_add_test(t, choosing_for_one_bucket_hides_the_9th_row);
    tcase_add_test(t, the_second_choice_of_the_list_gives_other_bits_of_the_same_sum);
    tcase_add_test(t, a_pinned_algorithm_runs_beside_the_librarys_own_choice);
    tcase_add_test(t, which_algorithm_ran_is_recorded_by_shape);
    tcase_add_test(t, the_heuristic_is_asked_once_for_a_shape);
    tcase_add_test(t, weights_that_change_where_they_lie_are_seen_by_the_next_call);
    tcase_add_loop_test(t, a_captured_graph_gives_the_bits_of_the_call, 0, ALL);
    tcase_add_loop_test(t, weights_unpack_to_the_values_of_the_matrix_under_every_schedule, 0, IQ_FORMATS);
    suite_add_tcase(s, t);
    return check_main(s);
}
