/* Kernels that misbehave: each is a row of its own with its reason, and the campaign goes on. One that writes beside its output
 * hurts nobody but itself. */
#include "harness/campaign/campaign.h"

#include "harness/plan/variants.h"
#include "kernels/dispatch.h"
#include "kernels/ops/matmul.h"
#include "tests/check_main.h"
#include "tests/files/make_model.h"
#include "tests/files/scratch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct iq_err err;

static int run_crash(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                     void *state)
{
    (void)x, (void)site, (void)args, (void)params, (void)state;
    abort();
}

static int run_for_ever(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                        void *state)
{
    (void)x, (void)site, (void)args, (void)params, (void)state;
    for (;;) usleep(1000);
    return IQ_OK;
}

static int run_hungry(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    (void)x, (void)site, (void)args, (void)params, (void)state;
    for (size_t n = 0;; n++) {
        char *more = malloc((size_t)1 << 20);
        if (!more) return IQ_MEMORY;
        memset(more, 1, (size_t)1 << 20);
    }
}

/* Over a weight: whoever shares the page with this trial would compute otherwise from here on. */
static int run_stray(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                     void *state)
{
    const struct iq_matmul *a = args;
    (void)x, (void)site, (void)params, (void)state;
    memset(a->part[0].y, 0, a->part[0].ldy * sizeof(float));
    unsigned char *stored = (unsigned char *)(uintptr_t)a->part[0].w->data;
    memset(stored, 0x55, 4096);
    return IQ_OK;
}

#define BAD(id, text)                                                                                        \
    {                                                                                                        \
        .kind = "matmul", .name = #id, .device = "cpu", .flags = IQ_V_FAULTY, .run = run_##id, .what = text, \
        .story = text, .expect = text                                                                        \
    }
static const struct iq_variant bad[] = {BAD(crash, "it aborts"), BAD(for_ever, "it never returns"),
                                        BAD(hungry, "it eats memory"), BAD(stray, "it writes over weights")};

struct rows {
    struct iq_trial_row row[64];
    uint32_t n;
};

static int take(void *self, const struct iq_trial_row *r)
{
    struct rows *rows = self;
    ck_assert_uint_lt(rows->n, 64);
    rows->row[rows->n++] = *r;
    return IQ_OK;
}

static void run(const char *faults, struct rows *rows)
{
    const char *plan = iq_scratch("plan.json"), *store = iq_scratch("S"), *model = iq_scratch("m.gguf");
    struct iq_test_spec spec = iq_test_spec_default();
    struct iq_store *s;
    struct iq_campaign_end end;
    rows->n = 0;
    ck_assert_msg(!iq_test_write_model(model, &spec, 1, &err), "%s", err.text);
    FILE *f = fopen(plan, "w");
    fprintf(
        f,
        "{\"faults\": [%s], \"tokens\": 3, \"repetitions\": 2, \"limits\": {\"seconds\": 2, \"mib\": 32}, "
        "\"prompts\": [{\"id\": \"a\", \"ids\": [3, 5, 9]}]}",
        faults);
    fclose(f);
    struct iq_campaign_options o = {
        .model = model, .store = store, .plan = plan, .jobs = 1, .shards = 1, .quiet = true};
    ck_assert_msg(!iq_campaign_run(&o, &end, &err), "%s", err.text);
    ck_assert_uint_eq(end.info.done, end.info.trials);
    ck_assert_msg(!iq_store_open(store, NULL, &s, &err), "%s", err.text);
    ck_assert_msg(!iq_campaign_rows(s, NULL, take, rows, &err), "%s", err.text);
    iq_store_close(s);
}

START_TEST(misbehaviour_is_a_row)
{
    static struct rows rows;
    ck_assert_msg(!iq_variants_register(&err), "%s", err.text);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(!iq_variant_register(&bad[i], &err), "%s", err.text);
    run("{\"op\": \"down\", \"variant\": \"crash\", \"when\": {\"step\": 1}},"
        "{\"op\": \"down\", \"variant\": \"for_ever\"},"
        "{\"op\": \"down\", \"variant\": \"hungry\"},"
        "{\"op\": \"down\", \"variant\": \"stray\", \"when\": {\"step\": 0, \"layer\": 0}},"
        "{\"op\": \"qkv\", \"variant\": \"low_precision\", \"params\": {\"bits\": 24}, \"when\": {\"step\": "
        "2}}",
        &rows);
    ck_assert_uint_eq(rows.n, 10);
    static const char *const why[] = {"killed by signal 6", "did not end within 2 s", "out of memory"};
    for (uint32_t i = 0; i < 6; i++) {
        ck_assert_int_eq(rows.row[i].label, IQ_LABEL_CRASHED);
        ck_assert_msg(strstr(rows.row[i].reason, why[i / 2]) != NULL, "%s", rows.row[i].reason);
    }
    for (uint32_t i = 6; i < 8; i++) {
        ck_assert_int_ne(rows.row[i].label, IQ_LABEL_IDENTICAL);
        ck_assert_str_eq(rows.row[i].guilty_op, "down");
        ck_assert_uint_eq(rows.row[i].caught, 1);
    }
    /* The weights of the others are what they were: a fault that rounds nothing away is golden, to the bit. */
    for (uint32_t i = 8; i < 10; i++) {
        ck_assert_uint_gt(rows.row[i].fired, 0);
        ck_assert_int_eq(rows.row[i].label, IQ_LABEL_IDENTICAL);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("campaign");
    TCase *t = tcase_create("misbehaviour");
    tcase_add_checked_fixture(t, iq_scratch_make, iq_scratch_remove);
    tcase_add_test(t, misbehaviour_is_a_row);
    suite_add_tcase(s, t);
    return check_main(s);
}
