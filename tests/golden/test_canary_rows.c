/* Rows that the canary is trained on. */
#include "golden/canary/canary.h"
#include "kernels/base/digest.h"
#include "tests/check_main.h"
#include "tests/golden/canary_answer.h"

#include <string.h>

static struct iq_err err;
static struct iq_canary_row row;
static struct canary_walk w;

static struct iq_canary_mix usual(uint32_t length, bool far)
{
    struct iq_canary_mix mix = {.level = {1, 1, 1}, .length = length, .far = far};
    for (int t = 0; t < IQ_CANARY_TASKS; t++) mix.weight[t] = iq_canary_tasks[t].share;
    if (far) mix.weight[IQ_CANARY_LOOKUP] = 0;
    return mix;
}

static void pack(const struct iq_canary_mix *mix, uint64_t seed, uint64_t index, int split)
{
    int status = iq_canary_row(mix, seed, index, (enum iq_canary_split)split, &row, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
}

#define AT "length %u, far %d, seed %llu, index %llu, split %d: "
#define HERE(mix, seed, index, split)                                                                        \
    (mix)->length, (mix)->far, (unsigned long long)(seed), (unsigned long long)(index), split

/* Answers, split, loss and padding of the row at hand. */
static void check_row(const struct iq_canary_mix *mix, uint64_t seed, uint64_t index, int split)
{
    struct iq_buf text = IQ_BUF(1 << 16);
    uint32_t at = 0;
    ck_assert(row.n == mix->length && row.used <= row.n && row.n_spans > 0);
    for (uint32_t s = 0; s < row.n_spans; s++) {
        struct iq_canary_span span = row.span[s];
        ck_assert(span.start > at && span.end > span.start + 1 && span.end <= row.used);
        ck_assert(span.task < IQ_CANARY_TASKS && span.level < IQ_CANARY_LEVELS);
        for (; at < span.start; at++) ck_assert(!row.loss[at] && row.id[at] != IQ_CANARY_END);
        for (; at < span.end; at++)
            ck_assert(row.loss[at] && (row.id[at] == IQ_CANARY_END) == (at + 1 == span.end));
    }
    ck_assert_uint_eq(row.id[0], IQ_CANARY_BEGIN);
    ck_assert_uint_eq(at, row.used); /* nothing behind the last answer */
    for (; at < row.n; at++) ck_assert(!row.loss[at] && row.id[at] == IQ_CANARY_PAD);
    iq_canary_spell(row.id, row.used, &text);
    ck_assert_uint_eq(iq_canary_encode(text.data, text.len, NULL, 0), row.used);
    canary_walk(text.data, split, &w);
    ck_assert_msg(!w.why[0], AT "%s", HERE(mix, seed, index, split), w.why);
    ck_assert_msg(!w.open[0] && w.closed == row.n_spans && !w.others,
                  AT "%u answers in %u spans, %lu questions of another split", HERE(mix, seed, index, split),
                  w.closed, row.n_spans, w.others);
    iq_buf_free(&text);
}

START_TEST(every_answer_in_a_row_is_right_and_only_answers_are_to_be_predicted)
{
    static const uint32_t lengths[] = {128, 129, 256, 512, 1000, 2048};
    for (int far = 0; far < 2; far++)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
            struct iq_canary_mix mix = usual(lengths[i], far);
            for (uint64_t index = 0; index < 40; index++) {
                int split = index % 8 ? IQ_CANARY_TRAIN : IQ_CANARY_HELD_OUT;
                pack(&mix, 21, index, split);
                check_row(&mix, 21, index, split);
            }
        }
}
END_TEST

START_TEST(rows_of_one_task_alone_are_right_too)
{
    for (int t = 0; t < IQ_CANARY_TASKS; t++)
        for (int far = 0; far < 2; far++) {
            struct iq_canary_mix mix = {
                .level = {0, 0, 7}, .length = far ? IQ_CANARY_CONTEXT : 128, .far = far};
            if (t == IQ_CANARY_FAR || (far && t == IQ_CANARY_LOOKUP)) continue;
            mix.weight[t] = 1000000;
            pack(&mix, UINT64_MAX, UINT64_MAX, IQ_CANARY_VALIDATION);
            check_row(&mix, UINT64_MAX, UINT64_MAX, IQ_CANARY_VALIDATION);
            for (uint32_t s = 0; s < row.n_spans; s++)
                ck_assert(row.span[s].task == t || (far && row.span[s].task == IQ_CANARY_FAR));
        }
}
END_TEST

START_TEST(a_row_is_full_but_for_less_than_a_question)
{
    struct iq_canary_mix mix = usual(128, false);
    uint64_t used = 0, answers = 0, loss = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        pack(&mix, 4, i, IQ_CANARY_TRAIN);
        used += row.used;
        answers += row.n_spans;
        for (uint32_t k = 0; k < row.n; k++) loss += row.loss[k];
    }
    /* As the recipe has it: about seven questions a row, and 27 of 100 ids carry loss. */
    ck_assert_uint_ge(used, 118 * 1000);
    ck_assert_uint_ge(answers, 6 * 1000);
    ck_assert_uint_le(answers, 8 * 1000);
    ck_assert_uint_ge(loss, 30 * 1000);
    ck_assert_uint_le(loss, 45 * 1000);
}
END_TEST

START_TEST(long_rows_look_up_what_stands_far_back)
{
    struct iq_canary_mix mix = usual(IQ_CANARY_CONTEXT, true);
    size_t reach = 0;
    for (uint64_t i = 0; i < 20; i++) {
        pack(&mix, 6, i, IQ_CANARY_TRAIN);
        check_row(&mix, 6, i, IQ_CANARY_TRAIN);
        if (w.reach > reach) reach = w.reach;
        unsigned far = 0;
        for (uint32_t s = 0; s < row.n_spans; s++) far += row.span[s].task == IQ_CANARY_FAR;
        ck_assert(far >= 8 && far <= 26);
    }
    ck_assert_uint_ge(reach, 1900);
}
END_TEST

START_TEST(keys_of_a_table_differ_in_their_last_letters)
{
    struct iq_canary_mix mix = usual(IQ_CANARY_CONTEXT, false);
    unsigned tables = 0;
    for (uint64_t i = 0; i < 20; i++) {
        pack(&mix, 7, i, IQ_CANARY_TRAIN);
        for (uint32_t k = 0; k < row.used; k++) {
            bool seen[256] = {false};
            if (row.id[k] != 'K' || row.loss[k]) continue;
            tables++;
            for (; row.id[k] != ';'; k += 5) {
                ck_assert(!seen[row.id[k + 2]]);
                seen[row.id[k + 2]] = true;
            }
        }
    }
    ck_assert_uint_ge(tables, 100);
}
END_TEST

START_TEST(a_row_depends_on_its_seed_and_index_only)
{
    struct iq_canary_mix mix = usual(128, false), far = usual(512, true);
    static struct iq_canary_row first;
    pack(&mix, 9, 5, IQ_CANARY_TRAIN);
    first = row;
    pack(&far, 9, 4, IQ_CANARY_TRAIN);
    pack(&mix, 9, 5, IQ_CANARY_TRAIN);
    ck_assert_mem_eq(&first, &row, sizeof row);
    pack(&mix, 9, 6, IQ_CANARY_TRAIN);
    ck_assert_mem_ne(first.id, row.id, sizeof row.id);
    pack(&mix, 10, 5, IQ_CANARY_TRAIN);
    ck_assert_mem_ne(first.id, row.id, sizeof row.id);
    pack(&mix, 9, 5, IQ_CANARY_HELD_OUT);
    ck_assert_mem_ne(first.id, row.id, sizeof row.id);
}
END_TEST

/* ---- the recipe ---- */

START_TEST(every_step_of_the_recipe_has_2048_ids_and_rows_of_its_own)
{
    enum { STEPS = 9600 };
    unsigned far[2] = {0, 0}, lengths[4] = {0};
    struct iq_canary_step s;
    uint64_t next = 0;
    for (uint64_t i = 0; i < STEPS; i++) {
        ck_assert_int_eq(iq_canary_step(1, i, STEPS, &s, &err), IQ_OK);
        ck_assert_uint_eq(s.rows * s.mix.length, 2048);
        ck_assert(i == 0 || s.first >= next);
        ck_assert(s.mix.far == (s.mix.length != 128));
        ck_assert_uint_eq(s.mix.level[0], i < STEPS * 24 / 100 ? 5 : i < STEPS * 56 / 100 ? 3 : 2);
        far[i >= STEPS / 3] += s.mix.far;
        for (int k = 0; k < 4; k++) lengths[k] += s.mix.length == 256u << k;
        next = s.first + s.rows;
    }
    ck_assert_uint_eq(far[0], 0);
    ck_assert(far[1] > 1180 && far[1] < 1380); /* a fifth of 6,400; standard deviation 32 */
    for (int k = 0; k < 4; k++) ck_assert(lengths[k] > 255 && lengths[k] < 385);
}
END_TEST

START_TEST(every_other_step_of_an_encore_has_long_rows)
{
    enum { STEPS = 1000 };
    unsigned far = 0;
    struct iq_canary_step s;
    for (uint64_t i = STEPS; i < 2 * STEPS; i++) {
        ck_assert_int_eq(iq_canary_step(1, i, STEPS, &s, &err), IQ_OK);
        ck_assert_uint_eq(s.rows * s.mix.length, 2048);
        ck_assert_uint_eq(s.mix.level[0], 2);
        far += s.mix.far;
    }
    ck_assert(far > 420 && far < 580); /* standard deviation 16 */
}
END_TEST

START_TEST(the_rows_of_a_step_are_the_same_bytes_for_ever)
{
    struct iq_digest d[2] = {{0, 0}};
    char got[IQ_DIGEST_HEX];
    for (uint64_t i = 0; i < 100; i++) {
        struct iq_canary_step s;
        ck_assert_int_eq(iq_canary_step(1, i, 100, &s, &err), IQ_OK);
        for (uint32_t r = 0; r < s.rows; r++) {
            pack(&s.mix, 1, s.first + r, IQ_CANARY_TRAIN);
            d[1] = iq_digest_bytes(row.id, row.n * sizeof *row.id);
            d[0] = iq_digest_list(d, 2);
        }
    }
    iq_digest_hex(d[0], got);
    ck_assert_str_eq(got, "3dadec07b340c43dc1c3219fd8a55290");
}
END_TEST

/* ---- hostile parameters ---- */

static void refused(const struct iq_canary_mix *mix, int split, const char *want)
{
    err.text[0] = 0;
    ck_assert_int_eq(iq_canary_row(mix, 1, 1, (enum iq_canary_split)split, &row, &err), IQ_USAGE);
    ck_assert_msg(strstr(err.text, want), "found '%s', expected '%s' in it", err.text, want);
    ck_assert(!row.n && !row.used && !row.n_spans);
}

START_TEST(odd_mixes_are_refused_with_a_sentence)
{
    static const uint32_t lengths[] = {0, 1, IQ_CANARY_SHORTEST - 1, IQ_CANARY_CONTEXT + 1, UINT32_MAX};
    struct iq_canary_mix mix;
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        mix = usual(lengths[i], i % 2);
        refused(&mix, IQ_CANARY_TRAIN, "expected 128 to 2048 ids");
    }
    mix = usual(128, false);
    refused(&mix, IQ_CANARY_SPLITS, "split");
    refused(&mix, -1, "split");
    mix.weight[IQ_CANARY_COPY] = UINT32_MAX;
    refused(&mix, IQ_CANARY_TRAIN, "at most 1000000");
    mix = usual(128, false);
    mix.weight[IQ_CANARY_FAR] = 1;
    refused(&mix, IQ_CANARY_TRAIN, "far-lookup");
    mix = usual(128, true);
    mix.weight[IQ_CANARY_LOOKUP] = 1;
    refused(&mix, IQ_CANARY_TRAIN, "which has one table");
    mix = usual(128, false);
    mix.level[2] = 1000001;
    refused(&mix, IQ_CANARY_TRAIN, "level 2");
    memset(mix.level, 0, sizeof mix.level);
    refused(&mix, IQ_CANARY_TRAIN, "no level");
    mix = usual(128, false);
    memset(mix.weight, 0, sizeof mix.weight);
    refused(&mix, IQ_CANARY_TRAIN, "no task");
}
END_TEST

START_TEST(odd_steps_are_refused_with_a_sentence)
{
    static const uint64_t odd[][2] = {{0, 0}, {10, 5}, {11, 5}, {UINT64_MAX, UINT64_MAX}, {0, UINT64_MAX}};
    struct iq_canary_step s;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        ck_assert_int_eq(iq_canary_step(1, odd[i][0], odd[i][1], &s, &err), IQ_USAGE);
    ck_assert_int_eq(iq_canary_step(1, 0, 1, &s, &err), IQ_OK);
    ck_assert_int_eq(iq_canary_step(1, ((uint64_t)1 << 40) - 1, (uint64_t)1 << 40, &s, &err), IQ_OK);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_answer_in_a_row_is_right_and_only_answers_are_to_be_predicted);
    tcase_add_test(t, rows_of_one_task_alone_are_right_too);
    tcase_add_test(t, a_row_is_full_but_for_less_than_a_question);
    tcase_add_test(t, long_rows_look_up_what_stands_far_back);
    tcase_add_test(t, keys_of_a_table_differ_in_their_last_letters);
    tcase_add_test(t, a_row_depends_on_its_seed_and_index_only);
    tcase_add_test(t, every_step_of_the_recipe_has_2048_ids_and_rows_of_its_own);
    tcase_add_test(t, every_other_step_of_an_encore_has_long_rows);
    tcase_add_test(t, the_rows_of_a_step_are_the_same_bytes_for_ever);
    tcase_add_test(t, odd_mixes_are_refused_with_a_sentence);
    tcase_add_test(t, odd_steps_are_refused_with_a_sentence);
    Suite *s = suite_create("canary rows");
    suite_add_tcase(s, t);
    return check_main(s);
}
