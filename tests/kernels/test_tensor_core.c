/* Tensor-core products: the reference against what real GPUs computed (tests/data/tensor_core), every form against the
 * reference. IQ_TEST_SEED and IQ_TEST_CASES replay the random tests. */
#include "kernels/cpu/features.h"
#include "kernels/tensor_core/tile.h"
#include "tests/check_main.h"
#include "tests/kernels/matmul_case.h"

#include <stdio.h>

enum { GPUS = 4, ROWS = 2500, FORMS = 3, COLUMNS = 16 };

static const struct gpu {
    const char *name;
    enum iq_tc_profile_id profile;
    uint32_t k;
} gpus[GPUS] = {
    {"A100", IQ_TC_SM80, 8}, {"H100", IQ_TC_SM90, 16}, {"H200", IQ_TC_SM90, 16}, {"B200", IQ_TC_SM100, 16}};

struct row {
    uint16_t a[COLUMNS], b[COLUMNS];
    struct {
        uint32_t c, d;
    } of[GPUS];
};
_Static_assert(sizeof(struct row) == 96, "the file's rows");

static struct row rows[2][ROWS];

static void load(void)
{
    static const char *const files[] = {[IQ_TC_BF16] = "bf16", [IQ_TC_F16] = "fp16"};
    for (int f = 0; f < 2; f++) {
        char path[4096];
        snprintf(path, sizeof path, "%s/tensor_core/%s.bin", getenv("IQ_TEST_DATA"), files[f]);
        FILE *in = fopen(path, "rb");
        ck_assert_msg(in != NULL, "%s can't be opened", path);
        ck_assert_uint_eq(fread(rows[f], sizeof rows[f][0], ROWS, in), ROWS);
        ck_assert_int_eq(fgetc(in), EOF);
        fclose(in);
    }
}

static uint64_t number(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static float widened(enum iq_tc_format f, uint16_t h)
{
    return f == IQ_TC_F16 ? iq_f16_to_f32(h) : iq_bf16_to_f32(h);
}

/* ---- the reference ---- */

START_TEST(every_published_row_is_reproduced)
{
    int wrong = 0;
    for (int f = 0; f < 2; f++)
        for (int g = 0; g < GPUS; g++)
            for (int i = 0; i < ROWS; i++) {
                const struct row *r = &rows[f][i];
                uint32_t d = iq_tc_dot(&iq_tc_profiles[gpus[g].profile], (enum iq_tc_format)f, r->a, r->b,
                                       gpus[g].k, r->of[g].c);
                wrong += d != r->of[g].d;
            }
    ck_assert_int_eq(wrong, 0);
}
END_TEST

/* The rows are worth something: a neighbouring constant is refused by 76 of 2,500 at least. */
START_TEST(another_block_or_fraction_is_refused_by_the_published_rows)
{
    for (int g = 0; g < GPUS; g++)
        for (int f = 0; f < 2; f++)
            for (int change = 0; change < 3; change++) {
                struct iq_tc_profile p = iq_tc_profiles[gpus[g].profile];
                int wrong = 0;
                p.fraction += change == 0 ? 1 : change == 1 ? -1 : 0;
                if (change == 2) p.products /= 2;
                for (int i = 0; i < ROWS; i++) {
                    const struct row *r = &rows[f][i];
                    wrong +=
                        iq_tc_dot(&p, (enum iq_tc_format)f, r->a, r->b, gpus[g].k, r->of[g].c) != r->of[g].d;
                }
                ck_assert_msg(wrong >= 50, "%s, format %d, change %d: only %d rows differ", gpus[g].name, f,
                              change, wrong);
            }
}
END_TEST

enum { ONE = 0x3f80, TWO = 0x4000, BIG = 0x7f7f, INF = 0x7f80, NOT = 0x7fc1, NEG = 0x8000, TINY = 0x0001 };

/* bf16 on sm90; what the words of block.h say, by example. */
static const struct {
    const char *name;
    uint16_t a[4], b[4];
    uint32_t n, c, d;
} words[] = {
    {"nothing is +0", {0}, {0}, 0, 0, 0},
    {"-0 is dropped", {0}, {0}, 0, 0x80000000u, 0},
    {"zero products leave the accumulator", {NEG, 0}, {ONE, BIG}, 2, 0x3f800001u, 0x3f800001u},
    {"cancellation gives +0", {ONE, NEG | ONE}, {TWO, TWO}, 2, 0, 0},
    {"the accumulator cancels", {NEG | ONE}, {ONE}, 1, 0x3f800000u, 0},
    {"infinity", {INF}, {ONE}, 1, 0, 0x7f800000u},
    {"minus infinity", {INF}, {NEG | TINY}, 1, 0, 0xff800000u},
    {"infinity times zero", {INF}, {NEG}, 1, 0, IQ_NAN_BITS},
    {"infinities of both signs", {INF, INF}, {ONE, NEG | ONE}, 2, 0, IQ_NAN_BITS},
    {"an infinite accumulator", {ONE}, {ONE}, 1, 0xff800000u, 0xff800000u},
    {"an infinite accumulator and product", {INF}, {ONE}, 1, 0xff800000u, IQ_NAN_BITS},
    {"NaN operand", {NOT}, {0}, 1, 0, IQ_NAN_BITS},
    {"NaN accumulator", {ONE}, {ONE}, 1, 0xffc12345u, IQ_NAN_BITS},
    {"overflow is infinity", {BIG, NEG | BIG}, {NEG | TWO, TWO}, 2, 0, 0xff800000u},
    {"round toward zero: 2^24 + 1 is 2^24", {ONE}, {ONE}, 1, 0x4b800000u, 0x4b800000u},
    {"round toward zero: 2^24 - 2^-1", {NEG | 0x3f00}, {ONE}, 1, 0x4b800000u, 0x4b7fffffu},
    {"truncated before the sum: -2^-2", {NEG | 0x3e80}, {ONE}, 1, 0x4b800000u, 0x4b800000u},
    {"26 bits below: gone", {NEG | ONE, NEG | 0x3f00}, {ONE, 0x3e80}, 2, 0x4c800000u, 0x4c800000u},
    {"subnormal operands count", {TINY}, {0x7e80}, 1, 0, 0x3c000000u}, /* 2^-133 * 2^126 */
    {"a subnormal accumulator stays", {0}, {0}, 1, 0x80000001u, 0x80000001u},
};

START_TEST(a_block_does_what_the_words_say)
{
    uint32_t d = iq_tc_block(&iq_tc_profiles[IQ_TC_SM90], IQ_TC_BF16, words[_i].a, words[_i].b, words[_i].n,
                             words[_i].c);
    ck_assert_msg(d == words[_i].d, "%s: found %08x, expected %08x", words[_i].name, d, words[_i].d);
}
END_TEST

/* ---- the forms, tile by tile: any operands, any accumulator ---- */

static bool always(void) { return true; }

static const struct {
    const char *name;
    const struct iq__tc_form *form;
    bool (*usable)(void);
} forms[FORMS] = {{"scalar", &iq__tc_scalar, always},
#if defined __x86_64__
                  {"avx2", &iq__tc_avx2, iq_cpu_has_avx2},
                  {"avx512", &iq__tc_avx512, iq_cpu_has_avx512}
#endif
};
static bool usable(int i) { return forms[i].form && forms[i].usable(); }

enum { SIDE = IQ__TC_PIECE, WIDE = 2 * COLUMNS }; /* rows, outputs and columns of a tile here */

struct operands {
    uint16_t a[SIDE][WIDE], b[SIDE][WIDE];
    uint32_t c[SIDE][SIDE];
};

/* Runs one tile: row r by output o gives d[r][o]; k columns. The piece is the panel's `half`. */
static void run_tile(const struct iq__tc_form *form, enum iq_tc_profile_id profile, enum iq_tc_format format,
                     const struct operands *in, uint32_t k, uint32_t half, uint32_t d[SIDE][SIDE])
{
    static float w[IQ_PANEL][WIDE], x[SIDE][WIDE], value[SIDE][WIDE], sum[SIDE][IQ_PANEL];
    static int16_t exponent[SIDE][WIDE];
    static struct iq__tc_weights decoded;
    const uint32_t first = half * IQ__TC_PIECE, block = iq_tc_profiles[profile].products,
                   room = (k + block - 1) / block * block;
    float *stored = (float *)w; /* (IQ_PANEL, k) */
    memset(w, 0, sizeof w);
    memset(&decoded, 0xff, sizeof decoded);
    for (uint32_t i = 0; i < SIDE; i++)
        for (uint32_t j = 0; j < k; j++) {
            stored[(first + i) * k + j] = widened(format, in->b[i][j]);
            x[i][j] = widened(format, in->a[i][j]);
        }
    struct iq_matrix m = packed(IQ_F32, IQ_PANEL, k, IQ_UNIT, (const uint8_t *)w);
    form->weights(format, IQ_F32, m.data, k, room, first, &decoded);
    for (uint32_t r = 0; r < SIDE; r++) {
        form->row(format, x[r], k, room, value[r], exponent[r]);
        memcpy(&sum[r][first], in->c[r], sizeof in->c[r]);
    }
    struct iq__tc_tile t = {
        &iq_tc_profiles[profile], format, &decoded, {value[0], exponent[0], WIDE}, SIDE, room, first, sum[0]};
    form->tile(&t);
    for (uint32_t r = 0; r < SIDE; r++) memcpy(d[r], &sum[r][first], sizeof d[r]);
    free((void *)m.data);
}

START_TEST(every_form_reproduces_every_published_row)
{
    static struct operands in;
    uint32_t d[SIDE][SIDE];
    int done = 0;
    if (!usable(_i)) return;
    for (int g = 0; g < GPUS; g++)
        for (int f = 0; f < 2; f++)
            for (int from = 0; from < ROWS; from += SIDE) {
                const int n = ROWS - from < SIDE ? ROWS - from : SIDE;
                for (int i = 0; i < n; i++) {
                    const struct row *r = &rows[f][from + i];
                    memcpy(in.a[i], r->a, sizeof r->a);
                    memcpy(in.b[i], r->b, sizeof r->b);
                    in.c[i][i] = r->of[g].c;
                }
                run_tile(forms[_i].form, gpus[g].profile, (enum iq_tc_format)f, &in, gpus[g].k, 0, d);
                for (int i = 0; i < n; i++, done++)
                    ck_assert_msg(d[i][i] == rows[f][from + i].of[g].d, "%s: %s, format %d, row %d",
                                  forms[_i].name, gpus[g].name, f, from + i);
            }
    ck_assert_int_eq(done, 20000);
}
END_TEST

/* ---- random operands ---- */

enum { ANY_BITS, ALIKE, TINY_ONES, HUGE_ONES, FULL, CANCEL, SPARSE, ONE_ODD, KINDS };

static uint16_t with_exponent(enum iq_tc_format f, uint32_t bits, int least, uint32_t range)
{
    const int fraction = f == IQ_TC_F16 ? 10 : 7, most = f == IQ_TC_F16 ? 31 : 255;
    int e = least + (int)(range ? (bits >> 16) % range : 0);
    e = e < 0 ? 0 : e > most ? most : e;
    return (uint16_t)((bits & 0x8000u) | (uint32_t)e << fraction | (bits & ((1u << fraction) - 1)));
}

/* An operand of a kind; exponents as stored. */
static uint16_t operand(struct random *r, enum iq_tc_format f, uint32_t kind)
{
    const int bias = f == IQ_TC_F16 ? 15 : 127;
    static const uint16_t odd[2][8] = {
        {0x7f80, 0xff80, 0x7fc0, 0xffff, 0x8000, 0x0001, 0x7f7f, 0x8080},
        {0x7c00, 0xfc00, 0x7e00, 0xffff, 0x8000, 0x0001, 0x7bff, 0x8400},
    };
    uint32_t bits = draw(r);
    switch (kind) {
    case ANY_BITS:
        return (uint16_t)bits;
    case TINY_ONES:
        return with_exponent(f, bits, below(r, 2) ? 0 : bias / 2, 12);
    case HUGE_ONES:
        return with_exponent(f, bits, bias + bias / 2 - 6, 14);
    case FULL:
        return (uint16_t)(with_exponent(f, 0x7fff, bias, 0) | (bits % 16 ? 0 : 0x8000));
    case SPARSE:
        return bits >> 24 & 7 ? (uint16_t)(bits & 0x8000) : with_exponent(f, bits, bias - 20, 40);
    case ONE_ODD:
        return bits >> 24 ? with_exponent(f, bits, bias - 3, 6) : odd[f][bits & 7];
    default:
        return with_exponent(f, bits, bias - 3, 6);
    }
}

static uint32_t accumulator(struct random *r, uint32_t kind)
{
    static const uint32_t odd[] = {0,           0x80000000u, 1,           0x807fffffu, 0x7f800000u,
                                   0xff800000u, 0x7fc00001u, 0x7f7fffffu, 0x80800000u};
    uint32_t bits = draw(r);
    if (kind == ANY_BITS) return bits ^ draw(r) << 16;
    if (bits >> 28 == 0) return odd[below(r, sizeof odd / sizeof *odd)];
    if (kind == FULL) return 0x3fffffffu + below(r, 8) * 0x800000u;
    if (kind == TINY_ONES) return (bits & 0x80ffffffu) | below(r, 60) << 23;
    return (bits & 0x807fffffu) | (115 + below(r, 24)) << 23;
}

static void random_operands(struct random *r, enum iq_tc_format f, uint32_t kind, uint32_t k,
                            struct operands *o)
{
    for (int i = 0; i < SIDE; i++) {
        for (uint32_t j = 0; j < k; j++) {
            bool again = kind == CANCEL && j % 2;
            o->a[i][j] = again ? o->a[i][j - 1] ^ 0x8000u : operand(r, f, kind);
            o->b[i][j] = again && below(r, 8) ? o->b[i][j - 1] : operand(r, f, kind);
        }
        for (int j = 0; j < SIDE; j++) o->c[i][j] = accumulator(r, kind);
    }
}

START_TEST(every_form_gives_the_references_bits_for_any_operands)
{
    uint64_t seed = number("IQ_TEST_SEED", 20261201), cases = number("IQ_TEST_CASES", 400);
    static struct operands in;
    static uint32_t want[SIDE][SIDE], d[SIDE][SIDE];
    for (uint64_t i = 0; i < cases; i++) {
        struct random r = {iq_mix64(seed + i), 0};
        const enum iq_tc_profile_id profile = (enum iq_tc_profile_id)below(&r, IQ_TC_PROFILES);
        const enum iq_tc_format f = (enum iq_tc_format)below(&r, 2);
        const uint32_t kind = (uint32_t)(i % KINDS), k = 1 + below(&r, WIDE), half = below(&r, 2);
        random_operands(&r, f, kind, k, &in);
        for (int row = 0; row < SIDE; row++)
            for (int o = 0; o < SIDE; o++)
                want[row][o] = iq_tc_dot(&iq_tc_profiles[profile], f, in.a[row], in.b[o], k, in.c[row][o]);
        for (int v = 0; v < FORMS; v++) {
            if (!usable(v)) continue;
            run_tile(forms[v].form, profile, f, &in, k, half, d);
            for (int row = 0; row < SIDE; row++)
                for (int o = 0; o < SIDE; o++)
                    ck_assert_msg(
                        d[row][o] == want[row][o],
                        "%s, %s, format %d, kind %u, k %u, row %d, output %d, c %08x: found %08x, the "
                        "reference has %08x; replay: IQ_TEST_SEED=%llu IQ_TEST_CASES=1",
                        forms[v].name, iq_tc_profiles[profile].name, f, kind, k, row, o, in.c[row][o],
                        d[row][o], want[row][o], (unsigned long long)(seed + i));
        }
    }
}
END_TEST

static Suite *suite(void)
{
    Suite *s = suite_create("tensor_core");
    TCase *c = tcase_create("products");
    tcase_set_timeout(c, 200);
    tcase_add_unchecked_fixture(c, load, NULL);
    tcase_add_test(c, every_published_row_is_reproduced);
    tcase_add_test(c, another_block_or_fraction_is_refused_by_the_published_rows);
    tcase_add_loop_test(c, a_block_does_what_the_words_say, 0, (int)(sizeof words / sizeof *words));
    tcase_add_loop_test(c, every_form_reproduces_every_published_row, 0, FORMS);
    tcase_add_test(c, every_form_gives_the_references_bits_for_any_operands);
    suite_add_tcase(s, c);
    return s;
}

int main(void) { return check_main(suite()); }
