/* CUDA kernels that work on rows: each gives the bits of the kind's reference, on random shapes, under every schedule. */
#include "tests/check_main.h"
#include "tests/cuda/device_case.h"

#include "kernels/matrix.h"
#include "tests/kernels/matmul_case.h"

static const uint32_t row_counts[] = {1, 3, 8, 33};

#define LAUNCH(kind)                                                                                         \
    static int kind(const void *args) { return device.kernels->kind(args, NULL); }
LAUNCH(embed)
LAUNCH(rmsnorm)
LAUNCH(add)
LAUNCH(swiglu)
LAUNCH(temper)
LAUNCH(all_reduce)

/* A kind's kernel under every schedule against its reference. y: the reference's output in `host`, `bytes` long; there:
 * where `args`, which are the same call on the device, hold theirs. */
static void gives_the_bits(const char *kind, int (*launch)(const void *), const void *host, float *y,
                           const void *args, float **there, size_t bytes, uint64_t seed)
{
    struct output out = output_open(y, bytes);
    ck_assert_int_eq(reference(kind, host), IQ_OK);
    for (unsigned s = 0; use_schedule(s, seed); s++) {
        *there = output_fresh(&out);
        ck_assert_int_eq(launch(args), IQ_OK);
        output_check(&out, seed, s, kind);
    }
    output_close(&out);
}

START_TEST(embed_gives_the_bits_of_the_reference_in_every_format)
{
    const enum iq_format f = (enum iq_format)_i;
    uint64_t seed = 0x10 + f;
    for (int n = 0; n < 4; n++) {
        uint64_t replay = seed;
        struct random r = {seed, 0};
        uint32_t rows = row_counts[n], vocab = 1 + dice(&seed, 200);
        uint32_t k = (uint32_t)iq_format_info(f)->elements * (1 + dice(&seed, f < IQ_Q8_0 ? 150 : 5));
        uint8_t *raw = random_rows(&r, f, vocab, k, n & 1);
        struct iq_matrix m = packed(f, vocab, k, IQ_UNIT, raw), on_device = m;
        uint32_t ids[33];
        for (uint32_t i = 0; i < rows; i++) ids[i] = dice(&seed, vocab);
        struct iq_embed e = {rows, dice(&seed, 3), ids, &m, NULL, k + 3}, d = e;
        e.y = malloc(rows * e.ldy * 4);
        on_device.data = to_device(m.data, m.panels * m.panel_bytes);
        d.ids = to_device(ids, rows * sizeof *ids), d.table = &on_device;
        gives_the_bits("embed", embed, &e, e.y, &d, &d.y, rows * e.ldy * 4, replay);
        device_release();
        free(e.y), free((void *)m.data), free(raw);
    }
}
END_TEST

START_TEST(rmsnorm_gives_the_bits_of_the_reference)
{
    uint64_t seed = 0x20;
    for (int n = 0; n < 16; n++) {
        uint64_t replay = seed;
        struct iq_rmsnorm a = {.rows = row_counts[n % 4], .groups = 1 + dice(&seed, 3) * (n & 1)};
        a.n = 1 + dice(&seed, n % 3 ? 200 : 1200), a.act = dice(&seed, 3), a.eps = n & 2 ? 1e-5f : 0;
        a.ldx = (size_t)a.groups * a.n + 2, a.ldy = a.ldx + 5;
        float *x = new_floats(&seed, a.rows * a.ldx, n % 4 == 3), *w = new_floats(&seed, a.n, n % 8 == 5);
        a.x = x, a.weight = w, a.y = malloc(a.rows * a.ldy * 4);
        struct iq_rmsnorm d = a;
        d.x = to_device(x, a.rows * a.ldx * 4), d.weight = to_device(w, a.n * 4);
        gives_the_bits("rmsnorm", rmsnorm, &a, a.y, &d, &d.y, a.rows * a.ldy * 4, replay);
        device_release();
        free(a.y), free(x), free(w);
    }
}
END_TEST

START_TEST(add_gives_the_bits_of_the_reference)
{
    uint64_t seed = 0x30;
    for (int n = 0; n < 12; n++) {
        uint64_t replay = seed;
        uint32_t rows = row_counts[n % 4], width = 1 + dice(&seed, 700);
        struct iq_add a = {rows, width, dice(&seed, 3), NULL, NULL, NULL, width + 1, width + 2, width + 3}, d;
        float *x = new_floats(&seed, rows * a.lda, n & 1), *z = new_floats(&seed, rows * a.ldb, n & 1);
        a.a = x, a.b = z, a.y = malloc(rows * a.ldy * 4);
        d = a, d.a = to_device(x, rows * a.lda * 4), d.b = to_device(z, rows * a.ldb * 4);
        gives_the_bits("add", add, &a, a.y, &d, &d.y, rows * a.ldy * 4, replay);
        device_release();
        free(a.y), free(x), free(z);
    }
}
END_TEST

START_TEST(swiglu_gives_the_bits_of_the_reference)
{
    uint64_t seed = 0x40;
    for (int n = 0; n < 12; n++) {
        uint64_t replay = seed;
        uint32_t rows = row_counts[n % 4], width = 1 + dice(&seed, 700);
        struct iq_swiglu a = {rows, width, dice(&seed, 3), NULL, NULL, NULL, width + 1, width + 2, width + 3},
                         d;
        float *x = new_floats(&seed, rows * a.ldg, n & 1), *z = new_floats(&seed, rows * a.ldu, n & 1);
        a.gate = x, a.up = z, a.y = malloc(rows * a.ldy * 4);
        d = a, d.gate = to_device(x, rows * a.ldg * 4), d.up = to_device(z, rows * a.ldu * 4);
        gives_the_bits("swiglu", swiglu, &a, a.y, &d, &d.y, rows * a.ldy * 4, replay);
        device_release();
        free(a.y), free(x), free(z);
    }
}
END_TEST

START_TEST(temper_gives_the_bits_of_the_reference)
{
    uint64_t seed = 0x50;
    for (int n = 0; n < 12; n++) {
        uint64_t replay = seed;
        uint32_t rows = row_counts[n % 4], width = 1 + dice(&seed, 700);
        float *x = new_floats(&seed, rows * (width + 1), n & 1), t[33];
        for (uint32_t r = 0; r < rows; r++) t[r] = (float)dice(&seed, 5) * 0.35f;
        struct iq_temper a = {rows, width, x, t, malloc(rows * (width + 4) * 4), width + 1, width + 4}, d = a;
        d.x = to_device(x, rows * a.ldx * 4), d.temperature = to_device(t, rows * sizeof *t);
        gives_the_bits("temper", temper, &a, a.y, &d, &d.y, rows * a.ldy * 4, replay);
        device_release();
        free(a.y), free(x);
    }
}
END_TEST

START_TEST(rope_gives_the_bits_of_the_reference)
{
    enum { POSITIONS = 50 };
    uint64_t seed = 0x60;
    for (int n = 0; n < 16; n++) {
        uint64_t replay = seed;
        struct iq_rope a = {.rows = row_counts[n % 4], .interleaved = n & 1, .act = dice(&seed, 3)}, d;
        a.rotary = 2 * dice(&seed, 40), a.dim = a.rotary + dice(&seed, 3) * (n & 2);
        a.dim += a.dim == 0;
        float *table = new_floats(&seed, (size_t)POSITIONS * a.rotary + 1, false), *x[2];
        uint32_t pos[33];
        for (uint32_t r = 0; r < a.rows; r++) pos[r] = dice(&seed, POSITIONS);
        struct output y[2];
        for (int p = 0; p < 2; p++) {
            uint32_t heads = 1 + dice(&seed, 9);
            size_t width = (size_t)heads * a.dim;
            x[p] = new_floats(&seed, a.rows * (width + 3), n % 4 == 3);
            a.part[p] =
                (struct iq_rope_part){heads, x[p], malloc(a.rows * (width + 2) * 4), width + 3, width + 2};
            y[p] = output_open(a.part[p].y, a.rows * (width + 2) * 4);
        }
        a.pos = pos, a.table = table;
        ck_assert_int_eq(reference("rope", &a), IQ_OK);
        d = a, d.pos = to_device(pos, a.rows * 4), d.table = to_device(table, POSITIONS * a.rotary * 4);
        for (int p = 0; p < 2; p++) d.part[p].x = to_device(x[p], a.rows * a.part[p].ldx * 4);
        for (unsigned s = 0; use_schedule(s, seed); s++) {
            for (int p = 0; p < 2; p++) d.part[p].y = output_fresh(&y[p]);
            ck_assert_int_eq(device.kernels->rope(&d, NULL), IQ_OK);
            for (int p = 0; p < 2; p++) output_check(&y[p], replay, s, p ? "k" : "q");
        }
        device_release();
        for (int p = 0; p < 2; p++) output_close(&y[p]), free(a.part[p].y), free(x[p]);
        free(table);
    }
}
END_TEST

/* Cuts [0, units) into nodes of the contract's tree, at random. */
static void cut(uint64_t *seed, struct iq_piece *piece, uint32_t *n, uint32_t unit, uint32_t units)
{
    if (units == 1 || dice(seed, 4) == 0 || *n > 40) {
        piece[(*n)++] = (struct iq_piece){unit, units, 0, NULL, 0};
        return;
    }
    uint32_t half = iq_tree_left(units);
    cut(seed, piece, n, unit, half);
    cut(seed, piece, n, unit + half, units - half);
}

START_TEST(all_reduce_gives_the_bits_of_the_reference)
{
    uint64_t seed = 0x70;
    for (int n = 0; n < 16; n++) {
        uint64_t replay = seed;
        static struct iq_piece piece[IQ_REDUCE_PIECES], moved[IQ_REDUCE_PIECES];
        struct iq_all_reduce a = {.rows = row_counts[n % 4], .n = 1 + dice(&seed, 300), .piece = piece}, d;
        a.units = 1 + dice(&seed, 33), a.act = dice(&seed, 3), a.ldy = a.n + 2;
        cut(&seed, piece, &a.pieces, 0, a.units);
        for (uint32_t p = 0; p < a.pieces; p++) {
            piece[p].ldx = a.n + dice(&seed, 3);
            piece[p].x = new_floats(&seed, a.rows * piece[p].ldx, n & 1);
            moved[p] = piece[p];
            moved[p].x = to_device(piece[p].x, a.rows * piece[p].ldx * 4);
        }
        a.y = malloc(a.rows * a.ldy * 4);
        d = a, d.piece = moved;
        gives_the_bits("all_reduce", all_reduce, &a, a.y, &d, &d.y, a.rows * a.ldy * 4, replay);
        moved[a.pieces - 1].units++; /* not a node of the tree */
        ck_assert_int_eq(all_reduce(&d), IQ_SHAPE);
        device_release();
        for (uint32_t p = 0; p < a.pieces; p++) free((void *)piece[p].x);
        free(a.y);
    }
}
END_TEST

/* A fault has run over some elements: won rows keep them and are flagged, the others get their bits back. */
START_TEST(settling_flags_the_changed_rows_and_restores_those_that_nobody_won)
{
    enum { MOST = 70 };
    uint64_t seed = 0x90;
    for (int n = 0; n < 12; n++) {
        uint64_t replay = seed;
        uint32_t rows = 1 + dice(&seed, MOST), width = 1 + dice(&seed, 400), ld = width + dice(&seed, 3);
        size_t bytes = (size_t)rows * ld * 4;
        uint32_t won[MOST / 32 + 1] = {0}, want_flag[MOST] = {0}, flag[MOST];
        float *golden = new_floats(&seed, (size_t)rows * ld, true), *want = malloc(bytes),
              *struck = malloc(bytes);
        memcpy(struck, golden, bytes);
        for (uint32_t r = 0; r < rows; r++) {
            bool wins = dice(&seed, 2), strikes = dice(&seed, 3);
            won[r / 32] |= (uint32_t)wins << r % 32;
            if (strikes)
                ((uint32_t *)(void *)struck)[r * (size_t)ld + dice(&seed, width)] ^= 1u << dice(&seed, 32);
            want_flag[r] = wins && strikes;
        }
        struct output y = output_open(want, bytes); /* its contents below */
        memcpy(y.before, golden, bytes);
        memcpy(want, golden, bytes);
        for (uint32_t r = 0; r < rows; r++)
            if (want_flag[r]) memcpy(want + (size_t)r * ld, struck + (size_t)r * ld, width * 4);
        uint32_t *bits = to_device(won, sizeof won);
        for (unsigned s = 0; use_schedule(s, seed); s++) {
            const struct iq_cuda_rows a = {.rows = rows,
                                           .n = width,
                                           .x = output_fresh(&y),
                                           .ld = ld,
                                           .stride = width + 7,
                                           .at = 5,
                                           .saved = device_room((size_t)rows * (width + 7) * 4),
                                           .won = bits,
                                           .changed = to_device((uint32_t[MOST]){0}, sizeof flag)};
            ck_assert_int_eq(device.kernels->rows_save(&a, NULL), IQ_OK);
            device_ok(device.api->stream_sync(NULL), "sync");
            device_ok(device.api->memcpy_async(a.x, struck, bytes, IQ_CUDA_TO_DEVICE, NULL), "copy");
            ck_assert_int_eq(device.kernels->rows_settle(&a, NULL), IQ_OK);
            from_device(flag, a.changed, sizeof flag);
            ck_assert_mem_eq(flag, want_flag, sizeof flag);
            output_check(&y, replay, s, "rows");
        }
        device_release();
        output_close(&y), free(golden), free(want), free(struck);
    }
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cuda kernels");
    TCase *t = tcase_create("rows");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, embed_gives_the_bits_of_the_reference_in_every_format, 0, IQ_FORMATS);
    tcase_add_test(t, rmsnorm_gives_the_bits_of_the_reference);
    tcase_add_test(t, add_gives_the_bits_of_the_reference);
    tcase_add_test(t, swiglu_gives_the_bits_of_the_reference);
    tcase_add_test(t, temper_gives_the_bits_of_the_reference);
    tcase_add_test(t, rope_gives_the_bits_of_the_reference);
    tcase_add_test(t, all_reduce_gives_the_bits_of_the_reference);
    tcase_add_test(t, settling_flags_the_changed_rows_and_restores_those_that_nobody_won);
    suite_add_tcase(s, t);
    return check_main(s);
}
