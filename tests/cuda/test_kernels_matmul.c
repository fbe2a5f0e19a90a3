/* The CUDA product gives the bits of the reference: formats, ragged K, panels that are not full, several units, parts. */
#include "tests/check_main.h"
#include "tests/cuda/product_case.h"

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
