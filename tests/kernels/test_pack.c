/* Packed weights hold the stored values, and the embedding reads them back. */
#include "kernels/base/arena.h"
#include "kernels/op.h"
#include "kernels/ops/embed.h"
#include "kernels/tables.h"
#include "tests/kernels/matmul_case.h"

#include <math.h>

static void same_bits(const float *got, const float *want, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) ck_assert_uint_eq(iq_f32_bits(got[i]), iq_f32_bits(want[i]));
}

START_TEST(a_packed_row_has_the_stored_rows_values)
{
    enum iq_format f = (enum iq_format)_i;
    static const uint32_t sizes[][2] = {{1, 1}, {64, 32}, {65, 31}, {130, 97}, {63, 256}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint32_t n = sizes[i][0], k = sizes[i][1];
        if (f >= IQ_Q8_0) k = (k + 31) / 32 * 32;
        struct random r = {i, 0};
        uint8_t *raw = random_rows(&r, f, n, k, 1);
        struct iq_matrix m = packed(f, n, k, 128, raw);
        float *got = malloc(k * sizeof *got), *want = malloc(k * sizeof *want);
        for (uint32_t row = 0; row < n; row++) {
            iq_format_row_to_f32(f, raw + row * iq_format_row_bytes(f, k), k, want);
            iq_matrix_row(&m, row, got);
            same_bits(got, want, k);
        }
        free(got);
        free(want);
        free(raw);
        free((void *)m.data);
    }
}
END_TEST

START_TEST(stored_blocks_mean_what_the_format_says)
{
    float out[32];
    uint8_t q8[34] = {0, 0x38, 0xff, 2}, q4_0[18] = {0, 0xb8, 0x1f}, q4_1[20] = {0, 0x38, 0, 0xbc, 0x2f};
    iq_format_row_to_f32(IQ_Q8_0, q8, 32, out); /* d = 0.5 */
    ck_assert(out[0] == -0.5f && out[1] == 1.0f && out[2] == 0);
    iq_format_row_to_f32(IQ_Q4_0, q4_0, 32, out); /* d = -0.5: low nibble 15, high nibble 1 */
    ck_assert(out[0] == -3.5f && out[16] == 3.5f && out[1] == 4.0f);
    iq_format_row_to_f32(IQ_Q4_1, q4_1, 32, out); /* d = 0.5, m = -1 */
    ck_assert(out[0] == 6.5f && out[16] == 0.0f && out[1] == -1.0f);
    const uint8_t bf16[2] = {0x80, 0xbf}, f16[2] = {1, 0x80};
    iq_format_row_to_f32(IQ_BF16, bf16, 1, out);
    iq_format_row_to_f32(IQ_F16, f16, 1, out + 1);
    ck_assert(out[0] == -1.0f && out[1] == -0x1p-24f);
}
END_TEST

START_TEST(columns_and_rows_can_be_chosen)
{
    enum iq_format f = (enum iq_format)_i;
    enum { N = 90, ROWS = 70, K = 128, K0 = 32, PART = 64 };
    struct random r = {5, 0};
    uint8_t *raw = random_rows(&r, f, N, K, 1);
    uint32_t order[ROWS];
    for (uint32_t i = 0; i < ROWS; i++) order[i] = i * 37 % N;
    struct iq_matrix_source from = {
        .raw = raw, .row_bytes = iq_format_row_bytes(f, K), .k0 = K0, .rows = order};
    struct iq_matrix by_list, by_range;
    void *into = aligned(iq_matrix_bytes(f, ROWS, PART)), *into2 = aligned(iq_matrix_bytes(f, ROWS, PART));
    ck_assert_int_eq(iq_matrix_pack(&by_list, f, ROWS, PART, 128, &from, into, NULL), IQ_OK);
    from.rows = NULL;
    from.row0 = N - ROWS;
    ck_assert_int_eq(iq_matrix_pack(&by_range, f, ROWS, PART, 128, &from, into2, NULL), IQ_OK);
    for (uint32_t i = 0; i < ROWS; i++) {
        float want[K], got[PART];
        iq_format_row_to_f32(f, raw + order[i] * iq_format_row_bytes(f, K), K, want);
        iq_matrix_row(&by_list, i, got);
        same_bits(got, want + K0, PART);
        iq_format_row_to_f32(f, raw + (N - ROWS + i) * iq_format_row_bytes(f, K), K, want);
        iq_matrix_row(&by_range, i, got);
        same_bits(got, want + K0, PART);
    }
    free(into);
    free(into2);
    free(raw);
}
END_TEST

START_TEST(packing_writes_every_byte_and_none_beyond)
{
    enum iq_format f = (enum iq_format)_i;
    uint32_t n = 3, k = f >= IQ_Q8_0 ? 96 : 33;
    struct random r = {6, 0};
    uint8_t *raw = random_rows(&r, f, n, k, 0), *into[2];
    size_t bytes = iq_matrix_bytes(f, n, k);
    ck_assert_uint_gt(bytes + (f == IQ_BF16), 0);
    if (f == IQ_BF16) bytes = iq_matrix_bytes(f, n, k);
    for (int fill = 0; fill < 2; fill++) {
        struct iq_matrix m;
        const struct iq_matrix_source from = {.raw = raw, .row_bytes = iq_format_row_bytes(f, k)};
        into[fill] = aligned(bytes + 1);
        memset(into[fill], fill ? 0xff : 0, bytes + 1);
        ck_assert_int_eq(iq_matrix_pack(&m, f, n, k, 128, &from, into[fill], NULL), IQ_OK);
        ck_assert_uint_eq(into[fill][bytes], fill ? 0xff : 0);
    }
    ck_assert(!memcmp(into[0], into[1], bytes));
    free(into[0]);
    free(into[1]);
    free(raw);
}
END_TEST

START_TEST(wrong_shapes_and_memory_are_refused_by_name)
{
    _Alignas(64) uint8_t into[4096], raw[64] = {0};
    struct iq_matrix m;
    struct iq_err err = {0};
    struct iq_matrix_source from = {.raw = raw, .row_bytes = 34};
    ck_assert_int_eq(iq_matrix_pack(&m, IQ_Q8_0, 1, 33, 128, &from, into, &err), IQ_SHAPE);
    ck_assert_ptr_nonnull(strstr(err.text, "Q8_0"));
    ck_assert_int_eq(iq_matrix_pack(&m, IQ_Q8_0, 0, 32, 128, &from, into, &err), IQ_SHAPE);
    ck_assert_int_eq(iq_matrix_pack(&m, IQ_Q8_0, 1, 32, 0, &from, into, &err), IQ_SHAPE);
    ck_assert_int_eq(iq_matrix_pack(&m, IQ_Q8_0, 1, 32, 128, &from, into + 1, &err), IQ_USAGE);
    ck_assert_int_eq(iq_matrix_pack(&m, IQ_F32, UINT32_MAX, UINT32_MAX, 128, &from, into, &err), IQ_LIMIT);
    from.k0 = 16;
    ck_assert_int_eq(iq_matrix_pack(&m, IQ_Q8_0, 1, 32, 128, &from, into, &err), IQ_SHAPE);
    ck_assert_ptr_null(m.data);
    ck_assert_uint_eq(iq_matrix_bytes(IQ_F32, UINT32_MAX, UINT32_MAX), 0);
}
END_TEST

START_TEST(an_embedding_is_the_tables_rows_rounded_to_the_activation_type)
{
    enum iq_format f = (enum iq_format)_i;
    enum { VOCAB = 130, K = 96, ROWS = 4, LDY = K + 3 };
    const uint32_t ids[ROWS] = {129, 0, 64, 129};
    struct random r = {9, 0};
    uint8_t *raw = random_rows(&r, f, VOCAB, K, 1);
    struct iq_matrix table = packed(f, VOCAB, K, 128, raw);
    for (uint32_t act = IQ_ACT_F32; act <= IQ_ACT_F16; act++) {
        float y[ROWS * LDY], want[K];
        const struct iq_embed e = {.rows = ROWS, .act = act, .ids = ids, .table = &table, .y = y, .ldy = LDY};
        ck_assert_int_eq(iq__embed_reference.run(NULL, NULL, &e, NULL, NULL), IQ_OK);
        for (int i = 0; i < ROWS; i++) {
            iq_format_row_to_f32(f, raw + ids[i] * iq_format_row_bytes(f, K), K, want);
            iq_act_round_row(want, K, act);
            same_bits(y + i * LDY, want, K);
        }
    }
    free((void *)table.data);
    free(raw);
}
END_TEST

START_TEST(an_arena_gives_zeroed_lines_until_its_maximum)
{
    struct iq_arena a;
    ck_assert_int_eq(iq_arena_open(1000, &a, NULL), IQ_OK);
    unsigned char *first = iq_arena_take(&a, 1), *second = iq_arena_take(&a, 100);
    ck_assert_ptr_eq(second, first + 64);
    ck_assert(second[0] == 0 && second[99] == 0);
    ck_assert_ptr_null(iq_arena_take(&a, 809));
    ck_assert_ptr_null(iq_arena_take(&a, SIZE_MAX));
    ck_assert_ptr_nonnull(iq_arena_take(&a, 808));
    ck_assert_ptr_null(iq_arena_take(&a, 1));
    iq_arena_close(&a);
    iq_arena_close(&a);
    ck_assert_int_eq(iq_arena_open(SIZE_MAX, &a, NULL), IQ_LIMIT);
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("pack");
    TCase *c = tcase_create("matrices");
    tcase_add_loop_test(c, a_packed_row_has_the_stored_rows_values, 0, IQ_FORMATS);
    tcase_add_test(c, stored_blocks_mean_what_the_format_says);
    tcase_add_loop_test(c, columns_and_rows_can_be_chosen, 0, IQ_FORMATS);
    tcase_add_loop_test(c, packing_writes_every_byte_and_none_beyond, 0, IQ_FORMATS);
    tcase_add_test(c, wrong_shapes_and_memory_are_refused_by_name);
    tcase_add_loop_test(c, an_embedding_is_the_tables_rows_rounded_to_the_activation_type, 0, IQ_FORMATS);
    tcase_add_test(c, an_arena_gives_zeroed_lines_until_its_maximum);
    suite_add_tcase(s, c);
    return s;
}

int main(void)
{
    SRunner *r = srunner_create(suite());
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
