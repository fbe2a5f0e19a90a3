/* matmul on tensor cores gives the bits of the CPU's variant of the same profile: on the shim of every profile, on a GPU
 * (IQ_TEST_DEVICE=cuda) of its own. */
#include "tests/check_main.h"
#include "tests/cuda/mma_rows.h"
#include "tests/cuda/product_case.h"

#include "kernels/cuda/products.h"

static int own = -1; /* the profile of the GPU under test; -1: the shim, any */

static const char *products_name(uint32_t profile, uint32_t operand)
{
    static char name[40];
    snprintf(name, sizeof name, "%s%s", iq_tc_profiles[profile].name, operand == IQ_TC_F16 ? "-f16" : "");
    return name;
}

static int on_cpu(struct product_case *c)
{
    struct iq_exec x = {0};
    const struct iq_variant *v = iq_variant_products(products_name(c->profile, c->operand), NULL);
    ck_assert_ptr_nonnull(v);
    int status = v->run(&x, NULL, &c->host, NULL, NULL);
    iq_exec_close(&x);
    return status;
}

static int on_device(struct product_case *c)
{
    return device.kernels->products(&c->on_device, c->profile, c->operand, NULL);
}

static struct product_case products_case(uint32_t rows, uint32_t number, uint64_t *seed)
{
    return (struct product_case){.host = {.rows = rows, .parts = 1, .act = dice(seed, 3)},
                                 .expect = on_cpu,
                                 .launch = on_device,
                                 .profile = own < 0 ? number % IQ_TC_PROFILES : (uint32_t)own,
                                 .operand = number / IQ_TC_PROFILES % 2};
}

/* Every profile and operand format twice; ordinary values, odd ones, tiny ones, infinities and NaN. */
START_TEST(products_of_every_format_give_the_bits_of_the_cpu)
{
    static const uint32_t rows[] = {1, 17, 3, 40, 8, 16};
    const enum iq_format f = (enum iq_format)_i;
    const uint32_t block = (uint32_t)iq_format_info(f)->elements;
    uint64_t seed = 0x900 + (uint64_t)f;
    for (uint32_t n = 0; n < 24; n++) {
        uint64_t replay = seed;
        struct product_case c = products_case(rows[n % 6], n, &seed);
        const bool odd = n / 6 % 2;
        c.special = n / 6 == 2;
        c.scale = n / 6 == 3 ? 0x1p-120f : 0;
        part_open(&c, 0, f, 1 + dice(&seed, 80), block * (1 + dice(&seed, (n % 2 ? 420 : 70) / block)),
                  IQ_UNIT, odd, &seed);
        product_check(&c, replay, &seed, c.special, iq_format_info(f)->name);
    }
}
END_TEST

/* Enough outputs for wide tiles, which the parts share; rows and columns that end inside a tile and a stage. */
START_TEST(wide_tiles_give_the_bits_of_the_cpu)
{
    uint64_t seed = 0xa00 + (uint64_t)_i, replay = seed;
    struct product_case c = products_case(70, _i ? IQ_TC_SM80 : IQ_TC_PROFILES + IQ_TC_SM90, &seed);
    c.host.parts = IQ_FORMATS;
    for (uint32_t f = 0; f < IQ_FORMATS; f++)
        part_open(&c, f, (enum iq_format)f, 11 * IQ_PANEL - 5 * (f % 2),
                  _i ? (f < IQ_Q8_0 ? 83 : 96) : (f < IQ_Q8_0 ? 149 : 160), IQ_UNIT, true, &seed);
    product_check(&c, replay, &seed, false, "a part");
}
END_TEST

START_TEST(parts_of_several_formats_and_widths_give_the_bits_of_the_cpu)
{
    uint64_t seed = 0xb00;
    for (uint32_t n = 0; n < 6; n++) {
        uint64_t replay = seed;
        struct product_case c = products_case(n % 2 ? 5 : 1, n, &seed);
        c.host.parts = 1 + dice(&seed, 6);
        for (uint32_t p = 0; p < c.host.parts; p++)
            part_open(&c, p, (enum iq_format)dice(&seed, IQ_FORMATS), 1 + dice(&seed, 140),
                      32 * (1 + dice(&seed, 6)), IQ_UNIT, false, &seed);
        product_check(&c, replay, &seed, false, "a part");
    }
}
END_TEST

/* The last block of products is a negative number that rounds to -0. Another block, even of zeros, would make it +0. */
START_TEST(a_chain_that_ends_in_minus_zero_keeps_it)
{
    static const uint32_t columns[] = {8, 1, 24, 19, 16, 13, 40};
    const uint32_t k = columns[_i];
    for (uint32_t profile = 0; profile < IQ_TC_PROFILES; profile++) {
        if (own >= 0 && profile != (uint32_t)own) continue;
        float x[40], w[40], y = 1, got = 2;
        for (uint32_t i = 0; i < k; i++) x[i] = i + 1 == k ? -0x1p-100f : 0, w[i] = 0x1p-52f;
        struct iq_matrix m = packed(IQ_F32, 1, k, IQ_UNIT, (const uint8_t *)w), moved = m;
        moved.data = to_device(m.data, m.panels * m.panel_bytes);
        struct product_case c = {.profile = profile, .operand = IQ_TC_BF16};
        c.host = (struct iq_matmul){1, 1, IQ_ACT_F32, x, k, {{&m, NULL, &y, 1, 0}}};
        c.on_device = (struct iq_matmul){
            1, 1, IQ_ACT_F32, to_device(x, k * 4), k, {{&moved, NULL, to_device(&y, 4), 1, 0}}};
        ck_assert_int_eq(on_cpu(&c), IQ_OK);
        ck_assert_uint_eq(iq_f32_bits(y), 0x80000000u);
        ck_assert_int_eq(on_device(&c), IQ_OK);
        from_device(&got, c.on_device.part[0].y, 4);
        ck_assert_msg(iq_f32_bits(got) == 0x80000000u, "%s, k %u: found %08x", iq_tc_profiles[profile].name,
                      k, iq_f32_bits(got));
        device_release();
        free((void *)m.data);
    }
}
END_TEST

/* ---- which device makes which ---- */

START_TEST(a_variant_runs_on_the_device_that_has_its_products)
{
    struct iq_cuda c = {.api = device.api, .kernels = device.kernels, .shim = device.shim};
    if (!device.shim) ck_assert_int_eq(device.api->device_describe(0, &c.what), 0);
    float x[16], w[16], y = 0, want = 0;
    for (int i = 0; i < 16; i++) x[i] = 1.0f + (float)i * 0x1p-7f, w[i] = 3.0f;
    struct iq_matrix m = packed(IQ_F32, 1, 16, IQ_UNIT, (const uint8_t *)w), moved = m;
    moved.data = to_device(m.data, m.panels * m.panel_bytes);
    struct iq_matmul host = {1, 1, IQ_ACT_F32, x, 16, {{&m, NULL, &want, 1, 0}}}, on = host;
    on.x = to_device(x, sizeof x), on.part[0].w = &moved, on.part[0].y = to_device(&y, 4);
    struct iq_exec cpu = {0}, gpu = {.cuda = &c};
    for (uint32_t p = 0; p < IQ_TC_PROFILES; p++) {
        const char *name = iq_tc_profiles[p].name;
        const struct iq_variant *v = iq_variant_products_cuda(name);
        ck_assert_ptr_nonnull(v);
        ck_assert_str_eq(v->device, "cuda");
        ck_assert_uint_eq(v->flags, IQ_V_BENIGN);
        int status = v->run(&gpu, NULL, &on, NULL, NULL);
        if (own >= 0 && p != (uint32_t)own) {
            ck_assert_int_eq(status, IQ_UNSUPPORTED);
            continue;
        }
        ck_assert_msg(status == IQ_OK, "%s", c.err.text);
        from_device(&y, on.part[0].y, 4);
        ck_assert_int_eq(iq_variant_products(name, NULL)->run(&cpu, NULL, &host, NULL, NULL), IQ_OK);
        ck_assert_uint_eq(iq_f32_bits(y), iq_f32_bits(want));
    }
    ck_assert_ptr_null(iq_variant_products_cuda("sm70"));
    iq_exec_close(&cpu);
    device_release();
    free((void *)m.data);
}
END_TEST

/* major, minor, whether each of sm80, sm90, sm100 is there, what the refusal names */
static const struct {
    int major, minor;
    const char *has, *sentence;
} capabilities[] = {{8, 0, "100", "makes sm80 products"},
                    {8, 9, "100", "makes sm80 products"},
                    {9, 0, "010", "makes sm90 products"},
                    {10, 0, "001", "makes sm100 products"},
                    {10, 3, "001", "makes sm100 products"},
                    {7, 5, "000", "whose tensor cores are not known"},
                    {12, 0, "000", "whose tensor cores are not known"}};

START_TEST(a_gpu_refuses_the_products_of_other_generations)
{
    struct iq_cuda c = {
        .what = {.name = "a GPU", .major = capabilities[_i].major, .minor = capabilities[_i].minor}};
    for (uint32_t p = 0; p < IQ_TC_PROFILES; p++)
        for (uint32_t operand = 0; operand < 2; operand++) {
            struct iq_err err = {0};
            int status = iq_cuda_products(&c, products_name(p, operand), &err);
            ck_assert_int_eq(status, capabilities[_i].has[p] == '1' ? IQ_OK : IQ_UNSUPPORTED);
            if (status != IQ_OK) ck_assert_ptr_nonnull(strstr(err.text, capabilities[_i].sentence));
            if (status != IQ_OK) ck_assert_ptr_nonnull(strstr(err.text, products_name(p, operand)));
        }
    struct iq_err err = {0};
    ck_assert_int_eq(iq_cuda_products(&c, "ieee", &err), IQ_NOT_FOUND);
    c.shim = true;
    ck_assert_int_eq(iq_cuda_products(&c, "sm90", &err), IQ_OK);
}
END_TEST

/* ---- the instruction on the shim: a warp operation like others ---- */

START_TEST(the_shim_finds_a_lane_that_stays_away_from_the_instruction_or_means_another)
{
    static int (*const launch[])(const struct mma_rows *, void *) = {
        iq__cuda_shim_mma_rows, iq__cuda_shim_mma_lane_missing, iq__cuda_shim_mma_lane_astray};
    static const char *const sentence[] = {NULL, "wrong mask", "another product in mind"};
    static const uint16_t zeros[MMA_M * MMA_K];
    if (!device.shim) return;
    const struct mma_rows r = {.tiles = 1,
                               .profile = IQ_TC_SM80,
                               .k = 16,
                               .a = to_device(zeros, sizeof zeros),
                               .b = to_device(zeros, sizeof zeros / 2),
                               .d = to_device(zeros, MMA_M * MMA_N * 4)};
    for (unsigned s = 0; use_schedule(s, 1); s++) {
        ck_assert_int_eq(launch[_i](&r, NULL), 0);
        int code = device.api->stream_sync(NULL);
        ck_assert_int_eq(code != 0, sentence[_i] != NULL);
        if (sentence[_i])
            ck_assert_msg(strstr(iq_shim_report(), sentence[_i]) != NULL, "%s", iq_shim_report());
        iq_shim_reset();
    }
    device_release();
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    if (!device.shim) {
        struct iq_cuda_device what;
        if (device.api->device_describe(0, &what)) return 1;
        own = iq_cuda_products_of(what.major, what.minor);
        if (own < 0) {
            printf("%s has compute capability %d.%d: its tensor cores are not known\n", what.name, what.major,
                   what.minor);
            return 77;
        }
    }
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cuda tensor-core products");
    TCase *t = tcase_create("products");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products_of_every_format_give_the_bits_of_the_cpu, 0, IQ_FORMATS);
    tcase_add_test(t, parts_of_several_formats_and_widths_give_the_bits_of_the_cpu);
    tcase_add_loop_test(t, a_chain_that_ends_in_minus_zero_keeps_it, 0, 7);
    tcase_add_test(t, a_variant_runs_on_the_device_that_has_its_products);
    tcase_add_loop_test(t, a_gpu_refuses_the_products_of_other_generations, 0,
                        (int)(sizeof capabilities / sizeof *capabilities));
    tcase_add_loop_test(t, the_shim_finds_a_lane_that_stays_away_from_the_instruction_or_means_another, 0, 3);
    suite_add_tcase(s, t);
    t = tcase_create("wide");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, wide_tiles_give_the_bits_of_the_cpu, 0, 2);
    suite_add_tcase(s, t);
    return check_main(s);
}
