/* draft, accept and rollback: the references and what their invariants refuse. */
#include "kernels/exec.h"
#include "kernels/ops/speculate.h"
#include "kernels/tables.h"
#include "tests/check_main.h"

#include <check.h>
#include <string.h>

enum { MOST = 8 };

static void run(const char *kind, const void *args)
{
    for (size_t i = 0; iq__variants_speculate[i]; i++)
        if (!strcmp(iq__variants_speculate[i]->kind, kind)) {
            ck_assert_int_eq(iq__variants_speculate[i]->run(&(struct iq_exec){0}, NULL, args, NULL, NULL),
                             IQ_OK);
            return;
        }
    ck_abort_msg("no kind %s", kind);
}

struct drafted {
    uint32_t n, id[MOST];
};

static struct drafted draft(const uint32_t *ids, uint32_t n, uint32_t wanted, const uint32_t *guess,
                            uint32_t guesses)
{
    struct drafted d = {.n = 77};
    struct iq_err err = {0};
    const struct iq_draft a = {.vocab = 100,
                               .tokens = n,
                               .wanted = wanted,
                               .longest = 3,
                               .ids = ids,
                               .guess = guess,
                               .guesses = guesses,
                               .drafts = &d.n,
                               .draft = d.id};
    run("draft", &a);
    ck_assert_msg(iq__kind_draft.check(&a, &err) == IQ_OK, "%s", err.text);
    for (uint32_t i = d.n; i < wanted; i++) ck_assert_uint_eq(d.id[i], UINT32_MAX);
    return d;
}

static void expect(struct drafted d, uint32_t n, const uint32_t *id)
{
    ck_assert_uint_eq(d.n, n);
    for (uint32_t i = 0; i < n; i++) ck_assert_uint_eq(d.id[i], id[i]);
}

START_TEST(a_draft_is_what_followed_the_longest_and_latest_place)
{
    static const uint32_t ids[] = {1, 2, 3, 40, 41, 9, 2, 3, 50, 51, 8, 3, 60, 61, 1, 2, 3};
    const uint32_t n = sizeof ids / sizeof *ids;
    expect(draft(ids, n, 2, NULL, 0), 2, (uint32_t[]){40, 41});            /* 1 2 3, not the later 2 3 or 3 */
    expect(draft(ids + 1, n - 1, 3, NULL, 0), 3, (uint32_t[]){50, 51, 8}); /* 2 3: the later of two places */
    expect(draft(ids, 13, 1, NULL, 0), 0, NULL);                           /* 60 stands nowhere else */
    expect(draft(ids, 12, 2, NULL, 0), 2, (uint32_t[]){50, 51});           /* 3 alone */
}
END_TEST

START_TEST(a_draft_goes_round_a_loop)
{
    static const uint32_t ids[] = {9, 5, 6, 7, 5, 6, 7, 5, 6};
    expect(draft(ids, 9, 7, NULL, 0), 7, (uint32_t[]){7, 5, 6, 7, 5, 6, 7});
    static const uint32_t same[] = {4, 4, 4, 4};
    expect(draft(same, 4, 5, NULL, 0), 5, (uint32_t[]){4, 4, 4, 4, 4});
    expect(draft(same, 2, 2, NULL, 0), 2, (uint32_t[]){4, 4});
}
END_TEST

START_TEST(too_few_ids_or_nothing_wanted_are_no_draft)
{
    static const uint32_t ids[] = {4, 4};
    expect(draft(ids, 1, 3, NULL, 0), 0, NULL);
    expect(draft(ids, 0, 3, NULL, 0), 0, NULL);
    expect(draft(ids, 2, 0, NULL, 0), 0, NULL);
}
END_TEST

START_TEST(a_models_guess_goes_before_what_stands_in_the_ids)
{
    static const uint32_t ids[] = {4, 4, 4}, guess[] = {11, 12, 13};
    expect(draft(ids, 3, 2, guess, 3), 2, (uint32_t[]){11, 12});
    expect(draft(ids, 3, 5, guess, 3), 3, guess);
    expect(draft(ids, 3, 5, guess, 0), 0, NULL);
}
END_TEST

START_TEST(drafts_are_accepted_as_far_as_they_were_chosen)
{
    static const uint32_t draft[] = {10, 11, 12};
    for (uint32_t same = 0; same <= 3; same++) {
        uint32_t chosen[4] = {10, 11, 12, 99}, accepted = 77;
        struct iq_err err = {0};
        const struct iq_accept a = {.drafts = 3, .draft = draft, .chosen = chosen, .accepted = &accepted};
        if (same < 3) chosen[same] = 50;
        run("accept", &a);
        ck_assert_uint_eq(accepted, same);
        for (uint32_t n = 0; n <= 4; n++) {
            accepted = n;
            ck_assert_int_eq(iq__kind_accept.check(&a, &err), n == same ? IQ_OK : IQ_MISMATCH);
        }
    }
}
END_TEST

START_TEST(what_is_valid_ends_with_the_last_accepted_draft)
{
    for (uint32_t accepted = 0; accepted <= 3; accepted++) {
        uint32_t valid = 0;
        struct iq_err err = {0};
        const struct iq_rollback a = {.drafts = 3, .accepted = accepted, .first = 40, .valid = &valid};
        run("rollback", &a);
        ck_assert_uint_eq(valid, 41 + accepted);
        for (valid = 39; valid < 47; valid++)
            ck_assert_int_eq(iq__kind_rollback.check(&a, &err), valid == 41 + accepted ? IQ_OK : IQ_MISMATCH);
        ck_assert(strstr(err.text, "positions is kept") != NULL);
    }
}
END_TEST

START_TEST(rows_are_put_back_as_they_were)
{
    static const uint32_t three[MOST] = {5, 6, 7, UINT32_MAX, UINT32_MAX};
    struct drafted d = {.n = 5};
    const struct iq_draft a = {.wanted = 5, .drafts = &d.n, .draft = d.id};
    iq__kind_draft.put(&a, 0, 0, three);
    ck_assert_uint_eq(d.n, 3);
    ck_assert(!memcmp(iq__kind_draft.get(&a, 0, 0, NULL), three, 5 * sizeof *three));
    d.id[1] = 200;
    struct iq_draft odd = a;
    struct iq_err err = {0};
    odd.vocab = 100;
    ck_assert_int_eq(iq__kind_draft.check(&odd, &err), IQ_MISMATCH);
    uint32_t number = 3;
    const struct iq_accept accept = {.drafts = 4, .accepted = &number};
    const struct iq_rollback back = {.drafts = 4, .accepted = 1, .valid = &number};
    iq__kind_accept.put(&accept, 0, 0, &(uint32_t){2});
    ck_assert_uint_eq(number, 2);
    iq__kind_rollback.put(&back, 0, 0, &(uint32_t){9});
    ck_assert_uint_eq(number, 9);
    ck_assert_uint_eq(iq__kind_rollback.field(&back, 2), 3); /* rejected */
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("speculate");
    tcase_add_test(t, a_draft_is_what_followed_the_longest_and_latest_place);
    tcase_add_test(t, a_draft_goes_round_a_loop);
    tcase_add_test(t, too_few_ids_or_nothing_wanted_are_no_draft);
    tcase_add_test(t, a_models_guess_goes_before_what_stands_in_the_ids);
    tcase_add_test(t, drafts_are_accepted_as_far_as_they_were_chosen);
    tcase_add_test(t, what_is_valid_ends_with_the_last_accepted_draft);
    tcase_add_test(t, rows_are_put_back_as_they_were);
    Suite *s = suite_create("speculate");
    suite_add_tcase(s, t);
    return check_main(s);
}
