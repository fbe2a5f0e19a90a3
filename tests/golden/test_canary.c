/* The canary's questions: right, the same for ever, apart by split. */
#include "golden/canary/canary.h"
#include "kernels/base/digest.h"
#include "kernels/base/json.h"
#include "tests/check_main.h"
#include "tests/golden/canary_answer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct iq_err err;

static void draw(int task, uint32_t level, uint64_t seed, uint64_t index, int split,
                 struct iq_canary_prompt *p)
{
    int status =
        iq_canary_draw((enum iq_canary_id)task, level, seed, index, (enum iq_canary_split)split, p, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
}

#define EACH_CELL(task, level)                                                                               \
    for (int task = 0; task < IQ_CANARY_TASKS; task++)                                                       \
        for (uint32_t level = 0; level < IQ_CANARY_LEVELS; level++)
#define AT "%s, level %u, seed %llu, index %llu, split %d: "
#define HERE(p, seed, index, split)                                                                          \
    iq_canary_tasks[(p)->task].name, (p)->level, (unsigned long long)(seed), (unsigned long long)(index),    \
        split

START_TEST(every_answer_is_what_a_second_reading_of_the_prompt_gives)
{
    static struct iq_canary_prompt p;
    static struct canary_walk w;
    int split = _i;
    EACH_CELL(task, level)
    for (uint64_t i = 0; i < (task == IQ_CANARY_FAR ? 6 : 400); i++) {
        draw(task, level, 11, i, split, &p);
        canary_walk(p.text, split, &w);
        ck_assert_msg(!w.why[0], AT "%s", HERE(&p, 11, i, split), w.why);
        ck_assert_msg(!strcmp(w.open, p.answer), AT "%s has %s, expected %s", HERE(&p, 11, i, split), p.text,
                      p.answer, w.open);
        ck_assert_msg(!w.others, AT "a question or table of another split", HERE(&p, 11, i, split));
        ck_assert_msg(iq_canary_split_of(p.text, strlen(p.text)) == (enum iq_canary_split)split,
                      AT "of another split", HERE(&p, 11, i, split));
        ck_assert_int_eq(p.text[0], iq_canary_tasks[task].letter);
    }
}
END_TEST

START_TEST(a_set_is_the_same_bytes_for_ever)
{
    static const char *const want[IQ_CANARY_SETS] = {[IQ_CANARY_SMOKE] = "fb8e879b1e86b4ee36428e4396760079",
                                                     [IQ_CANARY_GATE] = "0145fe8d645390951a826a2a374f1d97",
                                                     [IQ_CANARY_DEEP] = "fa11880df976fb2c6953fb2cdce7c826",
                                                     [IQ_CANARY_DIRECT] = "905ef968e80188f0617046864bf73dfc"};
    char got[IQ_DIGEST_HEX];
    struct iq_buf lines = IQ_BUF(1 << 24);
    int status =
        iq_canary_set_write(&iq_canary_sets[_i], IQ_CANARY_TASKS, 1, IQ_CANARY_HELD_OUT, &lines, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
    iq_digest_hex(iq_digest_bytes(lines.data, lines.len), got);
    ck_assert_msg(!strcmp(got, want[_i]), "%s: found %s, expected %s: shipped prompts have changed",
                  iq_canary_sets[_i].name, got, want[_i]);
    iq_buf_free(&lines);
}
END_TEST

/* ---- odd prompts ---- */

START_TEST(odd_prompts_are_the_same_bytes_for_ever)
{
    static const char *const want[IQ_CANARY_ODDS] = {
        [IQ_CANARY_ODD_CUT] = "5ba93ea66a603b4dd36e1baef6b3cbfd",
        [IQ_CANARY_ODD_SPLICED] = "efe21b97af778d96b670b090a581e987",
        [IQ_CANARY_ODD_NO_KEY] = "8825c929e5265220f0318a3fb77fc23a",
        [IQ_CANARY_ODD_SEPARATORS] = "c901531ed8fec774294d0ca6c74f5a0e",
        [IQ_CANARY_ODD_LETTERS] = "e81ba7d65eb265a090632d5fbb6d8d07",
        [IQ_CANARY_ODD_IDS] = "609e51faf8395ed1343ab5cef5bd2036"};
    char got[IQ_DIGEST_HEX];
    struct iq_buf all = IQ_BUF(1 << 20);
    uint32_t ids[IQ_CANARY_ODD_LONGEST];
    for (uint64_t i = 0; i < 100; i++) {
        const size_t before = all.len;
        if (_i == IQ_CANARY_ODD_IDS) {
            uint32_t n = iq_canary_odd_ids(5, i, 300, ids);
            ck_assert(n >= 3 && n <= IQ_CANARY_ODD_LONGEST);
            for (uint32_t k = 0; k < n; k++) ck_assert_uint_lt(ids[k], 300);
            iq_buf_put(&all, ids, n * sizeof *ids);
            continue;
        }
        ck_assert_int_eq(iq_canary_odd_text((enum iq_canary_odd)_i, 5, i, &all, &err), IQ_OK);
        ck_assert_uint_ge(all.len - before, 2);
    }
    iq_digest_hex(iq_digest_bytes(all.data, all.len), got);
    ck_assert_msg(!strcmp(got, want[_i]), "%s: found %s, expected %s", iq_canary_odd_kinds[_i].name, got,
                  want[_i]);
    iq_buf_free(&all);
}
END_TEST

START_TEST(a_key_that_is_asked_for_in_vain_is_not_in_the_table)
{
    for (uint64_t i = 0; i < 300; i++) {
        struct iq_buf b = IQ_BUF(1 << 12);
        ck_assert_int_eq(iq_canary_odd_text(IQ_CANARY_ODD_NO_KEY, 1, i, &b, &err), IQ_OK);
        const char *ask = strchr(b.data, '?');
        ck_assert(b.data[0] == 'K' && ask && strlen(ask) == 3);
        for (const char *key = b.data + 1; key < ask; key += 5)
            ck_assert_msg(strncmp(key, ask + 1, 2), "%s", b.data);
        iq_buf_free(&b);
    }
}
END_TEST

START_TEST(a_front_is_whole_questions_with_their_answers)
{
    static struct canary_walk w;
    for (uint64_t i = 0; i < 100; i++) {
        struct iq_buf b = IQ_BUF(1 << 12);
        ck_assert_int_eq(iq_canary_odd_front(1, i, &b, &err), IQ_OK);
        const size_t end = sizeof IQ_CANARY_END_TEXT - 1;
        ck_assert(b.len > 40 && !memcmp(b.data + b.len - end, IQ_CANARY_END_TEXT, end));
        canary_walk(b.data, IQ_CANARY_HELD_OUT, &w);
        ck_assert_msg(!w.why[0], "%s: %s", b.data, w.why);
        iq_buf_free(&b);
    }
}
END_TEST

START_TEST(kinds_that_are_no_text_are_refused)
{
    struct iq_buf b = IQ_BUF(1 << 12);
    ck_assert_int_eq(iq_canary_odd_text(IQ_CANARY_ODD_IDS, 1, 0, &b, &err), IQ_USAGE);
    ck_assert_int_eq(iq_canary_odd_text(IQ_CANARY_ODDS, 1, 0, &b, &err), IQ_USAGE);
    ck_assert_int_eq(iq_canary_odd_text((enum iq_canary_odd) - 1, 1, 0, &b, &err), IQ_USAGE);
    iq_buf_free(&b);
}
END_TEST

/* ---- splits ---- */

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(struct iq_digest)); }

enum { MANY = 1500 };

/* The digests of MANY questions of a cell, ascending. Train has other seeds than the rest. */
static void digests(int task, uint32_t level, int split, struct iq_digest *out)
{
    static struct iq_canary_prompt p;
    for (uint64_t i = 0; i < MANY; i++) {
        draw(task, level, 3 + (uint64_t)split, i, split, &p);
        out[i] = iq_digest_bytes(p.text, strlen(p.text));
    }
    qsort(out, MANY, sizeof *out, by_bytes);
}

START_TEST(splits_share_no_question_whatever_the_seeds)
{
    static struct iq_digest d[IQ_CANARY_SPLITS][MANY];
    EACH_CELL(task, level)
    {
        if (task == IQ_CANARY_FAR) continue; /* its questions and tables are judged one by one above */
        for (int s = 0; s < IQ_CANARY_SPLITS; s++) digests(task, level, s, d[s]);
        for (int s = 0; s < IQ_CANARY_SPLITS; s++)
            for (int other = 0; other < s; other++)
                for (int i = 0; i < MANY; i++)
                    ck_assert_msg(!bsearch(&d[s][i], d[other], MANY, sizeof *d[other], by_bytes),
                                  "%s, level %u: splits %d and %d share a question",
                                  iq_canary_tasks[task].name, level, other, s);
    }
}
END_TEST

START_TEST(a_split_has_the_share_of_questions_that_is_written_down)
{
    unsigned n[IQ_CANARY_SPLITS] = {0};
    char text[16];
    for (int i = 0; i < 160000; i++)
        n[iq_canary_split_of(text, (size_t)snprintf(text, sizeof text, "C%d=", i))]++;
    /* 10,000 expected, standard deviation 97 */
    ck_assert_uint_ge(n[IQ_CANARY_HELD_OUT], 9500);
    ck_assert_uint_le(n[IQ_CANARY_HELD_OUT], 10500);
    ck_assert_uint_ge(n[IQ_CANARY_VALIDATION], 9500);
    ck_assert_uint_le(n[IQ_CANARY_VALIDATION], 10500);
}
END_TEST

START_TEST(a_table_is_in_one_split_whatever_is_asked_of_it)
{
    static struct iq_canary_prompt p;
    draw(IQ_CANARY_LOOKUP, 0, 1, 0, IQ_CANARY_HELD_OUT, &p);
    size_t n = strlen(p.text);
    for (char c = 'a'; c <= 'z'; c++) {
        p.text[n - 1] = c;
        ck_assert_int_eq(iq_canary_split_of(p.text, n), IQ_CANARY_HELD_OUT);
    }
    ck_assert_int_eq(iq_canary_split_of(p.text, n - 3), IQ_CANARY_HELD_OUT);
    iq_canary_split_of("", 0);
    iq_canary_split_of("K", 1);
}
END_TEST

/* ---- lengths ---- */

START_TEST(no_prompt_is_longer_than_declared_and_some_are_as_long)
{
    static struct iq_canary_prompt p;
    for (int task = 0; task < IQ_CANARY_TASKS; task++) {
        const struct iq_canary_task *t = &iq_canary_tasks[task];
        uint32_t most = 0;
        size_t answer = 0;
        for (uint64_t i = 0; i < (task == IQ_CANARY_FAR ? 150 : 3000); i++) {
            draw(task, IQ_CANARY_LEVELS - 1, 5, i, IQ_CANARY_TRAIN, &p);
            if (p.ids > most) most = p.ids;
            if (strlen(p.answer) > answer) answer = strlen(p.answer);
        }
        ck_assert_msg(most == t->longest_prompt && answer == t->longest_answer,
                      "%s: found a prompt of %u ids and an answer of %zu bytes; declared %u and %u", t->name,
                      most, answer, t->longest_prompt, t->longest_answer);
    }
}
END_TEST

START_TEST(a_far_look_up_asks_for_what_stands_at_its_front)
{
    static const uint32_t ids[] = {400, 1000, 2040};
    static struct iq_canary_prompt p;
    static struct canary_walk w;
    for (uint32_t level = 0; level < IQ_CANARY_LEVELS; level++)
        for (uint64_t i = 0; i < 20; i++) {
            draw(IQ_CANARY_FAR, level, 2, i, IQ_CANARY_HELD_OUT, &p);
            canary_walk(p.text, IQ_CANARY_HELD_OUT, &w);
            ck_assert_uint_le(p.ids, ids[level]);
            ck_assert_uint_ge(p.ids, ids[level] - 45); /* less than the longest block */
            ck_assert_uint_eq(w.reach, strlen(p.text) - 3);
        }
}
END_TEST

START_TEST(text_and_ids_are_two_spellings_of_one_prompt)
{
    static struct iq_canary_prompt p;
    static uint32_t id[IQ_CANARY_CONTEXT];
    EACH_CELL(task, level)
    {
        struct iq_buf text = IQ_BUF(IQ_CANARY_TEXT);
        draw(task, level, 1, 0, IQ_CANARY_TRAIN, &p);
        size_t n = iq_canary_encode(p.text, strlen(p.text), id, IQ_CANARY_CONTEXT);
        ck_assert_uint_eq(n, p.ids);
        ck_assert_uint_eq(id[0], IQ_CANARY_BEGIN);
        iq_canary_spell(id, n, &text);
        ck_assert_str_eq(text.data, p.text);
        iq_buf_free(&text);
    }
    ck_assert_uint_eq(iq_canary_encode("a<<|end|>", 9, id, 2), 4); /* and writes two */
    ck_assert_uint_eq(iq_canary_encode("\xff<|end|>", 8, id, 8), 3);
    ck_assert(id[1] == 255 && id[2] == IQ_CANARY_END);
    ck_assert_uint_eq(iq_canary_encode("", 0, NULL, 0), 1);
}
END_TEST

/* ---- sets ---- */

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

START_TEST(a_set_asks_no_question_twice_and_leaves_no_task_out)
{
    static char *prompt[1 << 14];
    unsigned cells[IQ_CANARY_TASKS] = {0}, n = 0;
    struct iq_buf lines = IQ_BUF(1 << 24);
    const struct iq_canary_set *set = &iq_canary_sets[_i];
    ck_assert_int_eq(iq_canary_set_write(set, IQ_CANARY_TASKS, 8, IQ_CANARY_VALIDATION, &lines, &err), IQ_OK);
    for (char *line = lines.data, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *text, *expect;
        cJSON *json;
        ck_assert_msg(iq_json_parse(line, (size_t)(end - line), "line", &json, &err) == IQ_OK, "%s",
                      err.text);
        ck_assert_int_eq(iq_json_str(json, "prompt", "line", &text, &err), IQ_OK);
        ck_assert_int_eq(iq_json_str(json, "expect", "line", &expect, &err), IQ_OK);
        ck_assert_ptr_nonnull(prompt[n++] = strdup(text));
        for (int t = 0; t < IQ_CANARY_TASKS; t++) cells[t] += iq_canary_tasks[t].letter == *text;
        ck_assert_uint_lt(n, 1 << 14);
        iq_json_free(json);
    }
    qsort(prompt, n, sizeof *prompt, by_text);
    for (unsigned i = 1; i < n; i++) ck_assert_str_ne(prompt[i - 1], prompt[i]);
    for (int t = 0; t < IQ_CANARY_TASKS; t++)
        ck_assert_msg((cells[t] > 0) == (iq_canary_tasks[t].gated == set->gated), "%s: %u questions",
                      iq_canary_tasks[t].name, cells[t]);
    while (n) free(prompt[--n]);
    iq_buf_free(&lines);
}
END_TEST

START_TEST(other_seeds_and_indices_give_other_questions)
{
    static struct iq_canary_prompt a, b;
    EACH_CELL(task, level)
    {
        draw(task, level, UINT64_MAX, UINT64_MAX, IQ_CANARY_TRAIN, &a);
        unsigned same[2] = {0, 0};
        for (uint64_t i = 0; i < 8; i++) {
            draw(task, level, UINT64_MAX, i, IQ_CANARY_TRAIN, &b);
            same[0] += !strcmp(a.text, b.text);
            draw(task, level, i, UINT64_MAX, IQ_CANARY_TRAIN, &b);
            same[1] += !strcmp(a.text, b.text);
        }
        ck_assert_uint_le(same[0], 2); /* the smallest task has 300 questions */
        ck_assert_uint_le(same[1], 2);
    }
}
END_TEST

/* ---- hostile parameters ---- */

START_TEST(parameters_out_of_range_are_refused_with_a_sentence)
{
    static struct iq_canary_prompt p;
    static const struct {
        int task;
        uint32_t level;
        int split;
    } odd[] = {
        {-1, 0, 0}, {IQ_CANARY_TASKS, 0, 0}, {1 << 30, 0, 0}, {0, IQ_CANARY_LEVELS, 0}, {0, UINT32_MAX, 0},
        {0, 0, -1}, {0, 0, IQ_CANARY_SPLITS}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        err.text[0] = 0;
        ck_assert_int_eq(iq_canary_draw((enum iq_canary_id)odd[i].task, odd[i].level, 1, 1,
                                        (enum iq_canary_split)odd[i].split, &p, &err),
                         IQ_USAGE);
        ck_assert(strstr(err.text, "expected") && !p.text[0] && !p.answer[0]);
    }
}
END_TEST

START_TEST(a_set_refuses_a_task_that_it_lacks_and_a_buffer_that_is_full)
{
    struct iq_buf lines = IQ_BUF(1 << 20), little = IQ_BUF(100);
    const struct iq_canary_set *gate = &iq_canary_sets[IQ_CANARY_GATE];
    ck_assert_int_eq(iq_canary_set_write(gate, IQ_CANARY_ADD_DIRECT, 1, IQ_CANARY_TRAIN, &lines, &err),
                     IQ_USAGE);
    ck_assert_int_eq(iq_canary_set_write(gate, (enum iq_canary_id)77, 1, IQ_CANARY_TRAIN, &lines, &err),
                     IQ_USAGE);
    ck_assert_int_eq(iq_canary_set_write(gate, IQ_CANARY_COPY, 1, (enum iq_canary_split)9, &lines, &err),
                     IQ_USAGE);
    ck_assert_int_eq(iq_canary_set_write(gate, IQ_CANARY_COPY, 1, IQ_CANARY_TRAIN, &little, &err), IQ_MEMORY);
    iq_buf_free(&lines);
    iq_buf_free(&little);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("canary");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, every_answer_is_what_a_second_reading_of_the_prompt_gives, 0, IQ_CANARY_SPLITS);
    tcase_add_loop_test(t, a_set_is_the_same_bytes_for_ever, 0, IQ_CANARY_SETS);
    tcase_add_loop_test(t, odd_prompts_are_the_same_bytes_for_ever, 0, IQ_CANARY_ODDS);
    tcase_add_test(t, a_key_that_is_asked_for_in_vain_is_not_in_the_table);
    tcase_add_test(t, a_front_is_whole_questions_with_their_answers);
    tcase_add_test(t, kinds_that_are_no_text_are_refused);
    tcase_add_test(t, splits_share_no_question_whatever_the_seeds);
    tcase_add_test(t, a_split_has_the_share_of_questions_that_is_written_down);
    tcase_add_test(t, a_table_is_in_one_split_whatever_is_asked_of_it);
    tcase_add_test(t, no_prompt_is_longer_than_declared_and_some_are_as_long);
    tcase_add_test(t, a_far_look_up_asks_for_what_stands_at_its_front);
    tcase_add_test(t, text_and_ids_are_two_spellings_of_one_prompt);
    tcase_add_loop_test(t, a_set_asks_no_question_twice_and_leaves_no_task_out, 0, IQ_CANARY_SETS);
    tcase_add_test(t, other_seeds_and_indices_give_other_questions);
    tcase_add_test(t, parameters_out_of_range_are_refused_with_a_sentence);
    tcase_add_test(t, a_set_refuses_a_task_that_it_lacks_and_a_buffer_that_is_full);
    Suite *s = suite_create("canary");
    suite_add_tcase(s, t);
    return check_main(s);
}
