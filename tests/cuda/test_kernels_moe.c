/* The CUDA forms of the mixture-of-experts ops give the bits of the references, under every schedule. */
#include "tests/check_main.h"
#include "tests/cuda/device_case.h"
#include "tests/kernels/moe_case.h"

static const uint32_t row_counts[] = {1, 3, 8, 33};

START_TEST(route_gives_the_bits_of_the_reference)
{
    for (uint64_t i = 0; i < 20; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t experts = 1 + below(&r, i % 5 ? 40 : 300), most = experts < 16 ? experts : 16;
        struct iq_route a = {.rows = row_counts[i % 4], .experts = experts, .k = 1 + below(&r, most)}, d;
        size_t bytes = (size_t)a.rows * a.k * 4;
        a.renormalise = below(&r, 2), a.ld = experts + below(&r, 3);
        float *logits = moe_floats(&r, a.rows * a.ld, moe_logit, (uint32_t)i % MOE_MOODS);
        a.logits = logits, a.expert = malloc(bytes), a.weight = malloc(bytes);
        struct output expert = output_open(a.expert, bytes), weight = output_open(a.weight, bytes);
        ck_assert_int_eq(reference("route", &a), IQ_OK);
        d = a, d.logits = to_device(logits, a.rows * a.ld * 4);
        for (unsigned s = 0; use_schedule(s, i); s++) {
            d.expert = output_fresh(&expert), d.weight = output_fresh(&weight);
            ck_assert_int_eq(device.kernels->route(&d, NULL), IQ_OK);
            output_check(&expert, i, s, "experts"), output_check(&weight, i, s, "weights");
        }
        d.k = experts + 1;
        ck_assert_int_eq(device.kernels->route(&d, NULL), IQ_SHAPE);
        device_release();
        output_close(&expert), output_close(&weight);
        free(logits), free(a.expert), free(a.weight);
    }
}
END_TEST

/* Also: the lists alone, of owners that a fault has changed. */
START_TEST(dispatch_and_its_lists_give_the_bits_of_the_reference)
{
    for (uint64_t i = 0; i < 12; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t rows = i == 5 ? 0 : i % 4 == 3 ? 300 : row_counts[i % 4], experts = 1 + below(&r, 20);
        uint32_t k = 1 + below(&r, experts < 16 ? experts : 16);
        struct iq_moe_dispatch a = moe_dispatched(&r, rows, experts, k, i % 3 == 0, 0), d;
        size_t bytes = (size_t)rows * k * 4;
        if (rows)
            ((uint32_t *)a.expert)[below(&r, rows * k)] = experts + below(&r, 3); /* no expert of the layer */
        struct output owner = output_open(a.owner, bytes), list = output_open(a.list, bytes);
        struct output first = output_open(a.first, (experts + (size_t)1) * 4);
        ck_assert_int_eq(reference("moe_dispatch", &a), IQ_OK);
        d = a, d.expert = to_device(a.expert, bytes);
        for (unsigned s = 0; use_schedule(s, i); s++) {
            d.owner = output_fresh(&owner), d.first = output_fresh(&first), d.list = output_fresh(&list);
            ck_assert_int_eq(device.kernels->moe_dispatch(&d, NULL), IQ_OK);
            output_check(&owner, i, s, "owners"), output_check(&first, i, s, "first");
            output_check(&list, i, s, "list");
        }
        for (uint32_t j = 0; j < rows * k; j++)
            if (!below(&r, 3)) a.owner[j] = IQ_SLOT_DROPPED;
        memset(a.list, 0x5a, bytes);
        iq_moe_lists(&a);
        d.owner = to_device(a.owner, bytes);
        d.first = output_fresh(&first), d.list = output_fresh(&list);
        ck_assert_int_eq(device.kernels->moe_lists(&d, NULL), IQ_OK);
        output_check(&first, i, 0, "first of changed owners"), output_check(&list, i, 0, "their list");
        device_release();
        output_close(&owner), output_close(&first), output_close(&list);
        moe_dispatch_close(&a);
    }
}
END_TEST

START_TEST(all_to_all_gives_the_bits_of_the_reference)
{
    for (uint64_t i = 0; i < 12; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t rows = row_counts[i % 4], k = 1 + below(&r, 4), n = 1 + below(&r, 90);
        struct iq_moe_dispatch p = moe_dispatched(&r, rows, 8, k, 0, i % 2 ? 3 : 0);
        struct iq_all_to_all a = {.rows = rows,
                                  .n = n,
                                  .k = k,
                                  .experts = 8,
                                  .ranks = 4,
                                  .back = below(&r, 2)},
                             d;
        a.ldx = n + below(&r, 3);
        size_t floats = a.back ? (size_t)rows * k * n : rows * a.ldx, bytes = (size_t)rows * k * n * 4;
        float *x = moe_floats(&r, floats, moe_value, 1);
        a.x = x, a.owner = p.owner, a.y = malloc(bytes);
        struct output y = output_open(a.y, bytes);
        ck_assert_int_eq(reference("all_to_all", &a), IQ_OK);
        d = a, d.x = to_device(x, floats * 4), d.owner = to_device(p.owner, (size_t)rows * k * 4);
        for (unsigned s = 0; use_schedule(s, i); s++) {
            d.y = output_fresh(&y);
            ck_assert_int_eq(device.kernels->all_to_all(&d, NULL), IQ_OK);
            output_check(&y, i, s, a.back ? "what comes back" : "what goes out");
        }
        d.ranks = 3;
        ck_assert_int_eq(device.kernels->all_to_all(&d, NULL), IQ_SHAPE);
        device_release();
        output_close(&y);
        moe_dispatch_close(&p);
        free(x), free(a.y);
    }
}
END_TEST

START_TEST(combine_gives_the_bits_of_the_reference)
{
    for (uint64_t i = 0; i < 12; i++) {
        struct random r = {iq_mix64(i), 0};
        uint32_t rows = row_counts[i % 4], k = 1 + below(&r, 16), n = 1 + below(&r, 300);
        struct iq_moe_dispatch p = moe_dispatched(&r, rows, 16, k, 0, 1 + below(&r, 4));
        struct iq_combine a = {.rows = rows, .n = n, .k = k, .act = below(&r, 3), .ldy = n + below(&r, 3)}, d;
        size_t slots = (size_t)rows * k, bytes = rows * a.ldy * 4;
        float *x = moe_floats(&r, slots * n, moe_value, i % 2), *w = moe_floats(&r, slots, moe_logit, 2);
        a.x = x, a.weight = w, a.owner = p.owner, a.y = malloc(bytes);
        struct output y = output_open(a.y, bytes);
        ck_assert_int_eq(reference("combine", &a), IQ_OK);
        d = a, d.x = to_device(x, slots * n * 4), d.weight = to_device(w, slots * 4);
        d.owner = to_device(p.owner, slots * 4);
        for (unsigned s = 0; use_schedule(s, i); s++) {
            d.y = output_fresh(&y);
            ck_assert_int_eq(device.kernels->combine(&d, NULL), IQ_OK);
            output_check(&y, i, s, "combine");
        }
        device_release();
        output_close(&y);
        moe_dispatch_close(&p);
        free(x), free(w), free(a.y);
    }
}
END_TEST

/* The weights there: the arrays of descriptors stay here. */
static struct moe_weights weights_moved(const struct moe_weights *m)
{
    struct moe_weights there = *m;
    for (uint32_t p = 0; p < m->parts; p++) {
        there.w[p] = malloc(m->experts * sizeof *there.w[p]);
        for (uint32_t e = 0; e < m->experts; e++) {
            there.w[p][e] = m->w[p][e];
            there.w[p][e].data = to_device(m->w[p][e].data, m->w[p][e].panels * m->w[p][e].panel_bytes);
        }
    }
    return there;
}

/* On 1, 2, 4 ranks. */
static void grouped_check(struct random *r, enum iq_format f, uint32_t rows, uint32_t experts, uint32_t slots,
                          uint32_t most_k, uint64_t seed)
{
    const uint32_t block = (uint32_t)iq_format_info(f)->elements, n = 1 + below(r, 150);
    const uint32_t k = block * (1 + below(r, most_k / block)), act = below(r, 3);
    struct iq_moe_dispatch d = moe_dispatched(r, rows, experts, slots, !below(r, 4), below(r, 2) * 4),
                           there = d;
    struct moe_weights m = moe_weights_open(r, f, experts, 1 + below(r, 2), n, k, below(r, 2) ? 128 : 37, 1),
                       moved;
    size_t floats = (size_t)rows * slots * k, bytes = (size_t)rows * slots * n * 4;
    float *x = moe_floats(r, floats, moe_value, 1), *y[IQ_GROUPED_PARTS];
    struct output out[IQ_GROUPED_PARTS];
    for (uint32_t p = 0; p < m.parts; p++) y[p] = malloc(bytes), out[p] = output_open(y[p], bytes);
    const struct iq_grouped_matmul a = moe_grouped(&d, &m, x, act, y, 0, 1);
    ck_assert_int_eq(reference("grouped_matmul", &a), IQ_OK);
    moved = weights_moved(&m);
    there.owner = to_device(d.owner, (size_t)rows * slots * 4);
    there.first = to_device(d.first, (experts + (size_t)1) * 4);
    there.list = to_device(d.list, (size_t)rows * slots * 4);
    const float *there_x = to_device(x, floats * 4);
    for (unsigned s = 0; use_schedule(s, seed); s++) {
        const uint32_t ranks = experts % 4 ? 1 : 1u << s % 3;
        float *there_y[IQ_GROUPED_PARTS];
        for (uint32_t p = 0; p < m.parts; p++) there_y[p] = output_fresh(&out[p]);
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const struct iq_grouped_matmul g =
                moe_grouped(&there, &moved, there_x, act, there_y, rank, ranks);
            ck_assert_int_eq(device.kernels->grouped_matmul(&g, NULL), IQ_OK);
        }
        for (uint32_t p = 0; p < m.parts; p++) output_check(&out[p], seed, s, iq_format_info(f)->name);
    }
    device_release();
    for (uint32_t p = 0; p < m.parts; p++) output_close(&out[p]), free(y[p]), free(moved.w[p]);
    free(x);
    moe_weights_close(&m);
    moe_dispatch_close(&d);
}

START_TEST(grouped_products_of_every_format_give_the_bits_of_the_reference)
{
    static const uint32_t rows[] = {1, 5, 20, 40},
                          experts[] = {8, 4, 3, 40}; /* more than a warp of experts */
    for (uint64_t i = 0; i < 8; i++) {
        struct random r = {iq_mix64(i * IQ_FORMATS + (uint64_t)_i), 0};
        grouped_check(&r, (enum iq_format)_i, rows[i % 4], experts[i % 4], 1 + below(&r, 3), 700, i);
    }
}
END_TEST

START_TEST(grouped_products_of_long_lists_give_the_bits_of_the_reference)
{
    struct random r = {iq_mix64((uint64_t)_i), 0};
    grouped_check(&r, (enum iq_format)_i, 150, 2, 1 + (uint32_t)_i % 2, 200, (uint64_t)_i);
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cuda mixture of experts");
    TCase *t = tcase_create("moe");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, route_gives_the_bits_of_the_reference);
    tcase_add_test(t, dispatch_and_its_lists_give_the_bits_of_the_reference);
    tcase_add_test(t, all_to_all_gives_the_bits_of_the_reference);
    tcase_add_test(t, combine_gives_the_bits_of_the_reference);
    tcase_add_loop_test(t, grouped_products_of_every_format_give_the_bits_of_the_reference, 0, IQ_FORMATS);
    tcase_add_loop_test(t, grouped_products_of_long_lists_give_the_bits_of_the_reference, 0, IQ_FORMATS);
    suite_add_tcase(s, t);
    return check_main(s);
}
