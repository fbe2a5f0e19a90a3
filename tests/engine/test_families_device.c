/* Families that have a form for devices: the same tokens, chains, cells and firing records there as on the CPU, to the bit. */
#include "tests/check_main.h"
#include "tests/engine/device_rig.h"
#include "tests/engine/families_table.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "faults/faultset.h"
#include "harness/plan/variants.h"
#include "kernels/cuda/shim/control.h"

#include <stdio.h>
#include <string.h>

static struct iq_model *models[2];
static struct iq_rig_set requests;

static void open_all(void)
{
    struct iq_err err = {0};
    iq_scratch_make();
    models[DENSE] = iq_rig_model(iq_small_write(&iq_small[IQ_SMALL_WIDE]), 1);
    models[EXPERTS] = iq_rig_model(iq_small_write(&iq_small[IQ_SMALL_EXPERTS]), 1);
    ck_assert_msg(iq_variants_register(&err) == IQ_OK, "%s", err.text);
    requests = iq_rig_few(iq_rig_seed(), models[DENSE]->config.vocab, true);
}

static void close_all(void)
{
    iq_rig_set_free(&requests);
    iq_model_close(models[DENSE]), iq_model_close(models[EXPERTS]);
    iq_scratch_remove();
}

/* Every call struck; or, in captured graphs, some calls. */
static void twins(const struct families_row *f, const char *more, bool captured)
{
    char text[512];
    struct iq_err err = {0};
    struct iq_fault fault;
    struct iq_faultset *set;
    struct iq_selector selector;
    struct iq_rig_recorded device;
    cJSON *json;
    snprintf(text, sizeof text, "{\"op\":\"%s\",\"variant\":\"%s\",\"params\":%s%s}", f->op, f->variant,
             f->params, more);
    int status = iq_json_parse(text, strlen(text), "fault", &json, &err);
    if (status == IQ_OK) status = iq_fault_parse(json, "fault", &fault, &err);
    if (status == IQ_OK) status = iq_faultset_open(&fault, 1, 3, &set, &err);
    ck_assert_msg(status == IQ_OK, "%s: %s", text, err.text);
    iq_json_free(json);
    iq_faultset_selector(set, &selector);
    struct iq_rig_case k = {.what = text,
                            .model = models[f->model],
                            .config = IQ_ENGINE_CONFIG,
                            .request = requests.request,
                            .n = 3,
                            .faults = &selector};
    k.config.batch = 3;
    k.config.captured = captured;
    k.config.level = captured ? IQ_LEVEL_CHAIN : IQ_LEVEL_OPS;
    iq_rig_schedule(captured ? "random:3" : "reverse", IQ_SHIM_POISON_HIGH);
    iq_rig_twins(&k, &device);
    ck_assert_msg(device.rig.seen.fired > 0 && device.rig.seen.changed > 0, "%s: %u fired, %u rows changed",
                  text, device.rig.seen.fired, device.rig.seen.changed);
    iq_rig_recorded_close(&device);
    iq_faultset_close(set);
    iq_fault_free(&fault);
}

START_TEST(the_same_on_both_sides)
{
    const struct families_row *f = &families[_i];
    const struct iq_kind *kind = iq_op_kind((enum iq_op_id)iq_op_find(f->op));
    const struct iq_variant *v = iq_variant_find(kind->name, f->variant);
    ck_assert_ptr_nonnull(v);
    if (strcmp(v->device, "any")) return; /* a device refuses it by name */
    twins(f, _i % 2 ? ",\"rate\":0.6" : "", _i % 2);
}
END_TEST

int main(void)
{
    iq_rig_device();
    Suite *s = suite_create("families on a device");
    TCase *c = tcase_create("families");
    tcase_set_timeout(c, 300);
    tcase_add_unchecked_fixture(c, open_all, close_all);
    tcase_add_loop_test(c, the_same_on_both_sides, 0, FAMILIES);
    suite_add_tcase(s, c);
    return check_main(s);
}
