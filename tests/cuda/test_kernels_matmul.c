/* The CUDA product gives the bits of the reference: formats, ragged K, panels that are not full, several units, parts. */
#include "tests/check_main.h"
#include "tests/cuda/device_case.h"

#include "kernels/matrix.h"
#include "tests/kernels/matmul_case.h"

struct product_case {
    struct iq_matmul host, on_device;
    struct iq_matrix matrix[IQ_MATMUL_PARTS], moved[IQ_MATMUL_PARTS];
    float *bias[IQ_MATMUL_PARTS], *x;
    uint8_t *raw[IQ_MATMUL_PARTS];
    struct output y[IQ_MATMUL_PARTS];
};

static void part_open(struct product_case *c, uint32_t p, enum iq_format f, uint32_t n, uint32_t k,
                      uint32_t sum_unit, bool odd, uint64_t *seed)
{
    struct random r = {*seed, 0};
    c->raw[p] = random_rows(&r, f, n, k, odd);
    c->matrix[p] = packed(f, n, k, sum_unit, c->raw[p]);
    c->moved[p] = c->matrix[p];
    c->moved[p].data = to_device(c->matrix[p].data, c->matrix[p].panels * c->matrix[p].panel_bytes);
    c->bias[p] = dice(seed, 2) ? new_floats(seed, n, odd) : NULL;
    struct iq_matmul_part *part = &c->host.part[p];
    *part = (struct iq_matmul_part){&c->matrix[p], c->bias[p], NULL, n + 1 + dice(seed, 3), dice(seed, 4)};
    part->y = malloc(c->host.rows * part->ldy * 4);
    c->y[p] = output_open(part->y, c->host.rows * part->ldy * 4);
    c->on_device.part[p] = *part;
    c->on_device.part[p].w = &c->moved[p];
    if (c->bias[p]) c->on_device.part[p].bias = to_device(c->bias[p], n * 4);
}

static void product_check(struct product_case *c, uint64_t replay, uint64_t *seed, bool odd, const char *what)
{
    uint32_t width = 0;
    for (uint32_t p = 0; p < c->host.parts; p++) {
        uint32_t end = c->matrix[p].k + c->host.part[p].x_at;
        width = end > width ? end : width;
    }
    c->host.ldx = c->on_device.ldx = width + dice(seed, 3);
    c->x = new_floats(seed, c->host.rows * c->host.ldx, odd);
    c->host.x = c->x;
    ck_assert_int_eq(reference("matmul", &c->host), IQ_OK);
    c->on_device.rows = c->host.rows, c->on_device.parts = c->host.parts, c->on_device.act = c->host.act;
    c->on_device.x = to_device(c->x, c->host.rows * c->host.ldx * 4);
    for (unsigned s = 0; use_schedule(s, *seed); s++) {
        for (uint32_t p = 0; p < c->host.parts; p++) c->on_device.part[p].y = output_fresh(&c->y[p]);
        ck_assert_int_eq(device.kernels->matmul(&c->on_device, NULL), IQ_OK);
        for (uint32_t p = 0; p < c->host.parts; p++) output_check(&c->y[p], replay, s, what);
    }
    device_release();
    for (uint32_t p = 0; p < c->host.parts; p++)
        output_close(&c->y[p]), free(c->host.part[p].y), free(c->bias[p]), free(c->raw[p]),
            free((void *)c->matrix[p].data);
    free(c->x);
}

static const uint32_t units[] = {IQ_UNIT, 192, 64, 100, 333, 37, 1000, 1};

/* One format: every number of rows that has its own tile, and random shapes. */
static void one_format(enum iq_format f)
{
    static const uint32_t rows[] = {1, 3, 4, 8, 9, 33, 690}; /* the last: enough for wide tiles */
    uint64_t seed = 0x100 + (uint64_t)f;
    for (int n = 0; n < 14; n++) {
        uint64_t replay = seed;
        struct product_case c = {.host = {.rows = rows[n % 7], .parts = 1, .act = dice(&seed, 3)}};
        uint32_t block = (uint32_t)iq_format_info(f)->elements, most = (n % 7 == 6 ? 160 : 1400) / block;
        uint32_t sum_unit = units[dice(&seed, 8)], k = block * (1 + dice(&seed, most));
        if (sum_unit == 1) k = block * (1 + dice(&seed, 64 / block));
        bool odd = n & 1;
        part_open(&c, 0, f, (n % 7 == 6 ? 130 : 1) + dice(&seed, n % 7 == 6 ? 20 : 150), k, sum_unit, odd,
                  &seed);
        product_check(&c, replay, &seed, odd, iq_format_info(f)->name);
    }
}

START_TEST(products_of_every_format_give_the_bits_of_the_reference) { one_format((enum iq_format)_i); }
END_TEST

START_TEST(parts_of_several_formats_and_widths_give_the_bits_of_the_reference)
{
    uint64_t seed = 0x200;
    for (int n = 0; n < 4; n++) {
        uint64_t replay = seed;
        struct product_case c = {
            .host = {.rows = n % 2 ? 5 : 1, .parts = 1 + dice(&seed, 6), .act = IQ_ACT_F32}};
        for (uint32_t p = 0; p < c.host.parts; p++)
            part_open(&c, p, (enum iq_format)dice(&seed, IQ_FORMATS), 1 + dice(&seed, 140),
                      32 * (1 + dice(&seed, 12)), units[dice(&seed, 3)], false, &seed);
        product_check(&c, replay, &seed, false, "a part");
    }
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("cuda products");
    TCase *t = tcase_create("matmul");
    tcase_set_timeout(t, 240);
    tcase_add_loop_test(t, products_of_every_format_give_the_bits_of_the_reference, 0, IQ_FORMATS);
    tcase_add_test(t, parts_of_several_formats_and_widths_give_the_bits_of_the_reference);
    suite_add_tcase(s, t);
    return check_main(s);
}
