/* K22, three ways, on made-up arguments: what each does wrong, and where it is right. */
#include "kernels/base/rng.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/speculate.h"
#include "tests/check_main.h"
#include "tests/faults/fault_test.h"

enum { ROWS = 64, VOCAB = 50, K = 8 };

static struct iq_exec exec;

START_TEST(an_unchecked_draft_breaks_the_invariant_where_it_is_wrong)
{
    static const uint32_t draft[] = {10, 11, 12};
    for (uint32_t unchecked = 1; unchecked <= 4; unchecked++)
        for (uint32_t wrong = 0; wrong <= 3; wrong++) {
            uint32_t chosen[4] = {10, 11, 12, 13}, accepted;
            const double params[] = {unchecked};
            struct iq_err err = {0};
            const struct iq_accept a = {.drafts = 3, .draft = draft, .chosen = chosen, .accepted = &accepted};
            if (wrong < 3) chosen[wrong] = 50;
            ck_assert_int_eq(iq__k22_first_unchecked.run(&exec, NULL, &a, params, NULL), IQ_OK);
            ck_assert_uint_eq(accepted, wrong < unchecked ? 3 : wrong);
            bool right = wrong >= unchecked || wrong == 3;
            ck_assert_int_eq(iq_kind_find("accept")->check(&a, &err), right ? IQ_OK : IQ_MISMATCH);
        }
}
END_TEST

START_TEST(rejected_drafts_are_kept_but_for_those_trimmed)
{
    for (uint32_t drafts = 1; drafts <= 4; drafts++)
        for (uint32_t accepted = 0; accepted <= drafts; accepted++)
            for (uint32_t trimmed = 0; trimmed <= 5; trimmed++) {
                uint32_t valid, rejected = drafts - accepted;
                const double params[] = {trimmed};
                struct iq_err err = {0};
                const struct iq_rollback a = {
                    .drafts = drafts, .accepted = accepted, .first = 20, .valid = &valid};
                ck_assert_int_eq(iq__k22_keep_rejected.run(&exec, NULL, &a, params, NULL), IQ_OK);
                uint32_t kept = rejected > trimmed ? rejected - trimmed : 0;
                ck_assert_uint_eq(valid, 21 + accepted + kept);
                ck_assert_int_eq(iq_kind_find("rollback")->check(&a, &err), kept ? IQ_MISMATCH : IQ_OK);
            }
}
END_TEST

/* ---- sample ---- */

static float logits[ROWS * VOCAB], values[ROWS * K], temperature[ROWS], top_p[ROWS], min_p[ROWS];
static uint32_t ids[ROWS * K], pos[ROWS], top_k[ROWS], token[ROWS];
static uint64_t seed[ROWS];
static struct iq_row row[ROWS];

static struct iq_sample rows_open(uint32_t draft, float heat)
{
    for (uint32_t i = 0; i < ROWS * VOCAB; i++) logits[i] = (float)(iq_mix64(i) % 7);
    for (uint32_t r = 0; r < ROWS; r++) {
        temperature[r] = heat;
        top_p[r] = 1;
        pos[r] = r;
        seed[r] = 5;
        row[r] = (struct iq_row){.draft = r % 2 ? draft : 0};
    }
    const struct iq_topk t = {ROWS, VOCAB, K, 1, logits, VOCAB, ids, values};
    ck_assert_int_eq(iq_variant_find("topk", "reference")->run(&exec, NULL, &t, NULL, NULL), IQ_OK);
    return (struct iq_sample){ROWS, VOCAB, K,           logits, VOCAB, ids,   values,
                              pos,  seed,  temperature, top_p,  min_p, top_k, token};
}

static uint32_t differing(uint32_t draft, float heat, uint32_t odd)
{
    const struct iq_site site = {.row = row, .rows = ROWS};
    struct iq_sample a = rows_open(draft, heat);
    uint32_t want[ROWS], n = 0;
    struct iq_err err = {0};
    ck_assert_int_eq(iq_variant_find("sample", "reference")->run(&exec, &site, &a, NULL, NULL), IQ_OK);
    memcpy(want, token, sizeof want);
    ck_assert_int_eq(iq__k22_draft_stream.run(&exec, &site, &a, NULL, NULL), IQ_OK);
    ck_assert_msg(iq_kind_find("sample")->check(&a, &err) == IQ_OK, "%s",
                  err.text); /* a token all the same */
    for (uint32_t r = 0; r < ROWS; r++) n += r % 2 == odd && token[r] != want[r];
    return n;
}

START_TEST(the_drafts_stream_draws_other_tokens_in_rows_that_verify)
{
    ck_assert_uint_gt(differing(1, 1, 1), ROWS / 4);
    ck_assert_uint_eq(differing(1, 1, 0), 0);
}
END_TEST

START_TEST(greedy_rows_and_rows_without_drafts_draw_the_same)
{
    ck_assert_uint_eq(differing(1, 0, 1), 0);
    ck_assert_uint_eq(differing(0, 1, 1), 0);
}
END_TEST

START_TEST(a_trigger_may_ask_for_the_length_of_the_draft)
{
    struct set s;
    struct iq_row of[3] = {{.draft = 0}, {.draft = 1}, {.draft = 3}};
    const struct iq_step step = {.batch = 3};
    const struct iq_site site = {.op = IQ_OP_SAMPLE, .layer = 0xffff, .step = &step, .row = of, .rows = 3};
    struct iq_pick pick[IQ_PICKS];
    OPEN(&s, 0, "{\"op\":\"sample\",\"variant\":\"draft_stream\",\"when\":{\"draft\":{\"min\":2}}}");
    ck_assert_int_eq(s.sel.pick(s.sel.self, &site, NULL, pick), 1);
    ck_assert_uint_eq(pick[0].rowmask[0], 1u << 2);
    close_set(&s);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("k22");
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, an_unchecked_draft_breaks_the_invariant_where_it_is_wrong);
    tcase_add_test(t, rejected_drafts_are_kept_but_for_those_trimmed);
    tcase_add_test(t, the_drafts_stream_draws_other_tokens_in_rows_that_verify);
    tcase_add_test(t, greedy_rows_and_rows_without_drafts_draw_the_same);
    tcase_add_test(t, a_trigger_may_ask_for_the_length_of_the_draft);
    Suite *s = suite_create("k22");
    suite_add_tcase(s, t);
    return check_main(s);
}
