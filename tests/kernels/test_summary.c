/* What is kept of a row of logits: the same with every instruction set, right against a plain sort and a double sum. */
#include "kernels/base/rng.h"
#include "kernels/cpu/features.h"
#include "kernels/summary.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 1000 };

static float row[MOST];

static void fill(uint64_t seed, uint32_t n, int kind)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t r = iq_draw(seed, i, IQ_DRAW_DATA);
        row[i] = kind == 0    ? (float)(r % 2001) / 100.0f - 10.0f /* ties */
                 : kind == 1  ? (float)(int64_t)(r >> 20) * 0x1p-38f - 32.0f
                 : r % 5 == 0 ? NAN
                 : r % 7 == 0 ? -INFINITY
                              : (float)(r % 97);
    }
}

static int first(const void *a, const void *b)
{
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    return row[i] != row[j] ? (row[i] < row[j]) - (row[i] > row[j]) : (i > j) - (i < j);
}

START_TEST(the_best_are_those_of_a_sort_and_the_tail_is_the_mass_outside_them)
{
    for (uint64_t seed = 0; seed < 200; seed++) {
        uint32_t n = 1 + (uint32_t)(iq_draw(seed, MOST, IQ_DRAW_DATA) % MOST), id[MOST];
        struct iq_position p = {0};
        fill(seed, n, (int)(seed % 2));
        for (uint32_t i = 0; i < n; i++) id[i] = i;
        qsort(id, n, sizeof *id, first);
        iq_logits_summary(row, n, &p);
        double all = 0, kept = 0;
        uint32_t top = n < IQ_TOP ? n : IQ_TOP;
        for (uint32_t i = 0; i < n; i++) all += exp((double)row[i] - (double)row[id[0]]);
        for (uint32_t i = 0; i < top; i++) {
            kept += exp((double)row[id[i]] - (double)row[id[0]]);
            ck_assert_msg(p.top_id[i] == id[i] && p.top_logit[i] == row[id[i]], "seed %d, rank %u", (int)seed,
                          i);
        }
        ck_assert_msg(fabs(p.tail - (1 - kept / all)) < 1e-5, "seed %d: %g", (int)seed, (double)p.tail);
        ck_assert(n == 1 || p.margin == row[id[0]] - row[id[1]]);
    }
}
END_TEST

START_TEST(every_instruction_set_gives_the_same_bits)
{
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint32_t n = 1 + (uint32_t)(iq_draw(seed, MOST, IQ_DRAW_DATA) % MOST);
        struct iq_position scalar = {0}, other = {0};
        fill(seed, n, (int)(seed % 3));
        iq__logits_summary_scalar(row, n, &scalar);
#if defined __x86_64__
        if (iq_cpu_has_avx2()) {
            iq__logits_summary_avx2(row, n, &other);
            ck_assert_mem_eq(&scalar, &other, sizeof other);
        }
        if (iq_cpu_has_avx512()) {
            memset(&other, 0, sizeof other);
            iq__logits_summary_avx512(row, n, &other);
            ck_assert_mem_eq(&scalar, &other, sizeof other);
        }
#endif
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("summary");
    TCase *t = tcase_create("logits");
    tcase_add_test(t, the_best_are_those_of_a_sort_and_the_tail_is_the_mass_outside_them);
    tcase_add_test(t, every_instruction_set_gives_the_same_bits);
    suite_add_tcase(s, t);
    return check_main(s);
}
