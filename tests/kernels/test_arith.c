/* kernels/arith.h but for the rounding of exp, log, sin, cos and tanh, which tests/exhaustive/prove_math.c counts. */
#include "kernels/arith.h"
#include "kernels/base/digest.h"
#include "kernels/base/rng.h"
#include "tests/exhaustive/vector_forms.h"

#include <check.h>
#include <stdlib.h>

/* ck_assert tells the parent process of every call, which is slow in a loop of millions. */
#define EXPECT(holds, ...)                                                                                   \
    do {                                                                                                     \
        if (!(holds)) ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

enum { N = 4096 };

/* Bits of every kind: any pattern, or one of the odd values. */
static float odd_float(uint64_t i)
{
    static const uint32_t odd[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff, 0x00800000,
                                   0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0xffc00001,
                                   0x7f800001, 0x477fefff, 0x477ff000, 0x33000000, 0x33000001, 0x387fffff};
    uint64_t draw = iq_mix64(i * 0x9e3779b97f4a7c15u + 1);
    if (draw % 4 == 0) return iq_bits_f32(odd[(draw >> 8) % (sizeof odd / sizeof *odd)]);
    if (draw % 4 == 1)
        return iq_bits_f32((uint32_t)(draw >> 32) % 0x20000000u + 0x30000000u); /* 2^-31 to 2^33 */
    return iq_bits_f32((uint32_t)(draw >> 32));
}

START_TEST(bf16_rounds_to_the_nearest_and_ties_to_even)
{
    for (uint64_t i = 0; i < 1u << 22; i++) {
        uint32_t u = (uint32_t)(i * 1021u);
        float f = iq_bits_f32(u);
        uint16_t got = iq_f32_to_bf16(f);
        if (f != f) {
            EXPECT(got == 0x7fff, "%08x", u);
            continue;
        }
        /* As numbers, with 2^128 in infinity's place: the two candidates are what truncation leaves and its neighbour. */
        uint32_t low = u >> 16;
        double down = iq_bits_f32(low << 16),
               up = (low & 0x7fff) == 0x7f7f ? 0x1p128 : fabs(iq_bits_f32((low + 1) << 16));
        double below = fabs((double)f) - fabs(down), above = up - fabs((double)f);
        uint32_t want = isinf(f) || below < above ? low : below > above ? low + 1 : low + (low & 1);
        EXPECT(got == want, "%a: got %04x, want %04x", (double)f, got, want);
    }
}
END_TEST

START_TEST(sixteen_bit_floats_survive_the_way_to_float32_and_back)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float b = iq_bf16_to_f32((uint16_t)h), f = iq_f16_to_f32((uint16_t)h);
        if (b != b) EXPECT(iq_f32_bits(b) == IQ_NAN_BITS, "bf16 %04x", h);
        if (f != f) EXPECT(iq_f32_bits(f) == IQ_NAN_BITS, "f16 %04x", h);
        EXPECT(iq_f32_to_bf16(b) == (b != b ? 0x7fff : h), "bf16 %04x", h);
        EXPECT(iq_f32_to_f16(f) == (f != f ? 0x7fff : h), "f16 %04x", h);
    }
    ck_assert(iq_f16_to_f32(0x0001) == 0x1p-24f && iq_f16_to_f32(0x7bff) == 65504.0f &&
              iq_f16_to_f32(0xc000) == -2.0f);
}
END_TEST

START_TEST(f16_rounds_to_the_nearest_and_ties_to_even)
{
    /* Every float16, the middle to the next one, and the float32 on both sides of that middle. */
    for (uint32_t h = 0; h < 0x7c00; h++)
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            double next = h == 0x7bff ? 0x1p16 : iq_f16_to_f32((uint16_t)(h + 1));
            float middle = (float)((iq_f16_to_f32((uint16_t)h) + next) / 2);
            uint32_t u = iq_f32_bits(middle) | sign << 16;
            EXPECT(iq_f32_to_f16(iq_bits_f32(u)) == (sign | (h + (h & 1))), "middle %08x", u);
            EXPECT(iq_f32_to_f16(iq_bits_f32(u - 1)) == (sign | h), "below the middle %08x", u);
            EXPECT(iq_f32_to_f16(iq_bits_f32(u + 1)) == (sign | (h + 1)), "above the middle %08x", u);
        }
    ck_assert_uint_eq(iq_f32_to_f16(iq_bits_f32(0x7f800001)), 0x7fff);
    ck_assert_uint_eq(iq_f32_to_f16(-3e38f), 0xfc00);
}
END_TEST

START_TEST(a_rounded_activation_is_a_fixed_point_and_nan_is_canonical)
{
    for (uint32_t act = IQ_ACT_F32; act <= IQ_ACT_F16; act++)
        for (uint64_t i = 0; i < 100000; i++) {
            float f = odd_float(i), once = iq_act_round(f, act), twice = iq_act_round(once, act);
            EXPECT(iq_f32_bits(once) == iq_f32_bits(twice), "act %u of %a", act, (double)f);
            EXPECT(f == f || iq_f32_bits(once) == IQ_NAN_BITS, "act %u of %08x", act, iq_f32_bits(f));
        }
}
END_TEST

START_TEST(maximum_of_a_set_does_not_depend_on_its_order)
{
    for (uint64_t i = 0; i < 20000; i++) {
        float a = odd_float(3 * i), b = odd_float(3 * i + 1), c = odd_float(3 * i + 2);
        uint32_t want = iq_f32_bits(iq_max(iq_max(a, b), c));
        EXPECT(iq_f32_bits(iq_max(iq_max(c, b), a)) == want, "%a %a %a", (double)a, (double)b, (double)c);
        EXPECT(iq_f32_bits(iq_max(b, iq_max(a, c))) == want, "%a %a %a", (double)a, (double)b, (double)c);
        bool nan = a != a || b != b || c != c;
        EXPECT(!nan || want == IQ_NAN_BITS, "%08x", want);
    }
    ck_assert_uint_eq(iq_f32_bits(iq_max(-0.0f, 0.0f)), 0);
    ck_assert_uint_eq(iq_f32_bits(iq_max(-0.0f, -0.0f)), 0x80000000);
    ck_assert(iq_max(-1.0f, 2.0f) == 2.0f && iq_max(2.0f, -1.0f) == 2.0f);
}
END_TEST

START_TEST(lanes_fold_by_halves)
{
    /* 2^24 + 1 + 1 shows the order: lanes 0 and 16 first, then with 8 and 24. */
    float lane[IQ_VECTOR_LANES] = {0};
    lane[0] = 0x1p24f;
    lane[8] = lane[24] = 1.0f;
    ck_assert(iq_fold32(lane) == 0x1p24f + 2.0f);
    memset(lane, 0, sizeof lane);
    lane[0] = 0x1p24f;
    lane[8] = lane[16] = 1.0f;
    ck_assert(iq_fold32(lane) == 0x1p24f);
    for (int i = 0; i < IQ_VECTOR_LANES; i++) lane[i] = (float)(i * i);
    ck_assert(iq_fold32(lane) == 10416.0f);
}
END_TEST

START_TEST(the_tree_gives_the_larger_half_to_the_left)
{
    ck_assert_uint_eq(iq_tree_left(2), 1);
    ck_assert_uint_eq(iq_tree_left(3), 2);
    ck_assert_uint_eq(iq_tree_left(7), 4);
    ck_assert_uint_eq(iq_tree_left(UINT32_MAX), 0x80000000);
}
END_TEST

START_TEST(vectors_give_the_bits_of_scalars)
{
    static float a[N], b[N], y[N];
    for (uint64_t round = 0; round < 64; round++) {
        for (uint64_t i = 0; i < N; i++) {
            a[i] = odd_float(round * N + i);
            b[i] = i % 5 ? odd_float(~(round * N + i)) : -a[i];
        }
        for (int k = 0; k < VECTOR_FORMS; k++) {
            const struct vector_forms *f = all_vector_forms[k];
            if (!vector_forms_usable(f)) continue;
            f->exp(a, y, N);
            for (int i = 0; i < N; i++)
                EXPECT(iq_f32_bits(y[i]) == iq_f32_bits(iq_exp(a[i])), "exp %s of %a", f->name, (double)a[i]);
            f->max(a, b, y, N);
            for (int i = 0; i < N; i++)
                EXPECT(iq_f32_bits(y[i]) == iq_f32_bits(iq_max(a[i], b[i])), "max %s of %a, %a", f->name,
                       (double)a[i], (double)b[i]);
            for (uint32_t act = IQ_ACT_F32; act <= IQ_ACT_F16; act++) {
                f->act_round(a, y, N, act);
                for (int i = 0; i < N; i++)
                    EXPECT(iq_f32_bits(y[i]) == iq_f32_bits(iq_act_round(a[i], act)), "act %u %s of %a", act,
                           f->name, (double)a[i]);
            }
        }
    }
}
END_TEST

START_TEST(the_double_exp_is_within_its_bound_and_pinned)
{
    static double value[N];
    long double worst = 0;
    for (uint32_t i = 0; i < 200000; i++) {
        double x = i % 2 ? -(double)i * 0x1.6p-8 : -(double)(float)(i * 1.7e-4);
        if (x < -708.0) continue;
        long double want = expl(x), error = fabsl(iq_exp_double(x) - want) / want;
        if (error > worst) worst = error;
    }
    EXPECT(worst < 0x1p-52L, "relative error %Lg", worst);
    ck_assert(iq_exp_double(0.0) == 1.0 && iq_exp_double(-0.0) == 1.0);
    ck_assert(iq_exp_double(-INFINITY) == 0.0 && iq_exp_double(NAN) == 0.0 && iq_exp_double(-708.5) == 0.0);
    for (int i = 0; i < N; i++) value[i] = iq_exp_double(-(double)((float)i * 0x1.3p-7f));
    char hex[IQ_DIGEST_HEX];
    iq_digest_hex(iq_digest_bytes(value, sizeof value), hex);
    ck_assert_str_eq(hex, "22dd0ccc49c52a79bc3e84168839bc57");
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("arith");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, bf16_rounds_to_the_nearest_and_ties_to_even);
    tcase_add_test(tc, sixteen_bit_floats_survive_the_way_to_float32_and_back);
    tcase_add_test(tc, f16_rounds_to_the_nearest_and_ties_to_even);
    tcase_add_test(tc, a_rounded_activation_is_a_fixed_point_and_nan_is_canonical);
    tcase_add_test(tc, maximum_of_a_set_does_not_depend_on_its_order);
    tcase_add_test(tc, lanes_fold_by_halves);
    tcase_add_test(tc, the_tree_gives_the_larger_half_to_the_left);
    tcase_add_test(tc, vectors_give_the_bits_of_scalars);
    tcase_add_test(tc, the_double_exp_is_within_its_bound_and_pinned);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
