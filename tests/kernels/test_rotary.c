/* The rotary table against transformers, against long double, and against malformed specifications. */
#include "kernels/rotary.h"
#include "tests/kernels/rotary_vectors.h"

#include <check.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ck_assert tells the parent process of every call, which is slow in a loop of millions. */
#define EXPECT(holds, ...)                                                                                   \
    do {                                                                                                     \
        if (!(holds)) ck_abort_msg(__VA_ARGS__);                                                             \
    } while (0)

enum { VECTORS = sizeof vectors / sizeof *vectors };

START_TEST(frequencies_agree_with_transformers)
{
    double freq[IQ_ROTARY_DIMS_MAX / 2], attention;
    struct iq_err err = {0};
    for (int v = 0; v < VECTORS; v++) {
        EXPECT(iq_rotary_frequencies(&vectors[v].spec, 16, freq, &attention, &err) == IQ_OK, "%s: %s",
               vectors[v].name, err.text);
        EXPECT(fabs(attention - vectors[v].attention) <= 1e-12, "%s: attention %.17g", vectors[v].name,
               attention);
        for (uint32_t i = 0; i < vectors[v].spec.rotary / 2; i++) {
            double want = vectors[v].frequency[i];
            EXPECT(fabs(freq[i] - want) <= 1e-6 * want, "%s[%u]: %.9g, transformers %.9g", vectors[v].name, i,
                   freq[i], want);
        }
    }
}
END_TEST

/* Their angle is a float32 product of a float32 frequency: 2^-24 relative each, and pow's few ulp. */
START_TEST(cosines_and_sines_agree_with_transformers)
{
    enum { LONGEST = 1001 };
    for (int v = 0; v < VECTORS; v++) {
        uint32_t n = vectors[v].spec.rotary;
        float *table = malloc((size_t)LONGEST * n * sizeof *table);
        ck_assert_int_eq(iq_rotary_table(&vectors[v].spec, LONGEST, table, NULL, NULL), IQ_OK);
        for (size_t p = 0; p < sizeof vector_positions / sizeof *vector_positions; p++)
            for (uint32_t i = 0; i < n; i++) {
                double got = table[vector_positions[p] * n + i], want = vectors[v].table[p * n + i];
                double angle = vector_positions[p] * (double)vectors[v].frequency[i / 2];
                EXPECT(fabs(got - want) <= vectors[v].attention * (angle * 0x1p-21 + 0x1p-23),
                       "%s position %u, %u: %.9g, transformers %.9g", vectors[v].name, vector_positions[p], i,
                       got, want);
            }
        free(table);
    }
}
END_TEST

static const struct iq_rotary_spec smollm2 = {.kind = IQ_ROTARY_NONE, .rotary = 64, .base = 100000};

/* cosl and sinl see the rounded product in 64 bits; closer than 2^-40 to a boundary they don't decide. */
START_TEST(each_entry_is_the_float32_next_to_the_true_value)
{
    if (LDBL_MANT_DIG < 64) return;
    enum { POSITIONS = 20000 };
    double freq[32], attention;
    float *table = malloc(POSITIONS * 64 * sizeof *table);
    ck_assert_int_eq(iq_rotary_frequencies(&smollm2, POSITIONS, freq, &attention, NULL), IQ_OK);
    ck_assert_int_eq(iq_rotary_table(&smollm2, POSITIONS, table, NULL, NULL), IQ_OK);
    for (uint32_t p = 0; p < POSITIONS; p += 7)
        for (uint32_t i = 0; i < 32; i++) {
            long double angle = (long double)p * freq[i], want[2] = {cosl(angle), sinl(angle)};
            for (int k = 0; k < 2; k++) {
                float low = (float)(want[k] * (1 - 0x1p-40L)), high = (float)(want[k] * (1 + 0x1p-40L));
                float got = table[p * 64 + 2 * i + (uint32_t)k];
                EXPECT(got == low || got == high, "position %u pair %u: %a, want %La", p, i, (double)got,
                       want[k]);
            }
        }
    free(table);
}
END_TEST

START_TEST(a_frequency_is_the_double_next_to_the_true_power)
{
    double freq[32], attention;
    ck_assert_int_eq(iq_rotary_frequencies(&smollm2, 1, freq, &attention, NULL), IQ_OK);
    for (int i = 0; i < 32; i++) {
        long double want = expl(-logl(100000.0L) * (long double)i / 32);
        EXPECT(fabsl(freq[i] - want) <= want * 0x1.1p-53L, "%d: %a, want %La", i, freq[i], want);
    }
}
END_TEST

START_TEST(the_table_is_pinned)
{
    float table[128 * 64];
    struct iq_digest digest;
    char hex[IQ_DIGEST_HEX];
    ck_assert_int_eq(iq_rotary_table(&smollm2, 128, table, &digest, NULL), IQ_OK);
    iq_digest_hex(digest, hex);
    ck_assert_str_eq(hex, "b925458d0fd5d680eaa19c0d9c77793c");
    ck_assert(table[0] == 1.0f && table[1] == 0.0f && !signbit(table[1]));
}
END_TEST

START_TEST(a_longer_table_starts_with_the_shorter_one)
{
    float *a = malloc(64 * 300 * sizeof *a), *b = malloc(64 * 300 * sizeof *b);
    ck_assert_int_eq(iq_rotary_table(&smollm2, 300, a, NULL, NULL), IQ_OK);
    ck_assert_int_eq(iq_rotary_table(&smollm2, 100, b, NULL, NULL), IQ_OK);
    ck_assert(memcmp(a, b, 64 * 100 * sizeof *a) == 0);
    free(a);
    free(b);
}
END_TEST

START_TEST(explicit_factors_divide_the_frequencies)
{
    double factors[32], plain[32], divided[32], attention;
    for (int i = 0; i < 32; i++) factors[i] = 1 << i % 4;
    struct iq_rotary_spec s = smollm2;
    ck_assert_int_eq(iq_rotary_frequencies(&s, 1, plain, &attention, NULL), IQ_OK);
    s.freq_factors = factors;
    ck_assert_int_eq(iq_rotary_frequencies(&s, 1, divided, &attention, NULL), IQ_OK);
    for (int i = 0; i < 32; i++) ck_assert(divided[i] * factors[i] == plain[i]);
}
END_TEST

START_TEST(length_alone_decides_where_transformers_asks_the_longest_sequence)
{
    double a[32], b[32], c[32], attention;
    struct iq_rotary_spec s = {
        .kind = IQ_ROTARY_DYNAMIC, .rotary = 64, .base = 10000, .factor = 4, .context = 2048, .length = 6000};
    ck_assert_int_eq(iq_rotary_frequencies(&s, 10, a, &attention, NULL), IQ_OK);
    ck_assert_int_eq(iq_rotary_frequencies(&s, 9000, b, &attention, NULL), IQ_OK);
    ck_assert(memcmp(a, b, sizeof a) == 0);
    s.length = 0;
    ck_assert_int_eq(iq_rotary_frequencies(&s, 9000, c, &attention, NULL), IQ_OK);
    ck_assert(a[31] != c[31]);
}
END_TEST

static const double zeros[32];
static const double not_a_number[32] = {NAN};

static const struct {
    struct iq_rotary_spec spec;
    const char *names; /* what the sentence must name */
} malformed[] = {
    {{.kind = 99, .rotary = 64, .base = 1e4}, "kind 99"},
    {{.rotary = 0, .base = 1e4}, "0 rotary dimensions"},
    {{.rotary = 63, .base = 1e4}, "63 rotary dimensions"},
    {{.rotary = 1u << 31, .base = 1e4}, "2147483648 rotary dimensions"},
    {{.rotary = 64, .base = 0}, "rope_theta 0"},
    {{.rotary = 64, .base = -1}, "rope_theta -1"},
    {{.rotary = 64, .base = NAN}, "rope_theta nan"},
    {{.rotary = 64, .base = INFINITY}, "rope_theta inf"},
    {{.rotary = 64, .base = 1e-2, .freq_factors = zeros}, "freq_factors[0]: found 0"},
    {{.rotary = 64, .base = 1e-2, .freq_factors = not_a_number}, "freq_factors[0]: found nan"},
    {{.rotary = 64, .base = 2e-3}, "radians"},
    {{.kind = IQ_ROTARY_LINEAR, .rotary = 64, .base = 1e4}, "factor 0"},
    {{.kind = IQ_ROTARY_LINEAR, .rotary = 64, .base = 1e4, .factor = NAN}, "factor nan"},
    {{.kind = IQ_ROTARY_LINEAR, .rotary = 64, .base = 1e4, .factor = 1e-9}, "radians"},
    {{.kind = IQ_ROTARY_DYNAMIC, .rotary = 64, .base = 1e4, .factor = 4}, "max_position_embeddings"},
    {{.kind = IQ_ROTARY_DYNAMIC, .rotary = 2, .base = 1e4, .factor = 4, .context = 4, .length = 9},
     "dimensions 2"},
    {{.kind = IQ_ROTARY_YARN, .rotary = 64, .base = 1e4, .factor = 4}, "original_max_position_embeddings"},
    {{.kind = IQ_ROTARY_YARN, .rotary = 64, .base = 1, .factor = 4, .original_context = 64}, "rope_theta 1"},
    {{.kind = IQ_ROTARY_YARN, .rotary = 64, .base = 1e4, .original_context = 64}, "factor 0"},
    {{.kind = IQ_ROTARY_YARN,
      .rotary = 64,
      .base = 1e4,
      .factor = 4,
      .original_context = 64,
      .beta_fast = -3},
     "beta_fast -3"},
    {{.kind = IQ_ROTARY_YARN,
      .rotary = 64,
      .base = 1e4,
      .factor = 4,
      .original_context = 64,
      .attention_factor = -1},
     "attention factor -1"},
    {{.kind = IQ_ROTARY_LLAMA3,
      .rotary = 64,
      .base = 1e4,
      .factor = 8,
      .original_context = 64,
      .low_freq_factor = 4,
      .high_freq_factor = 4},
     "high_freq_factor 4"},
    {{.kind = IQ_ROTARY_LONGROPE, .rotary = 64, .base = 1e4, .factor = 8, .original_context = 64},
     "long_factor"},
    {{.kind = IQ_ROTARY_LONGROPE,
      .rotary = 64,
      .base = 1e4,
      .factor = 8,
      .original_context = 1,
      .short_factor = zeros,
      .long_factor = zeros},
     "original_max_position_embeddings 1"},
};

START_TEST(malformed_specifications_are_refused_by_name)
{
    float table[64];
    for (size_t i = 0; i < sizeof malformed / sizeof *malformed; i++) {
        struct iq_err err = {0};
        EXPECT(iq_rotary_table(&malformed[i].spec, 1, table, NULL, &err) == IQ_FORMAT, "row %zu is taken", i);
        EXPECT(strstr(err.text, malformed[i].names) != NULL, "row %zu: %s", i, err.text);
    }
    ck_assert_int_eq(iq_rotary_table(&smollm2, IQ_ROTARY_POSITIONS_MAX + 1, table, NULL, NULL), IQ_LIMIT);
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("rotary");
    TCase *tc = tcase_create("all");
    tcase_set_timeout(tc, 120);
    tcase_add_test(tc, frequencies_agree_with_transformers);
    tcase_add_test(tc, cosines_and_sines_agree_with_transformers);
    tcase_add_test(tc, each_entry_is_the_float32_next_to_the_true_value);
    tcase_add_test(tc, a_frequency_is_the_double_next_to_the_true_power);
    tcase_add_test(tc, the_table_is_pinned);
    tcase_add_test(tc, a_longer_table_starts_with_the_shorter_one);
    tcase_add_test(tc, explicit_factors_divide_the_frequencies);
    tcase_add_test(tc, length_alone_decides_where_transformers_asks_the_longest_sequence);
    tcase_add_test(tc, malformed_specifications_are_refused_by_name);
    suite_add_tcase(suite, tc);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
