/* The references that were built again: never golden, told apart by measurement, and the measurement can tell. */
#include "faults/families.h"
#include "harness/cli/doctor_variants.h"
#include "harness/plan/variants.h"
#include "kernels/dispatch.h"
#include "kernels/miscompiled/miscompiled.h"
#include "tests/check_main.h"

#include <string.h>

static void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_variants_register(&err), "%s", err.text);
}

static struct iq_variant_report measured(const struct iq_variant *v)
{
    struct iq_variant_report r;
    struct iq_err err = {0};
    ck_assert_msg(iq_variant_differs(v, &r, &err) == IQ_OK, "%s: %s", v->name, err.text);
    return r;
}

START_TEST(none_may_serve_golden)
{
    struct iq_slots *slots;
    ck_assert_int_eq(iq_slots_open(1, 1, &slots, NULL), IQ_OK);
    for (const struct iq_variant *const *v = iq_miscompiled_variants; *v; v++) {
        ck_assert_msg((*v)->flags == IQ_V_BENIGN, "%s", (*v)->name);
        ck_assert_ptr_eq(iq_variant_find((*v)->kind, (*v)->name), *v);
        ck_assert_int_eq(iq_slots_golden(slots, *v, NULL), IQ_ABI);
        ck_assert_msg((*v)->run != iq_variant_find((*v)->kind, "reference")->run, "%s is the reference",
                      (*v)->name);
    }
    iq_slots_close(slots);
}
END_TEST

START_TEST(each_is_measured_and_says_how_it_differs)
{
    uint32_t seen[4] = {0};
    for (const struct iq_variant *const *v = iq_miscompiled_variants; *v; v++) {
        struct iq_variant_report r = measured(*v);
        ck_assert_int_eq(r.first[0] != 0, r.differs == IQ_DIFFERS_BENIGN || r.differs == IQ_DIFFERS_WRONG);
        /* The house's flags alone decide, not who compiles and at what level. */
        if (strstr((*v)->name, "_other_o0"))
            ck_assert_msg(r.differs == IQ_DIFFERS_NEVER, "%s: %s", (*v)->name, r.first);
        /* What may fuse only adds precision; what can't keep its accumulator is far off. */
        if (strstr((*v)->name, "_contract")) ck_assert_msg(r.differs != IQ_DIFFERS_WRONG, "%s", r.first);
        if (strstr((*v)->name, "_half")) ck_assert_msg(r.differs == IQ_DIFFERS_WRONG, "%s", (*v)->name);
        seen[r.differs]++;
    }
    ck_assert(seen[IQ_DIFFERS_NEVER] && seen[IQ_DIFFERS_BENIGN] && seen[IQ_DIFFERS_WRONG]);
}
END_TEST

/* A measurement that could say nothing else would be none: references and golden forms, and wrong variants. */
START_TEST(it_tells_golden_and_wrong_variants_apart)
{
    static const char *const kinds[] = {"topk", "rmsnorm", "attention", "matmul", "all_reduce"};
    for (int i = 0; i < 5; i++) {
        ck_assert_int_eq(measured(iq_variant_find(kinds[i], "reference")).differs, IQ_DIFFERS_NEVER);
        ck_assert_int_eq(measured(iq_variant_golden(kinds[i], NULL)).differs, IQ_DIFFERS_NEVER);
    }
    ck_assert_int_eq(measured(&iq__k1_index_bias).differs, IQ_DIFFERS_WRONG);
    ck_assert_int_eq(measured(&iq__k7_split_combine).differs, IQ_DIFFERS_WRONG);
    struct iq_err err = {0};
    struct iq_variant_report r;
    ck_assert_int_eq(iq_variant_differs(&iq__k1_expert_bias, &r, &err), IQ_UNSUPPORTED);
    ck_assert_msg(strstr(err.text, "route") != NULL, "%s", err.text);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("miscompiled");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, setup, NULL);
    tcase_add_test(t, none_may_serve_golden);
    tcase_add_test(t, each_is_measured_and_says_how_it_differs);
    tcase_add_test(t, it_tells_golden_and_wrong_variants_apart);
    Suite *s = suite_create("miscompiled");
    suite_add_tcase(s, t);
    return check_main(s);
}
