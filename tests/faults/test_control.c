/* Control ops: what the references decide keeps the kinds' invariants, and each wrong variant breaks its own. */
#include "faults/families.h"
#include "kernels/exec.h"
#include "kernels/ops/blocks.h"
#include "kernels/ops/requests.h"
#include "tests/check_main.h"

#include <stdio.h>
#include <string.h>

static struct iq_exec *const here = &(struct iq_exec){0};
static const struct iq_step step = {.batch = 1, .tokens = 1, .tp = 1};
static const struct iq_row row = {0};
static const struct iq_site site = {.step = &step, .row = &row, .rows = 1};

static void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_faults_register(&err), "%s", err.text);
}

/* Runs the reference (variant NULL) or a wrong variant, and the kind's check: IQ_OK or IQ_MISMATCH. */
static int decide(const char *kind, const char *variant, const double *params, const void *args)
{
    struct iq_err err = {0};
    const struct iq_variant *v = iq_variant_find(kind, variant ? variant : "reference");
    ck_assert_msg(v != NULL, "%s %s", kind, variant);
    ck_assert_int_eq(v->run(here, &site, args, params, NULL), IQ_OK);
    int status = iq_kind_find(kind)->check(args, &err);
    ck_assert(status == IQ_OK || strlen(err.text) > 20);
    return status;
}

/* What a decision says is read and put back whole. */
static void kept(const char *kind, const void *args)
{
    const struct iq_kind *k = iq_kind_find(kind);
    char before[512], scratch[512];
    for (unsigned p = 0; k->row_bytes(args, p); p++) {
        size_t n = k->row_bytes(args, p);
        ck_assert_uint_le(n, sizeof before);
        memcpy(before, k->get(args, p, 0, scratch), n);
        memset((void *)k->get(args, p, 0, scratch), 0x5a, n);
        k->put(args, p, 0, before);
        ck_assert_int_eq(memcmp(k->get(args, p, 0, scratch), before, n), 0);
    }
    ck_assert_uint_eq(k->rows(args), 1);
    for (unsigned i = 0; k->fields && k->fields[i]; i++) k->field(args, i);
}

START_TEST(a_free_block_is_handed_out)
{
    const uint32_t free[2] = {5, 2}, refs[8] = {1, 0, 0, 2};
    uint32_t block;
    const struct iq_kv_alloc a = {.free = free, .n_free = 2, .refs = refs, .blocks = 8, .block = &block};
    ck_assert_int_eq(decide("kv_alloc", NULL, NULL, &a), IQ_OK);
    ck_assert_uint_eq(block, 2);
    kept("kv_alloc", &a);
    ck_assert_int_eq(decide("kv_alloc", "held_block", (double[]){1}, &a), IQ_MISMATCH);
    ck_assert_uint_gt(refs[block], 0);
    ck_assert_int_eq(decide("kv_alloc", "held_block", (double[]){0.1}, &a), IQ_OK); /* too much is free */
    const uint32_t nobody[8] = {0};
    const struct iq_kv_alloc alone = {
        .free = free, .n_free = 2, .refs = nobody, .blocks = 8, .block = &block};
    ck_assert_int_eq(decide("kv_alloc", "held_block", (double[]){1}, &alone), IQ_OK);
}
END_TEST

START_TEST(the_oldest_idle_block_is_given_up)
{
    const struct iq_prefix_entry entry[4] = {{{1, 1}, 0, 3}, {{0, 0}, 7, 1}, {{2, 2}, 1, 2}, {{3, 3}, 2, 5}};
    uint32_t refs[8] = {0, 1, 0}, block;
    const struct iq_kv_evict a = {.entry = entry, .capacity = 4, .refs = refs, .blocks = 8, .block = &block};
    ck_assert_int_eq(decide("kv_evict", NULL, NULL, &a), IQ_OK);
    ck_assert_uint_eq(block, 0);
    kept("kv_evict", &a);
    ck_assert_int_eq(decide("kv_evict", "evicts_held", NULL, &a), IQ_MISMATCH);
    ck_assert_uint_eq(block, 1);
    block = 2; /* idle, but not the oldest */
    struct iq_err err;
    ck_assert_int_eq(iq_kind_find("kv_evict")->check(&a, &err), IQ_MISMATCH);
    block = 6; /* cached by nobody */
    ck_assert_int_eq(iq_kind_find("kv_evict")->check(&a, &err), IQ_MISMATCH);
    block = UINT32_MAX; /* though some are idle */
    ck_assert_int_eq(iq_kind_find("kv_evict")->check(&a, &err), IQ_MISMATCH);
    refs[0] = refs[2] = 1; /* all are held */
    ck_assert_int_eq(decide("kv_evict", NULL, NULL, &a), IQ_OK);
    ck_assert_uint_eq(block, UINT32_MAX);
}
END_TEST

START_TEST(a_dropped_block_is_held_cached_or_free)
{
    for (uint32_t i = 0; i < 8; i++) {
        uint32_t fate;
        const struct iq_kv_free a = {.refs = i & 1, .cached = i >> 1 & 1, .cancelled = i >> 2, .fate = &fate};
        ck_assert_int_eq(decide("kv_free", NULL, NULL, &a), IQ_OK);
        kept("kv_free", &a);
        bool strikes = !a.refs && a.cached;
        ck_assert_int_eq(decide("kv_free", "frees_cached", (double[]){1}, &a),
                         strikes && a.cancelled ? IQ_MISMATCH : IQ_OK);
        ck_assert_int_eq(decide("kv_free", "frees_cached", (double[]){0}, &a), strikes ? IQ_MISMATCH : IQ_OK);
    }
}
END_TEST

START_TEST(all_layers_land_and_whole_rows_move)
{
    uint32_t landed, copied;
    const struct iq_kv_land land = {.blocks = 2, .layers = 30, .flying = 2, .landed = &landed};
    const struct iq_kv_move move = {.from = 3, .to = 1, .row = 192, .copied = &copied};
    ck_assert_int_eq(decide("kv_land", NULL, NULL, &land), IQ_OK);
    ck_assert_int_eq(decide("kv_move", NULL, NULL, &move), IQ_OK);
    kept("kv_land", &land), kept("kv_move", &move);
    ck_assert_int_eq(decide("kv_land", "no_wait", (double[]){0.5}, &land), IQ_MISMATCH);
    ck_assert_uint_eq(landed, 7); /* half of 30, shared by two */
    ck_assert_int_eq(decide("kv_move", "partial_move", (double[]){0.25}, &move), IQ_MISMATCH);
    ck_assert_uint_eq(copied, 48);
    ck_assert_int_eq(decide("kv_move", "partial_move", (double[]){1}, &move), IQ_OK);
}
END_TEST

START_TEST(a_prompt_is_what_was_asked)
{
    const uint32_t prompt[8] = {1, 10, 11, 20, 21, 22, 30, 31}, part[3] = {1, 3, 6};
    uint32_t ids[8], n_ids;
    struct iq_sampling sampling;
    struct iq_assemble a = {.n = 8,
                            .special = 1,
                            .prompt = prompt,
                            .part = part,
                            .parts = 3,
                            .asked = {.seed = 3, .temperature = 0.5f, .top_p = 1},
                            .ids = ids,
                            .n_ids = &n_ids,
                            .sampling = &sampling};
    ck_assert_int_eq(decide("assemble", NULL, NULL, &a), IQ_OK);
    ck_assert_uint_eq(n_ids, 8);
    kept("assemble", &a);
    for (int what = 0; what < 4; what++)
        ck_assert_int_eq(decide("assemble", "misassembled", (double[]){what, 1}, &a),
                         what == 2 ? IQ_OK : IQ_MISMATCH);
    ck_assert_int_eq(decide("assemble", "misassembled", (double[]){1, 1}, &a), IQ_MISMATCH);
    ck_assert_int_eq(memcmp(ids, (uint32_t[]){1, 20, 21, 22, 10, 11, 30, 31}, sizeof ids), 0);
    a.truncate = 5;
    ck_assert_int_eq(decide("assemble", NULL, NULL, &a), IQ_OK);
    ck_assert_int_eq(
        memcmp(ids, (uint32_t[]){1, 21, 22, 30, 31, UINT32_MAX, UINT32_MAX, UINT32_MAX}, sizeof ids), 0);
    kept("assemble", &a);
    ck_assert_uint_eq(n_ids, 5);
    ck_assert_int_eq(decide("assemble", "misassembled", (double[]){2, 1}, &a), IQ_MISMATCH);
    ck_assert_int_eq(decide("assemble", "misassembled", (double[]){3, 0.5}, &a),
                     IQ_OK); /* the same by default */
}
END_TEST

START_TEST(a_request_is_placed_by_its_length)
{
    uint32_t pool;
    struct iq_place a = {.session = 9, .tokens = 100, .pools = 2, .limit = 100, .pool = &pool};
    ck_assert_int_eq(decide("place", NULL, NULL, &a), IQ_OK);
    ck_assert_uint_eq(pool, 0);
    kept("place", &a);
    ck_assert_int_eq(decide("place", "misrouted", (double[]){1, 1, 0}, &a), IQ_MISMATCH);
    ck_assert_int_eq(decide("place", "misrouted", (double[]){0, 0, 0}, &a), IQ_OK);
    a.tokens = 101;
    ck_assert_int_eq(decide("place", NULL, NULL, &a), IQ_OK);
    ck_assert_uint_eq(pool, 1);
    a.pools = 1;
    ck_assert_int_eq(decide("place", "misrouted", (double[]){1, 1, 0}, &a), IQ_OK);
    ck_assert_uint_eq(pool, 0);
}
END_TEST

/* As the share rises, sessions go wrong and stay so. */
START_TEST(misrouting_is_sticky_and_rises)
{
    const struct iq_variant *v = iq_variant_find("place", "misrouted");
    uint32_t pool, wrong[3] = {0};
    for (uint32_t session = 1; session <= 2000; session++) {
        uint32_t before = 0;
        for (uint32_t t = 0; t < 3; t++) {
            const struct iq_step now = {.clock_us = t * UINT64_C(500000)};
            const struct iq_site at = {.step = &now, .row = &row, .rows = 1};
            const struct iq_place a = {
                .request = t, .session = session, .tokens = 9, .pools = 2, .limit = 10, .pool = &pool};
            ck_assert_int_eq(v->run(here, &at, &a, (double[]){0.008, 0.16, 1000}, NULL), IQ_OK);
            ck_assert_uint_ge(pool, before);
            before = pool;
            wrong[t] += pool;
        }
    }
    ck_assert_msg(wrong[0] >= 6 && wrong[0] <= 30, "%u of 2000 at the start", wrong[0]);  /* 16 */
    ck_assert_msg(wrong[1] >= 130 && wrong[1] <= 210, "%u of 2000 half-way", wrong[1]);   /* 168 */
    ck_assert_msg(wrong[2] >= 270 && wrong[2] <= 370, "%u of 2000 at the end", wrong[2]); /* 320 */
}
END_TEST

START_TEST(an_identity_is_over_all_parts)
{
    struct iq_digest root, other;
    struct iq_identity a = {.root = &root};
    for (uint64_t i = 0; i < IQ_IDENTITY_PARTS; i++) a.part[i] = (struct iq_digest){i + 1, i};
    ck_assert_int_eq(decide("identity", NULL, NULL, &a), IQ_OK);
    kept("identity", &a);
    for (unsigned what = 0; what < IQ_IDENTITY_PARTS; what++) {
        struct iq_identity b = a;
        b.root = &other;
        b.part[what].lo += 5;
        ck_assert_int_eq(decide("identity", NULL, NULL, &b), IQ_OK);
        ck_assert(!iq_digest_equal(root, other));
        ck_assert_int_eq(decide("identity", "shared_identity", (double[]){what}, &b), IQ_MISMATCH);
        struct iq_digest shared = other;
        b.root = &root;
        b.part[what].lo += 5;
        ck_assert_int_eq(decide("identity", "shared_identity", (double[]){what}, &b), IQ_MISMATCH);
        ck_assert(iq_digest_equal(root, shared));
        ck_assert_int_eq(decide("identity", NULL, NULL, &a), IQ_OK);
    }
}
END_TEST

START_TEST(a_step_is_formed_in_order)
{
    const struct iq_form_seat seat[3] = {
        {.request = 4, .lacking = 20}, {.lacking = 1}, {.request = 2, .lacking = 9}};
    struct iq_form_pick pick[3];
    struct iq_form a = {.n = 3, .budget = 25, .seat = seat, .pick = pick};
    ck_assert_int_eq(decide("form", NULL, NULL, &a), IQ_OK);
    ck_assert(pick[0].tokens == 20 && pick[1].tokens == 1 && pick[2].tokens == 4 && pick[2].seat == 2);
    kept("form", &a);
    ck_assert_int_eq(decide("form", "unfair", (double[]){8}, &a), IQ_MISMATCH);
    ck_assert(pick[0].seat == 2 && pick[0].tokens == 8 && pick[2].seat == 0 && pick[2].tokens == 8);
    a.budget = 20;
    ck_assert_int_eq(decide("form", NULL, NULL, &a), IQ_OK);
    ck_assert(pick[1].seat == UINT32_MAX && !pick[1].tokens);
    a.joining = 1;
    ck_assert_int_eq(decide("form", NULL, NULL, &a), IQ_OK);
    ck_assert(pick[2].seat == 2 && pick[2].tokens == 20);
    ck_assert_int_eq(decide("form", "unfair", (double[]){8}, &a), IQ_MISMATCH);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("control ops");
    TCase *t = tcase_create("control");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, a_free_block_is_handed_out);
    tcase_add_test(t, the_oldest_idle_block_is_given_up);
    tcase_add_test(t, a_dropped_block_is_held_cached_or_free);
    tcase_add_test(t, all_layers_land_and_whole_rows_move);
    tcase_add_test(t, a_prompt_is_what_was_asked);
    tcase_add_test(t, a_request_is_placed_by_its_length);
    tcase_add_test(t, misrouting_is_sticky_and_rises);
    tcase_add_test(t, an_identity_is_over_all_parts);
    tcase_add_test(t, a_step_is_formed_in_order);
    suite_add_tcase(s, t);
    return check_main(s);
}
