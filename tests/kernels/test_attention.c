#include "kernels/arith.h"
#include "kernels/tables.h"
#include "tests/kernels/attention_case.h"

#include <check.h>
#include <malloc.h>

static const uint64_t base_seed = 20261130;

static const struct iq_variant *variant(const char *kind, size_t n)
{
    for (size_t i = 0; iq__variants_attention[i]; i++) {
        const struct iq_variant *v = iq__variants_attention[i];
        if (!strcmp(v->kind, kind) && n-- == 0) return v;
    }
    return NULL;
}

static bool runs_here(const struct iq_variant *v) { return !v->usable || v->usable(); }

static void attend(const struct iq_variant *v, struct iq_exec *x, const struct iq_attention *a, float *y)
{
    struct iq_attention call = *a;
    call.y = y;
    ck_assert_int_eq(v->run(x, NULL, &call, NULL, NULL), IQ_OK);
}

/* Shapes around every edge: tiles, blocks, key chunks, head sizes that fit no vector, windows. */
static void random_shape(uint64_t *seed, struct shape *sh)
{
    static const uint32_t dims[] = {64, 64, 128, 80, 16, 8, 20, 256, 300, 6};
    static const uint32_t groups[] = {3, 1, 7, 2, 4, 9, 16};
    memset(sh, 0, sizeof *sh);
    sh->kv_heads = 1 + case_below(seed, 3);
    sh->heads = sh->kv_heads * groups[case_below(seed, 7)];
    sh->dim = dims[case_below(seed, 10)];
    sh->window = case_below(seed, 3) ? 0 : 1 + case_below(seed, 300);
    sh->seqs = 1 + case_below(seed, 4);
    for (uint32_t s = 0; s < sh->seqs; s++) {
        uint32_t kind = case_below(seed, 4);
        sh->pos[s] = kind == 0 ? 0 : kind == 1 ? 240 + case_below(seed, 32) : case_below(seed, 600);
        sh->rows[s] = case_below(seed, 3) ? 1 : case_below(seed, 40);
    }
}

/* Runs every variant against the reference's bits; one of them, by turns, under 2 and 3 threads too (what
 * splits the work is the same code for all). */
static void compare_all(const struct attention_case *c, struct iq_pool *const pool[3], uint64_t seed)
{
    struct iq_exec x = {0};
    float *want = case_alloc(c->y_floats), *got = case_alloc(c->y_floats);
    memset(want, 0x55, c->y_floats * sizeof(float));
    attend(variant("attention", 0), &x, &c->a, want);
    for (size_t n = 1; variant("attention", n); n++) {
        const struct iq_variant *v = variant("attention", n);
        int threads = (seed >> 7) % 3 + 1 == n ? 3 : 1;
        for (int t = 0; t < threads && runs_here(v); t++) {
            x.pool = pool[t];
            memset(got, 0x55, c->y_floats * sizeof(float));
            attend(v, &x, &c->a, got);
            for (size_t i = 0; i < c->y_floats;
                 i++) /* an assertion that holds costs a system call: few of them */
                if (iq_f32_bits(want[i]) != iq_f32_bits(got[i]))
                    ck_abort_msg("seed %#llx: %s, %d threads: row %zu column %zu: %a, reference %a",
                                 (unsigned long long)seed, v->name, t + 1, i / c->a.ldy, i % c->a.ldy, got[i],
                                 want[i]);
        }
    }
    iq_exec_close(&x);
    free(want), free(got);
}

static void open_pools(struct iq_pool *pool[3])
{
    for (int t = 0; t < 3; t++) ck_assert_int_eq(iq_pool_open(t + 1, &pool[t], NULL), IQ_OK);
}

static void close_pools(struct iq_pool *pool[3])
{
    for (int t = 0; t < 3; t++) iq_pool_close(pool[t]);
}

START_TEST(every_variant_gives_the_bits_of_the_reference)
{
    struct iq_pool *pool[3];
    open_pools(pool);
    uint64_t seed = base_seed;
    for (int n = 0; n < 40; n++) {
        uint64_t replay = seed;
        struct attention_case c;
        struct shape sh;
        random_shape(&seed, &sh);
        case_open(&c, &sh, replay, NAN);
        c.a.act = n % 5 < 3 ? IQ_ACT_F32 : n % 5 == 3 ? IQ_ACT_BF16 : IQ_ACT_F16;
        compare_all(&c, pool, replay);
        case_close(&c);
    }
    close_pools(pool);
}
END_TEST

/* Signed zeros, subnormals, infinities, NaN, huge scores and weights that underflow, here and there. */
START_TEST(odd_values_give_the_bits_of_the_reference)
{
    static const float odd[] = {0.0f,      -0.0f, 0x1p-149f, -0x1p-140f, 0x1p-126f, INFINITY,
                                -INFINITY, NAN,   3e38f,     -3e38f,     1e4f,      -1e4f};
    struct iq_pool *pool[3];
    open_pools(pool);
    uint64_t seed = base_seed + 1;
    for (int n = 0; n < 40; n++) {
        uint64_t replay = seed;
        struct attention_case c;
        struct shape sh;
        random_shape(&seed, &sh);
        case_open(&c, &sh, replay, NAN);
        uint32_t kinds = n % 3 == 0 ? 5 : 12; /* a third without infinities: these seldom leave a number */
        for (uint32_t s = 0; s < sh.seqs; s++)
            for (int i = 0; i < 12; i++) {
                uint32_t end = sh.pos[s] + sh.rows[s];
                if (end == 0) break;
                uint32_t p = case_below(&seed, end), h = case_below(&seed, sh.kv_heads),
                         d = case_below(&seed, sh.dim);
                *(i % 2 ? case_key(&c, s, p, h, d) : case_value(&c, s, p, h, d)) =
                    odd[case_below(&seed, kinds)];
            }
        for (int i = 0; i < 20 && c.q_floats; i++)
            c.q[case_below(&seed, (uint32_t)c.q_floats)] = odd[case_below(&seed, kinds)];
        compare_all(&c, pool, replay);
        case_close(&c);
    }
    close_pools(pool);
}
END_TEST

/* The reference too: a cache whose unseen slots hold NaN, infinity or zero gives one result. */
START_TEST(what_no_row_sees_changes_no_bit)
{
    static const float poison[] = {NAN, INFINITY, 0.0f, -1e30f};
    struct shape sh = {9, 3, 64, 100, 3, {0, 250, 511}, {19, 13, 1}};
    for (size_t n = 0; variant("attention", n); n++) {
        const struct iq_variant *v = variant("attention", n);
        float *first = NULL;
        for (size_t p = 0; p < sizeof poison / sizeof *poison && runs_here(v); p++) {
            struct attention_case c;
            struct iq_exec x = {0};
            case_open(&c, &sh, base_seed, poison[p]);
            /* Keys below every row's window are not there either. */
            for (uint32_t key = 0; key < 250 + 1 - 100; key++)
                for (uint32_t d = 0; d < 64; d++)
                    *case_key(&c, 1, key, 2, d) = *case_value(&c, 1, key, 2, d) = poison[p];
            attend(v, &x, &c.a, c.y);
            size_t numbers = 0;
            for (uint32_t r = 0; r < c.a.rows; r++)
                for (size_t i = 0; i < c.width; i++) numbers += isfinite(c.y[r * c.a.ldy + i]);
            ck_assert_uint_eq(numbers, c.a.rows * c.width);
            if (p == 0) {
                first = c.y;
                c.y = NULL;
            } else {
                ck_assert_int_eq(memcmp(first, c.y, c.y_floats * sizeof(float)), 0);
            }
            iq_exec_close(&x);
            case_close(&c);
        }
        free(first);
    }
}
END_TEST

/* Row by row, in pieces of every size, beside other sequences or alone. */
START_TEST(a_row_has_its_bits_in_any_grouping)
{
    struct shape sh = {6, 2, 64, 0, 1, {0}, {300}};
    struct attention_case c;
    case_open(&c, &sh, base_seed, NAN);
    for (size_t n = 0; variant("attention", n); n++) {
        const struct iq_variant *v = variant("attention", n);
        if (!runs_here(v)) continue;
        struct iq_exec x = {0};
        attend(v, &x, &c.a, c.y);
        float *got = case_alloc(c.y_floats);
        static const uint32_t piece[] = {1, 2, 5, 7, 16, 64, 299};
        for (size_t i = 0; i < sizeof piece / sizeof *piece; i++) {
            struct iq_seq cut[CASE_SEQS];
            memset(got, 0x55, c.y_floats * sizeof(float));
            for (uint32_t row = 0; row < 300;) {
                uint32_t count = 0; /* several pieces a call, as sequences of their own */
                struct iq_attention a = c.a;
                uint32_t first = row;
                for (; count < 3 && row < 300; count++) {
                    uint32_t rows = piece[i] < 300 - row ? piece[i] : 300 - row;
                    cut[count] = (struct iq_seq){row - first, rows, row, c.table[0]};
                    row += rows;
                }
                a.q += first * a.ldq, a.rows = row - first, a.seq = cut, a.seqs = count;
                attend(v, &x, &a, got + first * a.ldy);
            }
            ck_assert_msg(!memcmp(got, c.y, c.y_floats * sizeof(float)), "%s in pieces of %u", v->name,
                          piece[i]);
        }
        free(got);
        iq_exec_close(&x);
    }
    case_close(&c);
}
END_TEST

START_TEST(a_rank_with_some_heads_gives_the_bits_of_all)
{
    struct shape sh = {9, 3, 64, 0, 2, {400, 3}, {2, 9}};
    struct attention_case c;
    case_open(&c, &sh, base_seed, NAN);
    for (size_t n = 0; variant("attention", n); n++) {
        const struct iq_variant *v = variant("attention", n);
        if (!runs_here(v)) continue;
        struct iq_exec x = {0};
        float *got = case_alloc(c.y_floats);
        memset(got, 0x55, c.y_floats * sizeof(float));
        attend(v, &x, &c.a, c.y);
        for (uint32_t rank = 0; rank < 3; rank++) {
            struct iq_attention a = c.a;
            a.heads = 3, a.kv_heads = 1, a.kv_head0 = rank, a.q += rank * 3 * 64;
            attend(v, &x, &a, got + rank * 3 * 64);
        }
        ck_assert_int_eq(memcmp(got, c.y, c.y_floats * sizeof(float)), 0);
        free(got);
        iq_exec_close(&x);
    }
    case_close(&c);
}
END_TEST

START_TEST(a_single_key_gives_its_value)
{
    struct shape sh = {2, 1, 64, 1, 2, {0, 77}, {1, 1}};
    struct attention_case c;
    struct iq_exec x = {0};
    case_open(&c, &sh, base_seed, NAN);
    for (size_t n = 0; variant("attention", n); n++) {
        if (!runs_here(variant("attention", n))) continue;
        attend(variant("attention", n), &x, &c.a, c.y);
        for (uint32_t s = 0; s < 2; s++)
            for (uint32_t i = 0; i < 128; i++)
                ck_assert(c.y[s * c.a.ldy + i] == *case_value(&c, s, sh.pos[s], 0, i % 64));
    }
    iq_exec_close(&x);
    case_close(&c);
}
END_TEST

/* Against attention in double. With u = 2^-24, an error of d in a score changes a weight by a factor within
 * exp(d), so a ratio of weights by exp(2 d); d <= (dim + 2) u sum |q k| scale, and half an ulp each for s -
 * m (at most |s| + |m|) and exp. The chain of P.V has at most 256 steps, the sum of weights 8 + 5, a merge
 * 4 roundings, the division 1. So |y - y64| <= (2 d + 2 (|s| + |m|) u + (256 + 13 + 4 chunks + 4) u) * sum
 * p |v|, to first order (1.05 for the rest). */
START_TEST(attention_lies_within_its_bound_of_float64)
{
    struct shape sh = {3, 1, 64, 0, 3, {0, 255, 900}, {5, 3, 2}};
    struct attention_case c;
    struct iq_exec x = {0};
    double s[1024], worst = 0;
    case_open(&c, &sh, base_seed, NAN);
    attend(variant("attention", 0), &x, &c.a, c.y);
    for (uint32_t q = 0; q < sh.seqs; q++)
        for (uint32_t i = 0; i < sh.rows[q]; i++)
            for (uint32_t h = 0; h < sh.heads; h++) {
                const float *query = c.q + (c.seq[q].first + i) * c.a.ldq + h * 64;
                const float *y = c.y + (c.seq[q].first + i) * c.a.ldy + h * 64;
                uint32_t keys = sh.pos[q] + i + 1;
                double max = -INFINITY, l = 0, size = 0, top = 0;
                for (uint32_t k = 0; k < keys; k++) {
                    double dot = 0, abs = 0;
                    for (uint32_t d = 0; d < 64; d++) {
                        double term = (double)query[d] * *case_key(&c, q, k, 0, d);
                        dot += term, abs += fabs(term);
                    }
                    s[k] = dot * c.a.scale;
                    max = s[k] > max ? s[k] : max;
                    size = abs * c.a.scale > size ? abs * c.a.scale : size;
                    top = fabs(s[k]) > top ? fabs(s[k]) : top;
                }
                for (uint32_t k = 0; k < keys; k++) l += s[k] = exp(s[k] - max);
                double factor = 2 * 66 * size + 4 * top + 256 + 13 + 4 * (keys / 256 + 1) + 4;
                for (uint32_t d = 0; d < 64; d++) {
                    double o = 0, abs = 0;
                    for (uint32_t k = 0; k < keys; k++) {
                        double v = *case_value(&c, q, k, 0, d);
                        o += s[k] / l * v, abs += s[k] / l * fabs(v);
                    }
                    double bound = 1.05 * factor * 0x1p-24 * abs, off = fabs(y[d] - o);
                    if (!(off <= bound))
                        ck_abort_msg("sequence %u row %u head %u element %u: %.9g, float64 %.9g, bound %.3g",
                                     q, i, h, d, y[d], o, bound);
                    worst = off / bound > worst ? off / bound : worst;
                }
            }
    ck_assert_msg(worst > 1e-4, "the bound says nothing: worst error is %.3g of it", worst);
    iq_exec_close(&x);
    case_close(&c);
}
END_TEST

static void write_case(struct attention_case *c, struct iq_kv_write *w, float *k, float *v)
{
    size_t width = (size_t)c->cache.kv_heads * c->cache.head_dim;
    *w = (struct iq_kv_write){c->a.rows, c->cache.kv_heads, 0,         k,      v,
                              width + 1, width + 2,         &c->cache, c->seq, c->a.seqs};
    for (size_t i = 0; i < c->a.rows * (width + 2); i++) k[i] = case_float(77, i), v[i] = case_float(78, i);
    for (size_t i = 0; i < c->cache_floats; i++) c->cache.k[i] = c->cache.v[i] = NAN;
}

START_TEST(kv_write_stores_what_its_kind_reads_back)
{
    struct shape sh = {4, 2, 20, 0, 3, {0, 5, 100}, {40, 1, 30}};
    struct iq_pool *pool[3];
    open_pools(pool);
    struct attention_case c;
    case_open(&c, &sh, base_seed, NAN);
    float *k = case_alloc(c.a.rows * 42), *v = case_alloc(c.a.rows * 42), scratch[40];
    struct iq_err err;
    for (size_t n = 0; variant("kv_write", n); n++)
        for (int t = 0; t < 3; t++) {
            struct iq_exec x = {.pool = pool[t]};
            struct iq_kv_write w;
            write_case(&c, &w, k, v);
            ck_assert_int_eq(iq__kind_kv_write.check(&w, &err), IQ_MISMATCH);
            ck_assert_int_eq(variant("kv_write", n)->run(&x, NULL, &w, NULL, NULL), IQ_OK);
            ck_assert_msg(iq__kind_kv_write.check(&w, &err) == IQ_OK, "%s", err.text);
            size_t written = 0;
            for (size_t i = 0; i < c.cache_floats; i++) written += c.cache.k[i] == c.cache.k[i];
            ck_assert_uint_eq(written, 71 * 40); /* and nothing beside it */
            for (uint32_t r = 0; r < w.rows; r++) {
                ck_assert_uint_eq(iq__kind_kv_write.row_bytes(&w, 1), sizeof scratch);
                ck_assert(!memcmp(iq__kind_kv_write.get(&w, 0, r, scratch), k + r * w.ldk, sizeof scratch));
                ck_assert(!memcmp(iq__kind_kv_write.get(&w, 1, r, scratch), v + r * w.ldv, sizeof scratch));
            }
            iq_exec_close(&x);
        }
    close_pools(pool);
    free(k), free(v);
    case_close(&c);
}
END_TEST

START_TEST(rows_put_back_by_their_kind_are_restored)
{
    struct shape sh = {4, 2, 20, 0, 2, {3, 60}, {30, 2}};
    struct attention_case c;
    struct iq_exec x = {0};
    struct iq_kv_write w;
    struct iq_err err;
    case_open(&c, &sh, base_seed, NAN);
    float *k = case_alloc(c.a.rows * 42), *v = case_alloc(c.a.rows * 42), row[2][80];
    write_case(&c, &w, k, v);
    variant("kv_write", 0)->run(&x, NULL, &w, NULL, NULL);
    for (unsigned p = 0; p < 2; p++) memcpy(row[p], iq__kind_kv_write.get(&w, p, 29, row[p]), 160);
    for (unsigned p = 0; p < 2; p++) iq__kind_kv_write.put(&w, p, 30, row[p]);
    ck_assert_int_eq(iq__kind_kv_write.check(&w, &err), IQ_MISMATCH);
    ck_assert_ptr_nonnull(strstr(err.text, "row 30"));
    for (unsigned p = 0; p < 2; p++) iq__kind_kv_write.put(&w, p, 30, p ? v + 30 * w.ldv : k + 30 * w.ldk);
    ck_assert_int_eq(iq__kind_kv_write.check(&w, &err), IQ_OK);
    free(k), free(v);

    case_fill(&c, &sh, base_seed, NAN);
    attend(variant("attention", 0), &x, &c.a, c.y);
    ck_assert_uint_eq(iq__kind_attention.row_bytes(&c.a, 0), 320);
    memcpy(row[0], iq__kind_attention.get(&c.a, 0, 7, NULL), 320);
    iq__kind_attention.put(&c.a, 0, 8, row[0]);
    ck_assert(!memcmp(c.y + 8 * c.a.ldy, c.y + 7 * c.a.ldy, 320));
    iq_exec_close(&x);
    case_close(&c);
}
END_TEST

START_TEST(fields_name_the_longest_and_the_shortest_context)
{
    struct shape sh = {4, 2, 8, 0, 3, {3, 60, 10}, {30, 2, 1}};
    struct attention_case c;
    case_open(&c, &sh, base_seed, 0);
    uint64_t got[2] = {0};
    for (unsigned i = 0; iq__kind_attention.fields[i]; i++) {
        if (!strcmp(iq__kind_attention.fields[i], "context_max")) got[0] = iq__kind_attention.field(&c.a, i);
        if (!strcmp(iq__kind_attention.fields[i], "context_min")) got[1] = iq__kind_attention.field(&c.a, i);
    }
    ck_assert_uint_eq(got[0], 62);
    ck_assert_uint_eq(got[1], 11);
    case_close(&c);
}
END_TEST

int main(void)
{
    mallopt(M_MMAP_THRESHOLD,
            1 << 30); /* caches come and go: faulting their pages in again would cost the most */
    mallopt(M_TRIM_THRESHOLD, 1 << 30);
    Suite *s = suite_create("attention");
    TCase *t = tcase_create("attention");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_variant_gives_the_bits_of_the_reference);
    tcase_add_test(t, odd_values_give_the_bits_of_the_reference);
    tcase_add_test(t, what_no_row_sees_changes_no_bit);
    tcase_add_test(t, a_row_has_its_bits_in_any_grouping);
    tcase_add_test(t, a_rank_with_some_heads_gives_the_bits_of_all);
    tcase_add_test(t, a_single_key_gives_its_value);
    tcase_add_test(t, attention_lies_within_its_bound_of_float64);
    tcase_add_test(t, kv_write_stores_what_its_kind_reads_back);
    tcase_add_test(t, rows_put_back_by_their_kind_are_restored);
    tcase_add_test(t, fields_name_the_longest_and_the_shortest_context);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
