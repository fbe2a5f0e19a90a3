/* Tables of an evaluation: what is counted where, from results that are made up. */
#include "harness/canary/eval.h"
#include "tests/check_main.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 64 };

static struct iq_err err;
static struct iq_prompt prompt[MOST];
static char id[MOST][40];
static struct iq_prompts prompts = {.prompt = prompt};
static struct iq_eval a, b;
static struct iq_eval_table table;

static void make(void)
{
    prompts.n = 0;
    for (struct iq_eval *e = &a; e; e = e == &a ? &b : NULL)
        *e = (struct iq_eval){.question = calloc(MOST, sizeof *e->question),
                              .token = calloc(MOST, sizeof *e->token)};
}

static void unmake(void)
{
    iq_eval_table_free(&table);
    iq_eval_close(&a);
    iq_eval_close(&b);
}

static void put_token(struct iq_eval *e, double nll, float margin, uint64_t logits)
{
    e->token[e->tokens++] = (struct iq_eval_token){nll, margin, {0, logits}};
    e->question[e->n - 1].tokens++;
}

/* A question of both models; its tokens follow. */
static void ask(const char *name, bool right, bool golden_right)
{
    snprintf(id[prompts.n], sizeof *id, "%s", name);
    prompt[prompts.n].id = id[prompts.n];
    prompts.n++;
    a.question[a.n++] = (struct iq_eval_question){.right = right, .first = a.tokens};
    b.question[b.n++] = (struct iq_eval_question){.right = golden_right, .first = b.tokens};
}

static void both(double nll, float margin)
{
    put_token(&a, nll, margin, 1);
    put_token(&b, nll, margin, 1);
}

static void make_table(const struct iq_eval *golden)
{
    ck_assert_msg(iq_eval_table(&prompts, &a, golden, &table, &err) == IQ_OK, "%s", err.text);
}

static const struct iq_eval_line *line(const char *task, int level)
{
    for (size_t i = 0; i < table.n; i++)
        if (!strcmp(table.line[i].task, task) && table.line[i].level == level) return &table.line[i];
    ck_abort_msg("no line %s %d", task, level);
    return NULL;
}

START_TEST(lines_are_tasks_as_they_come_with_their_levels_and_all_together)
{
    static const char *const names[] = {"sort.1.0", "copy.0.1", "sort.0.2", "sort.1.3",
                                        "q4",       "copy.x.5", ".1.1"};
    static const struct {
        const char *task;
        int level;
        uint32_t n;
    } want[] = {{"sort", IQ_EVAL_ALL, 3}, {"sort", 1, 2},   {"sort", 0, 1},  {"copy", IQ_EVAL_ALL, 1},
                {"copy", 0, 1},           {"other", -1, 3}, {"other", 0, 3}, {"", IQ_EVAL_ALL, 7}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) ask(names[i], i % 2 == 0, false), both(0, 0);
    make_table(NULL);
    ck_assert_uint_eq(table.n, sizeof want / sizeof *want);
    for (size_t i = 0; i < table.n; i++) {
        ck_assert_str_eq(table.line[i].task, want[i].task);
        ck_assert_int_eq(table.line[i].level, want[i].level);
        ck_assert_uint_eq(table.line[i].n, want[i].n);
        ck_assert_uint_eq(table.line[i].tokens, want[i].n);
    }
    ck_assert_uint_eq(line("sort", 1)->model.right, 1);
    ck_assert_uint_eq(line("", IQ_EVAL_ALL)->model.right, 4);
    ck_assert(line("", IQ_EVAL_ALL)->model.low < 4 / 7.0 && line("", IQ_EVAL_ALL)->model.high > 4 / 7.0);
}
END_TEST

START_TEST(an_id_that_is_no_task_level_and_number_is_of_no_task)
{
    static const char *const names[] = {
        "copy.0.",   "copy..1",      "copy.1",
        "copy.0.1x", "copy.0.1.2",   "copy",
        "",          "copy.10000.1", "a-name-of-all-thirty-two-characters.0.1"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) ask(names[i], true, false), both(0, 0);
    make_table(NULL);
    ck_assert_uint_eq(table.n, 3);
    ck_assert_uint_eq(line("other", 0)->n, sizeof names / sizeof *names);
}
END_TEST

START_TEST(means_medians_and_shares_are_of_tokens)
{
    ask("copy.0.0", true, false), both(1, 0.01F), both(2, 0.005F), both(6, 3);
    ask("copy.0.1", true, false), both(3, 0.5F);
    make_table(NULL);
    const struct iq_eval_score *s = &line("copy", 0)->model;
    ck_assert(s->nll == 3);
    ck_assert(s->margin == ((double)0.01F + 0.5) / 2);
    /* float 0.01 is just below 0.01 */
    ck_assert(s->below[0] == 0.5 && s->below[1] == 0.5 && s->below[2] == 0.75);
    both(0, 1);
    iq_eval_table_free(&table);
    make_table(NULL);
    s = &line("copy", 0)->model;
    ck_assert(s->margin == 0.5);
    ck_assert_msg(s->below[2] == 0.6, "a margin of 1 is not below 1");
}
END_TEST

START_TEST(a_margin_that_is_no_number_is_below_nothing_and_a_likelihood_that_is_none_shows)
{
    ask("copy.0.0", false, false), both(NAN, NAN), both(1, 0), both(1, 2);
    make_table(NULL);
    const struct iq_eval_score *s = &line("copy", 0)->model;
    ck_assert(isnan(s->nll) && s->margin == 2);
    ck_assert(s->below[2] == 1 / 3.0);
}
END_TEST

START_TEST(a_model_against_itself_differs_nowhere)
{
    ask("copy.0.0", true, true), both(1, 1), both(2, 2);
    make_table(&b);
    const struct iq_eval_line *l = line("", IQ_EVAL_ALL);
    ck_assert_uint_eq(l->changed + l->differ, 0);
    ck_assert(l->nll_shift == 0 && l->margin_shift == 0);
    ck_assert_uint_eq(table.question, UINT32_MAX);
    ck_assert_mem_eq(&l->model, &l->golden, sizeof l->model);
}
END_TEST

START_TEST(what_differs_from_golden_is_counted_by_question_and_the_first_token_is_named)
{
    ask("copy.0.0", true, true), both(1, 1);
    ask("copy.1.1", true, false), both(1, 1), put_token(&a, 2, 1, 7), put_token(&b, 1.5, 4, 8);
    put_token(&a, 1, 1, 7), put_token(&b, 1, 1, 8);
    ask("sort.0.2", false, true), both(1, 1);
    a.question[2].answer.lo = 5;
    make_table(&b);
    const struct iq_eval_line *l = line("", IQ_EVAL_ALL);
    ck_assert_uint_eq(table.question, 1);
    ck_assert_uint_eq(table.token, 1);
    ck_assert_uint_eq(l->changed, 1);
    ck_assert_uint_eq(l->differ, 1);
    ck_assert(l->nll_shift == 0.5 && l->margin_shift == 3);
    ck_assert_uint_eq(l->model.right, 2);
    ck_assert_uint_eq(l->golden.right, 2);
    ck_assert_uint_eq(line("sort", 0)->changed, 1);
    ck_assert_uint_eq(line("sort", 0)->differ, 0);
    ck_assert_uint_eq(line("copy", 1)->differ, 1);
    ck_assert_uint_eq(line("copy", 0)->differ, 0);
}
END_TEST

START_TEST(a_change_that_is_no_number_is_not_hidden_by_a_smaller_one)
{
    ask("copy.0.0", true, true);
    put_token(&a, NAN, 1, 1), put_token(&b, 1, 1, 1);
    both(1, 1);
    make_table(&b);
    ck_assert(isnan(line("", IQ_EVAL_ALL)->nll_shift));
}
END_TEST

START_TEST(other_tokens_are_not_compared)
{
    ask("copy.0.0", true, true), both(1, 1);
    b.asked.lo = 1;
    ck_assert_int_eq(iq_eval_table(&prompts, &a, &b, &table, &err), IQ_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "one tokenizer"));
    ck_assert_ptr_null(table.line);
}
END_TEST

START_TEST(an_answer_without_tokens_has_no_mean)
{
    ask("copy.0.0", true, true);
    make_table(&b);
    const struct iq_eval_line *l = line("", IQ_EVAL_ALL);
    ck_assert(l->n == 1 && l->tokens == 0 && l->model.nll == 0 && l->model.margin == 0);
    ck_assert_uint_eq(table.question, UINT32_MAX);
}
END_TEST

/* A near tie of `tokens` tokens, of which the model kept so many; its gap, golden's, and the recorded margin. */
static void ask_tie(uint32_t tokens, uint32_t kept, float gap, float golden_gap, float margin, bool same_bits)
{
    const uint32_t i = prompts.n;
    ask("cut.0.1", kept == tokens, true);
    for (uint32_t t = 0; t + 1 < tokens; t++) both(1, 1);
    put_token(&a, 1, 1, 1), put_token(&b, 1, 1, same_bits ? 1 : 2);
    for (uint32_t t = 0; t < tokens; t++) ck_assert_int_eq(iq_ids_put(&prompt[i].tie.ids, t, &err), IQ_OK);
    prompt[i].tie.margin = margin;
    a.question[i].kept = kept, a.question[i].gap = gap;
    b.question[i].kept = tokens, b.question[i].gap = golden_gap;
}

static void free_ties(void)
{
    for (uint32_t i = 0; i < prompts.n; i++) {
        iq_ids_free(&prompt[i].tie.ids);
        prompt[i] = (struct iq_prompt){0};
    }
}

static void count_ties(const struct iq_eval *golden, struct iq_eval_ties *out)
{
    ck_assert_int_eq(iq_eval_ties(&prompts, &a, golden, out, &err), IQ_OK);
}

START_TEST(near_ties_are_counted_by_what_became_of_them)
{
    struct iq_eval_ties n;
    ask("copy.0.0", true, true), both(1, 1); /* no near tie */
    ask_tie(1, 1, 0.25F, 0.25F, 0.25F, true);
    ask_tie(1, 0, -0.25F, 0.25F, 0.25F, false); /* flipped */
    ask_tie(3, 2, -0.5F, 0.25F, 0.25F, false);  /* flipped at a later token */
    ask_tie(3, 1, 0.75F, 0.25F, 0.25F, false);  /* another token before it */
    ask_tie(2, 2, 0.25F, 0.25F, 0.5F, false);   /* not what was recorded */
    count_ties(&b, &n);
    ck_assert_uint_eq(n.n, 5);
    ck_assert_uint_eq(n.recorded, 4);
    ck_assert_uint_eq(n.differ, 4);
    ck_assert_uint_eq(n.flips, 2);
    ck_assert_uint_eq(n.early, 1);
    ck_assert(n.median == 0.5 && n.most == 0.75 && n.largest == 0.75);
    count_ties(NULL, &n); /* from the recorded margins */
    ck_assert_uint_eq(n.recorded, 1);
    ck_assert_uint_eq(n.differ, 4);
    ck_assert_uint_eq(n.flips, 2);
    ck_assert(n.median == 0.5 && n.largest == 0.75);
    free_ties();
}
END_TEST

START_TEST(a_token_that_is_not_among_the_best_any_more_has_moved_most)
{
    struct iq_eval_ties n;
    for (int i = 0; i < 8; i++) ask_tie(1, 1, 1, 1, 1, true);
    ask_tie(1, 0, NAN, 1, 1, false);
    ask_tie(1, 0, -INFINITY, 1, 1, false);
    count_ties(&b, &n);
    ck_assert(n.median == 0 && isinf(n.most) && isinf(n.largest));
    ck_assert_uint_eq(n.differ, 2);
    free_ties();
}
END_TEST

START_TEST(no_near_ties_are_none)
{
    struct iq_eval_ties n;
    ask("copy.0.0", true, true), both(1, 1);
    count_ties(&b, &n);
    ck_assert(n.n == 0 && n.flips == 0 && n.median == 0 && n.most == 0 && n.largest == 0);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("eval");
    TCase *c = tcase_create("table");
    tcase_add_checked_fixture(c, make, unmake);
    tcase_add_test(c, lines_are_tasks_as_they_come_with_their_levels_and_all_together);
    tcase_add_test(c, an_id_that_is_no_task_level_and_number_is_of_no_task);
    tcase_add_test(c, means_medians_and_shares_are_of_tokens);
    tcase_add_test(c, a_margin_that_is_no_number_is_below_nothing_and_a_likelihood_that_is_none_shows);
    tcase_add_test(c, a_model_against_itself_differs_nowhere);
    tcase_add_test(c, what_differs_from_golden_is_counted_by_question_and_the_first_token_is_named);
    tcase_add_test(c, a_change_that_is_no_number_is_not_hidden_by_a_smaller_one);
    tcase_add_test(c, other_tokens_are_not_compared);
    tcase_add_test(c, an_answer_without_tokens_has_no_mean);
    tcase_add_test(c, near_ties_are_counted_by_what_became_of_them);
    tcase_add_test(c, a_token_that_is_not_among_the_best_any_more_has_moved_most);
    tcase_add_test(c, no_near_ties_are_none);
    suite_add_tcase(s, c);
    return check_main(s);
}
