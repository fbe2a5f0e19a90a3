#include "kernels/base/rng.h"
#include "kernels/exec.h"
#include "kernels/ops/prefix.h"
#include "kernels/tables.h"

#include <check.h>
#include <string.h>

enum { CAPACITY = 16, WANTED = 5 };

static struct iq_digest key_of(uint64_t i) { return (struct iq_digest){iq_mix64(i), i * 3}; }

static void insert(struct iq_prefix_entry *table, struct iq_digest key, uint32_t block)
{
    uint64_t at = key.lo;
    while (!iq_digest_is_zero(table[at & (CAPACITY - 1)].key)) at++;
    table[at & (CAPACITY - 1)] = (struct iq_prefix_entry){key, block, 0};
}

struct prefix_case {
    struct iq_prefix a;
    struct iq_prefix_entry table[CAPACITY];
    struct iq_digest key[WANTED];
    uint32_t hits, blocks[WANTED];
};

/* The prompt's block i is cached as block 10 + i where bit i of `cached` is set, among `others` foreign
 * blocks. */
static void prefix_open(struct prefix_case *c, uint32_t cached, uint32_t others)
{
    memset(c, 0, sizeof *c);
    for (uint32_t i = 0; i < others; i++) insert(c->table, key_of(1000 + i), 100 + i);
    for (uint32_t i = 0; i < WANTED; i++) {
        c->key[i] = key_of(1 + i);
        if (cached >> i & 1) insert(c->table, c->key[i], 10 + i);
    }
    c->a = (struct iq_prefix){7, 90, WANTED, c->key, c->table, CAPACITY, &c->hits, c->blocks};
    c->hits = 77;
}

static int run(struct prefix_case *c)
{
    for (size_t i = 0; iq__variants_attention[i]; i++)
        if (!strcmp(iq__variants_attention[i]->kind, "prefix"))
            return iq__variants_attention[i]->run(&(struct iq_exec){0}, NULL, &c->a, NULL, NULL);
    return IQ_NOT_FOUND;
}

START_TEST(a_hit_is_the_leading_run_of_cached_blocks)
{
    for (uint32_t others = 0; others <= CAPACITY - WANTED; others++)
        for (uint32_t cached = 0; cached < 1u << WANTED; cached++) {
            struct prefix_case c;
            struct iq_err err;
            prefix_open(&c, cached, others);
            ck_assert_int_eq(run(&c), IQ_OK);
            uint32_t leading = (uint32_t)__builtin_ctz(~cached);
            ck_assert_uint_eq(c.hits, leading);
            for (uint32_t i = 0; i < WANTED; i++)
                ck_assert_uint_eq(c.blocks[i], i < leading ? 10 + i : UINT32_MAX);
            ck_assert_msg(iq__kind_prefix.check(&c.a, &err) == IQ_OK, "%s", err.text);
        }
}
END_TEST

START_TEST(a_full_table_and_an_empty_one_end_the_probe)
{
    struct prefix_case c;
    prefix_open(&c, 0, CAPACITY);
    ck_assert_int_eq(run(&c), IQ_OK);
    ck_assert_uint_eq(c.hits, 0);
    prefix_open(&c, 0, 0);
    c.a.capacity = 0;
    ck_assert_int_eq(run(&c), IQ_OK);
    ck_assert_uint_eq(c.hits, 0);
    c.a.capacity = 12;
    ck_assert_int_eq(run(&c), IQ_SHAPE);
}
END_TEST

START_TEST(the_zero_key_is_never_found)
{
    struct prefix_case c;
    prefix_open(&c, 31, 0);
    memset(c.key, 0, sizeof c.key);
    ck_assert_int_eq(run(&c), IQ_OK);
    ck_assert_uint_eq(c.hits, 0);
}
END_TEST

START_TEST(the_check_sees_a_foreign_block_and_blocks_behind_the_run)
{
    struct prefix_case c;
    struct iq_err err;
    prefix_open(&c, 7, 4);
    ck_assert_int_eq(run(&c), IQ_OK);
    c.blocks[1] = 101; /* cached, but under another key */
    ck_assert_int_eq(iq__kind_prefix.check(&c.a, &err), IQ_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "block 101"));
    ck_assert_int_eq(run(&c), IQ_OK);
    c.hits = 2;
    ck_assert_int_eq(iq__kind_prefix.check(&c.a, &err), IQ_MISMATCH);
    c.hits = WANTED + 1;
    ck_assert_int_eq(iq__kind_prefix.check(&c.a, &err), IQ_MISMATCH);
}
END_TEST

START_TEST(putting_a_decision_back_restores_its_hits)
{
    struct prefix_case c;
    uint32_t saved[WANTED];
    prefix_open(&c, 7, 4);
    ck_assert_int_eq(run(&c), IQ_OK);
    ck_assert_uint_eq(iq__kind_prefix.row_bytes(&c.a, 0), sizeof saved);
    memcpy(saved, iq__kind_prefix.get(&c.a, 0, 0, NULL), sizeof saved);
    c.hits = 0, memset(c.blocks, 0, sizeof c.blocks);
    iq__kind_prefix.put(&c.a, 0, 0, saved);
    ck_assert_uint_eq(c.hits, 3);
    ck_assert_uint_eq(c.blocks[2], 12);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prefix");
    TCase *t = tcase_create("prefix");
    tcase_add_test(t, a_hit_is_the_leading_run_of_cached_blocks);
    tcase_add_test(t, a_full_table_and_an_empty_one_end_the_probe);
    tcase_add_test(t, the_zero_key_is_never_found);
    tcase_add_test(t, the_check_sees_a_foreign_block_and_blocks_behind_the_run);
    tcase_add_test(t, putting_a_decision_back_restores_its_hits);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
