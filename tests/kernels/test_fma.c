/* The portable v_fma (kernels/cpu/fma_sse2.h where there is no fma instruction) is fmaf, bit for bit. */
#include "tests/check_main.h"

#include "kernels/arith.h"
#include "kernels/base/rng.h"
#include "kernels/cpu/vec_portable.h"

#include <stdbool.h>

/* Where a * b + c is exact in double its one rounding is the answer: of what libm says too. */
static void check_libm(float a, float b, float c, float want)
{
    double p = (double)a * (double)b, s = p + (double)c, back = s - p;
    bool exact = (p - (s - back)) + ((double)c - back) == 0;
    ck_assert_msg(!exact || iq_f32_bits(want) == iq_f32_bits((float)s), "fmaf(%a, %a, %a): %a, expected %a",
                  (double)a, (double)b, (double)c, (double)want, s);
}

static void check_lanes(vf a, vf b, vf c)
{
    vf got = v_fma(a, b, c);
    for (int l = 0; l < VL; l++) {
        float want = fmaf(a[l], b[l], c[l]);
        check_libm(a[l], b[l], c[l], want);
        if (want != want && got[l] != got[l])
            continue; /* any NaN: outputs are made canonical where they leave an op */
        ck_assert_msg(iq_f32_bits(got[l]) == iq_f32_bits(want), "fma(%a, %a, %a): %a, expected %a", a[l],
                      b[l], c[l], got[l], want);
    }
}

START_TEST(half_ways_that_the_first_rounding_makes_are_seen)
{
    static const float hard[][3] = {
        /* a * b is half a unit of c, less or more what double can't hold beside c */
        {0x1.000002p-12f, 0x1.fffffcp-13f, 0x1.000002p0f},
        {0x1.000002p-12f, 0x1.000002p-12f, 1.0f},
        {-0x1.000002p-12f, 0x1.fffffcp-13f, 0x1.000002p0f},
        {0x1.8p-12f, 0x1.555556p-13f, 0x1.000002p0f},
        /* results below 2^-126, where half ways lie elsewhere */
        {0x1.fffffep-75f, 0x1.000002p-75f, 0x1p-149f},
        {0x1p-75f, 0x1p-75f, 0x1p-149f},
        {0x1p-75f, -0x1p-75f, 0x1p-126f},
        {0x1.8p-75f, 0x1p-75f, -0x1p-149f},
        {0x1.fffffep-64f, 0x1.fffffep-64f, -0x1p-127f},
        /* products below it, alone: half of 2^-149, more, less; the last normal that rounds up; signs of zero */
        {0x1p-75f, 0x1p-75f, 0.0f},
        {0x1.000002p-75f, 0x1p-75f, 0.0f},
        {-0x1p-75f, 0x1p-75f, 0.0f},
        {-0x1.fffffep-76f, 0x1p-75f, 0.0f},
        {-0x1.000002p-75f, 0x1p-75f, -0.0f},
        {0x1.8p-74f, 0x1p-75f, -0.0f},
        {0x1.fffffep-64f, 0x1p-63f, 0.0f},
        {0x1.fffffcp-64f, 0x1.000002p-63f, 0.0f},
        {0x1.555556p-64f, -0x1.8p-64f, 0.0f},
        /* a product a little less than half of 2^-149 beside an odd multiple: double sees a half way */
        {0x1.000002p-75f, 0x1.fffffcp-76f, 0x1.000004p-127f},
        {-0x1.000002p-75f, 0x1.fffffcp-76f, -0x1.55555cp-127f},
        {0x1.000002p-75f, -0x1.fffffcp-76f, 0x1.000004p-127f},
        {0x1.000006p-75f, 0x1.fffff4p-76f, 0x1.fffffcp-127f},
        /* subnormal factors and terms */
        {0x1p-149f, 0.5f, 0.0f},
        {-0x1p-149f, 0.5f, 0x1p-149f},
        {0x1.8p-148f, 0.5f, 0.0f},
        {0x1p-149f, 0x1p-149f, -0x1p-149f},
        {0x1.fffffcp-127f, 0x1.000002p0f, 0x1p-149f},
        {0x1.fffffcp-127f, 0x1p23f, -0x1p-104f},
        /* overflow, zeros, infinities */
        {0x1.fffffep127f, 1.0f, 0x1p103f},
        {0x1.fffffep127f, 1.0f, 0x1.fffffep102f},
        {0x1p100f, 0x1p100f, 1},
        {-0.0f, 1.0f, -0.0f},
        {-0.0f, 1.0f, 0.0f},
        {1.5f, 2.0f, -3.0f},
        {-0x1p-100f, 0x1p-100f, 0.0f},
        {INFINITY, 0, 1},
        {INFINITY, 1, -INFINITY},
        {INFINITY, -1, 3}};
    for (size_t i = 0; i < sizeof hard / sizeof *hard; i++)
        for (int lane = 0; lane < VL; lane++) {
            vf a = {1, 1, 1, 1}, b = {2, 2, 2, 2}, c = {3, 3, 3, 3};
            a[lane] = hard[i][0], b[lane] = hard[i][1], c[lane] = hard[i][2];
            check_lanes(a, b, c);
        }
}
END_TEST

/* A random float with `bits` significant bits and an exponent in [low, low + range). */
static float draw(uint64_t *at, unsigned bits, int low, unsigned range)
{
    uint64_t r = iq_mix64(0x9e3779b97f4a7c15u * ++*at);
    uint32_t mantissa = (uint32_t)(r & 0x7fffff) & ~(0x7fffffu >> bits), sign = (uint32_t)(r >> 63) << 31;
    int e = low + (int)((r >> 32) % range) + 127;
    return iq_bits_f32(sign | (e > 0 ? (uint32_t)e << 23 : 0) | mantissa);
}

START_TEST(products_below_the_normal_numbers_are_rounded_once)
{
    uint64_t at = 1u << 30;
    uint32_t subnormal = 0;
    for (int i = 0; i < 400000; i++) {
        vf a, b, c;
        unsigned bits = (unsigned)i % 24;
        for (int l = 0; l < VL; l++) { /* products of 2^-157 to 2^-121; a third of the factors a subnormal */
            int low = i % 3 ? -80 : -140;
            a[l] = draw(&at, bits, low, 18);
            b[l] = draw(&at, 23 - bits, -157 - low, 19);
            c[l] = i % 2 ? draw(&at, 23, -152, 30) : i % 4 ? 0.0f : -0.0f;
        }
        vf got = v_fma(a, b, c);
        for (int l = 0; l < VL; l++) subnormal += got[l] != 0 && got[l] > -0x1p-126f && got[l] < 0x1p-126f;
        check_lanes(a, b, c);
    }
    ck_assert_uint_gt(subnormal, 400000);
}
END_TEST

START_TEST(few_bits_make_many_half_ways_and_all_are_right)
{
    uint64_t at = 0;
    for (int i = 0; i < 400000; i++) {
        vf a, b, c;
        unsigned bits = (unsigned)i % 24;
        int tiny = i % 3 == 0; /* results near and below 2^-126 */
        for (int l = 0; l < VL; l++) {
            a[l] = draw(&at, bits, tiny ? -70 : -14, 8);
            b[l] = draw(&at, 23 - bits, tiny ? -70 : -14, 8);
            c[l] = draw(&at, 23, tiny ? -135 : -4, 16);
        }
        check_lanes(a, b, c);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("fma");
    TCase *t = tcase_create("portable");
    tcase_set_timeout(t, 100);
    tcase_add_test(t, half_ways_that_the_first_rounding_makes_are_seen);
    tcase_add_test(t, products_below_the_normal_numbers_are_rounded_once);
    tcase_add_test(t, few_bits_make_many_half_ways_and_all_are_right);
    suite_add_tcase(s, t);
    return check_main(s);
}
