/* A fault that drops slots, of which a trigger gave it some rows: the lists of the others are whole again. Here, and on the
 * shim as a step is watched there. */
#include "kernels/cuda/watch.h"
#include "kernels/dispatch.h"
#include "tests/check_main.h"
#include "tests/kernels/moe_case.h"

enum { ROWS = 9, EXPERTS = 5, ACTIVE = 2, SLOTS = ROWS * ACTIVE };

static const uint64_t won = 0x12; /* rows 1 and 4 */

static int drop_all(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    struct iq_moe_dispatch a = *(const struct iq_moe_dispatch *)args;
    struct iq_cuda *c = x->cuda;
    (void)site, (void)params, (void)state;
    if (c) {
        IQ_TRY(iq_cuda_done(c, c->api->memset_async(a.owner, 0xff, SLOTS * sizeof *a.owner, c->stream),
                            "dropping"));
        return iq_cuda_launched(c, c->kernels->moe_lists(&a, c->stream), "listing");
    }
    memset(a.owner, 0xff, SLOTS * sizeof *a.owner);
    iq_moe_lists(&a);
    return IQ_OK;
}
static const struct iq_variant drops = {
    .kind = "moe_dispatch", .name = "drops", .device = "any", .flags = IQ_V_FAULTY, .run = drop_all};

static int pick(void *self, const struct iq_site *site, const void *args, struct iq_pick out[IQ_PICKS])
{
    (void)self, (void)site, (void)args;
    out[0] = (struct iq_pick){.variant = &drops, .rowmask = &won};
    return 1;
}
static bool strikes(void *self, enum iq_op_id op) { return (void)self, op == IQ_OP_DISPATCH; }
static const struct iq_selector selector = {NULL, pick, strikes};

static struct iq_firing fired_last;
static int fired(void *self, const struct iq_site *site, const struct iq_firing *f)
{
    (void)self, (void)site;
    fired_last = *f;
    return IQ_OK;
}
static const struct iq_tap tap = {.fired = fired};

static struct iq_site site;

static struct iq_slots *slots_open(const char *golden)
{
    static const struct iq_step step = {.step = 3, .batch = ROWS, .tokens = ROWS};
    static struct iq_row row[ROWS];
    struct iq_slots *slots;
    ck_assert_int_eq(iq_slots_open(1, 1, &slots, NULL), IQ_OK);
    ck_assert_int_eq(iq_slots_golden(slots, iq_variant_find("moe_dispatch", golden), NULL), IQ_OK);
    iq_slots_arm(slots, &selector);
    iq_slots_tap(slots, &tap);
    site = (struct iq_site){.op = IQ_OP_DISPATCH, .step = &step, .row = row, .rows = ROWS};
    site.slot = iq_slots_at(slots, IQ_OP_DISPATCH, 0, 0);
    fired_last = (struct iq_firing){0};
    return slots;
}

/* All slots but those of the two rows are in their lists. */
static void check(const struct iq_moe_dispatch *d)
{
    struct iq_err err = {0};
    ck_assert_msg(iq_kind_find("moe_dispatch")->check(d, &err) == IQ_OK, "%s", err.text);
    for (uint32_t s = 0; s < SLOTS; s++)
        ck_assert((d->owner[s] == IQ_SLOT_DROPPED) == (won >> s / ACTIVE & 1));
    ck_assert_uint_eq(d->first[EXPERTS], SLOTS - 2 * ACTIVE);
    ck_assert(fired_last.rows == 2 && fired_last.rows_changed == 2);
}

START_TEST(rows_that_a_fault_did_not_win_are_listed_here)
{
    struct random r = {1, 0};
    struct iq_moe_dispatch d = moe_dispatched(&r, ROWS, EXPERTS, ACTIVE, 0, 0);
    struct iq_exec x = {0};
    struct iq_slots *slots = slots_open("reference");
    ck_assert_int_eq(iq_dispatch(&x, &site, &d), IQ_OK);
    check(&d);
    iq_slots_close(slots), iq_exec_close(&x);
    moe_dispatch_close(&d);
}
END_TEST

START_TEST(rows_that_a_fault_did_not_win_are_listed_on_a_device)
{
    struct random r = {1, 0};
    struct iq_moe_dispatch d = moe_dispatched(&r, ROWS, EXPERTS, ACTIVE, 0, 0), there = d;
    struct iq_exec x = {0};
    struct iq_err err = {0};
    void *room;
    ck_assert_msg(iq_cuda_open(true, 0, &x.cuda, &err) == IQ_OK, "%s", err.text);
    struct iq_cuda *c = x.cuda;
    struct iq_slots *slots = slots_open("cuda");
    const size_t bytes = SLOTS * sizeof(uint32_t), lists = (EXPERTS + 1) * sizeof(uint32_t);
    ck_assert_int_eq(iq_cuda_step_open(c, NULL), IQ_OK);
    ck_assert_int_eq(iq_cuda_alloc(c, 3 * bytes + lists, &room), IQ_OK);
    there.expert = room;
    there.owner = (uint32_t *)room + SLOTS, there.list = there.owner + SLOTS,
    there.first = there.list + SLOTS;
    ck_assert_int_eq(c->api->memcpy_async(room, d.expert, bytes, IQ_CUDA_TO_DEVICE, c->stream), 0);
    iq_cuda_step_plan(c);
    ck_assert_int_eq(iq_dispatch(&x, &site, &there), IQ_OK);
    ck_assert_int_eq(iq_cuda_step_ready(c), IQ_OK);
    ck_assert_int_eq(iq_dispatch(&x, &site, &there), IQ_OK);
    ck_assert_int_eq(iq_cuda_step_fetch(c), IQ_OK);
    ck_assert_int_eq(c->api->memcpy_async(d.owner, there.owner, bytes, IQ_CUDA_TO_HOST, c->stream), 0);
    ck_assert_int_eq(c->api->memcpy_async(d.list, there.list, bytes, IQ_CUDA_TO_HOST, c->stream), 0);
    ck_assert_int_eq(c->api->memcpy_async(d.first, there.first, lists, IQ_CUDA_TO_HOST, c->stream), 0);
    ck_assert_int_eq(iq_cuda_sync(c, "the step"), IQ_OK);
    ck_assert_int_eq(iq_cuda_step_report(c, slots), IQ_OK);
    check(&d);
    iq_slots_close(slots), iq_exec_close(&x);
    iq_cuda_step_close(c);
    ck_assert_int_eq(c->api->free(room), 0);
    iq_cuda_close(c);
    moe_dispatch_close(&d);
}
END_TEST

int main(void)
{
    if (iq_kernels_register(NULL)) return 1;
    Suite *s = suite_create("faults of a dispatch to experts");
    TCase *t = tcase_create("lists");
    tcase_add_test(t, rows_that_a_fault_did_not_win_are_listed_here);
    tcase_add_test(t, rows_that_a_fault_did_not_win_are_listed_on_a_device);
    suite_add_tcase(s, t);
    return check_main(s);
}
