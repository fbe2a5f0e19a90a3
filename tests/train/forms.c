#include "tests/train/forms.h"

#include "kernels/arith.h"

#include <string.h>

struct iq_exec forms_exec[4];

void forms_open(void)
{
    for (int i = 1; i <= 3; i++) rig_check_ok(iq_pool_open(i, &forms_exec[i].pool, &err));
}

void forms_close(void)
{
    for (int i = 1; i <= 3; i++) {
        iq_exec_close(&forms_exec[i]);
        iq_pool_close(forms_exec[i].pool);
    }
}

void forms_compare(const char *op, const struct forms_trial *t)
{
    float *want = calloc(t->outputs, sizeof *want), *got = calloc(t->outputs, sizeof *got);
    struct rig_random r = t->random;
    ck_assert_int_eq(t->one(&forms_exec[1], iq_train_ops_at(0), &r, want), IQ_OK);
    const struct iq_train_ops *o;
    for (size_t i = 1; (o = iq_train_ops_at(i)); i++)
        for (int threads = 1; threads <= 3 && (!o->usable || o->usable()); threads++) {
            memset(got, 0x5a, t->outputs * sizeof *got);
            r = t->random;
            ck_assert_int_eq(t->one(&forms_exec[threads], o, &r, got), IQ_OK);
            for (size_t k = 0; k < t->outputs; k++)
                ck_assert_msg(
                    iq_f32_bits(got[k]) == iq_f32_bits(want[k]),
                    "%s, %s with %d threads: float %zu is %a, the reference's %a (IQ_TEST_SEED=%llu)", op,
                    o->name, threads, k, got[k], want[k], (unsigned long long)rig_seed());
        }
    free(want);
    free(got);
}

struct rig_random forms_start(int round)
{
    return (struct rig_random){rig_seed() * 1000 + (uint64_t)round, 0};
}
