/* kv_write and attention on CUDA give the bits of the references: several sequences, chunks, windows, heads, long dots. */
#include "kernels/arith.h"
#include "tests/check_main.h"
#include "tests/cuda/device_case.h"

#include "tests/kernels/attention_case.h"

/* Sequences and their block tables on the device. */
static struct iq_seq *move_seqs(const struct iq_seq *seq, uint32_t seqs)
{
    struct iq_seq moved[CASE_SEQS + 1];
    for (uint32_t s = 0; s < seqs; s++) {
        moved[s] = seq[s];
        size_t blocks = (seq[s].pos + seq[s].rows + IQ_KV_BLOCK - 1) / IQ_KV_BLOCK;
        moved[s].blocks = to_device(seq[s].blocks, blocks * sizeof(uint32_t));
    }
    return to_device(moved, seqs * sizeof *moved);
}

static void attention_check(const struct shape *sh, uint32_t act, uint64_t seed, bool odd)
{
    struct attention_case c;
    case_open(&c, sh, seed, NAN);
    uint64_t at = seed;
    if (odd) {
        dice_floats(&at, c.q, c.q_floats, true);
        for (uint32_t s = 0; s < sh->seqs; s++)
            dice_floats(&at, case_value(&c, s, dice(&at, sh->pos[s] + sh->rows[s]), 0, 0), sh->dim, true);
    }
    c.a.act = act;
    struct output y = output_open(c.y, c.y_floats * 4);
    ck_assert_int_eq(reference("attention", &c.a), IQ_OK);
    struct iq_attention d = c.a;
    struct iq_kv_layer cache = c.cache;
    cache.k = to_device(c.cache.k, c.cache_floats * 4), cache.v = to_device(c.cache.v, c.cache_floats * 4);
    d.cache = &cache, d.seq = move_seqs(c.seq, sh->seqs), d.q = to_device(c.q, c.q_floats * 4);
    uint32_t context = dice(&at, 2) * 300; /* more than there is: as a graph has it */
    for (uint32_t s = 0; s < sh->seqs; s++)
        context = sh->pos[s] + sh->rows[s] > context ? sh->pos[s] + sh->rows[s] : context;
    float *partial = device_room(iq_cuda_attention_floats(&d, context) * sizeof *partial);
    for (unsigned s = 0; use_schedule(s, seed); s++) {
        d.y = output_fresh(&y);
        ck_assert_int_eq(device.kernels->attention(&d, NULL), IQ_OK);
        output_check(&y, seed, s, "y");
        d.y = output_fresh(&y);
        ck_assert_int_eq(device.kernels->attention_split(&d, context, partial, NULL), IQ_OK);
        output_check(&y, seed, s, "y of a split");
    }
    device_release();
    output_close(&y);
    case_close(&c);
}

START_TEST(attention_gives_the_bits_of_the_reference)
{
    static const uint32_t dims[] = {64, 32, 128, 20, 3}, groups[] = {3, 1, 4, 8, 11};
    uint64_t seed = 0x400;
    for (int n = 0; n < 20; n++) {
        uint64_t replay = seed;
        struct shape sh = {.kv_heads = 1 + dice(&seed, 3), .dim = dims[n % 5], .seqs = 1 + dice(&seed, 4)};
        sh.heads = sh.kv_heads * groups[dice(&seed, 5)];
        sh.window = dice(&seed, 3) ? 0 : 1 + dice(&seed, 300);
        for (uint32_t s = 0; s < sh.seqs; s++) {
            sh.pos[s] = dice(&seed, n % 4 ? 60 : 700);
            sh.rows[s] = n % 3 ? 1 + dice(&seed, 9) : 1;
        }
        attention_check(&sh, dice(&seed, 3), replay, n % 4 == 2);
    }
}
END_TEST

START_TEST(attention_cuts_keys_at_absolute_multiples_of_the_chunk)
{
    for (uint32_t pos = 254; pos < 259; pos++) {
        struct shape sh = {.heads = 2, .kv_heads = 1, .dim = 16, .seqs = 1, .pos = {pos}, .rows = {3}};
        for (sh.window = 0; sh.window < 260; sh.window += 129)
            attention_check(&sh, IQ_ACT_F32, 0x500 + pos, false);
    }
}
END_TEST

START_TEST(attention_over_wide_heads_follows_the_tree_of_its_dots)
{
    static const uint32_t dims[] = {129, 256, 300, 512};
    for (int n = 0; n < 4; n++) {
        struct shape sh = {.heads = 2, .kv_heads = 1, .dim = dims[n], .seqs = 1, .pos = {20}, .rows = {2}};
        attention_check(&sh, IQ_ACT_BF16, 0x600 + (uint64_t)n, false);
    }
    struct iq_kv_layer cache = {NULL, NULL, 1, 1, 513};
    struct iq_attention a = {.rows = 1, .heads = 1, .kv_heads = 1, .cache = &cache, .seqs = 1};
    ck_assert_int_eq(device.kernels->attention(&a, NULL), IQ_UNSUPPORTED);
}
END_TEST

/* Rows past the last sequence are a captured batch's padding; so are sequences without rows. */
START_TEST(attention_and_kv_write_leave_padded_rows_alone)
{
    struct shape sh = {.heads = 3, .kv_heads = 1, .dim = 32, .seqs = 2, .pos = {5, 17}, .rows = {1, 1}};
    struct attention_case c;
    case_open(&c, &sh, 7, NAN);
    struct output y = output_open(c.y, c.y_floats * 4);
    ck_assert_int_eq(reference("attention", &c.a), IQ_OK);
    struct iq_attention d = c.a;
    struct iq_kv_layer cache = c.cache;
    cache.k = to_device(c.cache.k, c.cache_floats * 4), cache.v = to_device(c.cache.v, c.cache_floats * 4);
    struct iq_seq seq[4] = {c.seq[0], c.seq[1], {2, 0, 0, c.table[0]}, {2, 0, 0, c.table[0]}};
    struct output k = output_open(c.cache.k, c.cache_floats * 4),
                  v = output_open(c.cache.v, c.cache_floats * 4);
    d.cache = &cache, d.seq = move_seqs(seq, 4), d.seqs = 4, d.rows = 4, d.q = to_device(c.q, c.q_floats * 4);
    for (unsigned s = 0; use_schedule(s, 3); s++) {
        d.y = output_fresh(&y);
        ck_assert_int_eq(device.kernels->attention(&d, NULL), IQ_OK);
        output_check(&y, 7, s, "y");
        struct iq_kv_layer fresh = c.cache;
        fresh.k = output_fresh(&k), fresh.v = output_fresh(&v);
        struct iq_kv_write w = {
            .rows = 4, .kv_heads = 1, .k = d.q, .v = d.q, .cache = &fresh, .seq = d.seq + 2, .seqs = 2};
        ck_assert_int_eq(device.kernels->kv_write(&w, NULL), IQ_OK);
        output_check(&k, 7, s, "k"), output_check(&v, 7, s, "v");
    }
    device_release();
    output_close(&y), output_close(&k), output_close(&v);
    case_close(&c);
}
END_TEST

START_TEST(kv_write_gives_the_bits_of_the_reference_and_its_digests)
{
    uint64_t seed = 0x700;
    for (int n = 0; n < 12; n++) {
        uint64_t replay = seed;
        struct shape sh = {
            .heads = 4, .kv_heads = 4, .dim = 1 + dice(&seed, 150), .seqs = 1 + dice(&seed, 5)};
        for (uint32_t s = 0; s < sh.seqs; s++) sh.pos[s] = dice(&seed, 70), sh.rows[s] = 1 + dice(&seed, 12);
        struct attention_case c;
        case_open(&c, &sh, seed, NAN);
        struct iq_kv_write a = {.rows = c.a.rows,
                                .kv_head0 = dice(&seed, 4),
                                .cache = &c.cache,
                                .seq = c.seq,
                                .seqs = sh.seqs},
                           d;
        a.kv_heads = 1 + dice(&seed, 4 - a.kv_head0);
        a.ldk = (size_t)a.kv_heads * sh.dim + 1, a.ldv = a.ldk + 1;
        float *k_in = new_floats(&seed, a.rows * a.ldk, n & 1),
              *v_in = new_floats(&seed, a.rows * a.ldv, n & 1);
        a.k = k_in, a.v = v_in;
        struct output k = output_open(c.cache.k, c.cache_floats * 4),
                      v = output_open(c.cache.v, c.cache_floats * 4);
        ck_assert_int_eq(reference("kv_write", &a), IQ_OK);
        struct iq_kv_layer cache = c.cache;
        d = a, d.cache = &cache, d.seq = move_seqs(c.seq, sh.seqs);
        d.k = to_device(k_in, a.rows * a.ldk * 4), d.v = to_device(v_in, a.rows * a.ldv * 4);
        struct iq_digest want[2][CASE_SEQS * 12], got[CASE_SEQS * 12];
        for (int p = 0; p < 2; p++)
            for (uint32_t r = 0; r < a.rows; r++)
                want[p][r] =
                    iq_digest_row(p ? a.v + r * a.ldv : a.k + r * a.ldk, (size_t)a.kv_heads * sh.dim, 4);
        void *digests = to_device(got, sizeof got), *saved = device_room(a.rows * a.ldk * 4);
        float *rows = malloc(a.rows * a.ldk * 4);
        for (unsigned s = 0; use_schedule(s, seed); s++) {
            cache.k = output_fresh(&k), cache.v = output_fresh(&v);
            ck_assert_int_eq(device.kernels->kv_write(&d, NULL), IQ_OK);
            output_check(&k, replay, s, "k"), output_check(&v, replay, s, "v");
            for (unsigned p = 0; p < 2; p++) {
                const struct iq_cuda_kv_digest tap = {&d, p, digests};
                ck_assert_int_eq(device.kernels->kv_digest(&tap, NULL), IQ_OK);
                from_device(got, digests, a.rows * sizeof *got);
                ck_assert_msg(!memcmp(got, want[p], a.rows * sizeof *got),
                              "seed %#llx schedule %u: digests of point %u", (unsigned long long)replay, s,
                              p);
                size_t n = (size_t)a.kv_heads * sh.dim;
                const struct iq_cuda_rows aside = {.rows = a.rows, .stride = n, .saved = saved};
                ck_assert_int_eq(device.kernels->rows_kv(&aside, &d, p, NULL), IQ_OK);
                from_device(rows, saved, a.rows * n * 4);
                for (uint32_t r = 0; r < a.rows; r++)
                    ck_assert_mem_eq(rows + r * n, p ? a.v + r * a.ldv : a.k + r * a.ldk, n * 4);
            }
        }
        device_release();
        output_close(&k), output_close(&v), free(k_in), free(v_in), free(rows);
        case_close(&c);
    }
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cuda attention");
    TCase *t = tcase_create("attention");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, attention_gives_the_bits_of_the_reference);
    tcase_add_test(t, attention_cuts_keys_at_absolute_multiples_of_the_chunk);
    tcase_add_test(t, attention_over_wide_heads_follows_the_tree_of_its_dots);
    tcase_add_test(t, attention_and_kv_write_leave_padded_rows_alone);
    tcase_add_test(t, kv_write_gives_the_bits_of_the_reference_and_its_digests);
    suite_add_tcase(s, t);
    return check_main(s);
}
