/* Each family of the table: fires, is called what it is at the right op, and is nothing where it can't strike. */
#include "tests/check_main.h"
#include "tests/engine/families_table.h"
#include "tests/engine/finding_rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include "faults/faultset.h"
#include "harness/plan/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct iq_model *models[2][3]; /* by kind and ranks */
static struct iq_rig_set prompts[2];

/* Once for all tests: each runs in a process of its own. */
static void open_all(void)
{
    struct iq_err err = {0};
    iq_scratch_make();
    for (uint32_t ranks = 1; ranks <= 2; ranks++) {
        models[DENSE][ranks] = iq_rig_model(iq_small_write(&iq_small[IQ_SMALL_WIDE]), ranks);
        models[EXPERTS][ranks] =
            iq_rig_model_experts(iq_small_write(&iq_small[IQ_SMALL_EXPERTS]), ranks, ranks);
    }
    ck_assert_msg(iq_variants_register(&err) == IQ_OK, "%s", err.text);
    uint32_t vocab = models[DENSE][1]->config.vocab;
    prompts[SHORT] = iq_rig_set_make(11, &(struct iq_rig_shape){8, vocab, 40, 6, 36, false});
    prompts[MIXED] = iq_rig_set_make(23, &(struct iq_rig_shape){6, vocab, 90, 8, 20, false});
}

static void close_all(void)
{
    for (int kind = 0; kind < 2; kind++) {
        iq_rig_set_free(&prompts[kind]);
        for (int ranks = 1; ranks <= 2; ranks++) iq_model_close(models[kind][ranks]);
    }
    iq_scratch_remove();
}

/* ---- runs of a row ---- */

static const struct iq_model *model_of(const struct families_row *f) { return models[f->model][f->tp]; }

static struct iq_engine_config config_of(const struct families_row *f)
{
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.batch = f->setting.batch ? f->setting.batch : 4;
    c.chunk = f->setting.chunk;
    c.captured = f->setting.captured;
    c.level = IQ_LEVEL_OPS;
    return c;
}

struct armed {
    struct iq_fault fault;
    struct iq_faultset *faults;
    struct iq_selector selector;
    char text[512];
};

static void arm(struct armed *a, const struct families_row *f, const char *params, const char *more)
{
    struct iq_err err = {0};
    cJSON *json;
    snprintf(a->text, sizeof a->text, "{\"op\":\"%s\",\"variant\":\"%s\",\"params\":%s%s}", f->op, f->variant,
             params, more);
    int status = iq_json_parse(a->text, strlen(a->text), "fault", &json, &err);
    if (status == IQ_OK) status = iq_fault_parse(json, "fault", &a->fault, &err);
    if (status == IQ_OK) status = iq_faultset_open(&a->fault, 1, 3, &a->faults, &err);
    ck_assert_msg(status == IQ_OK, "%s: %s", a->text, err.text);
    iq_faultset_selector(a->faults, &a->selector);
    iq_json_free(json);
}

static void disarm(struct armed *a)
{
    iq_faultset_close(a->faults);
    iq_fault_free(&a->fault);
}

static void run(struct iq_rig *g, const struct families_row *f, const struct iq_selector *faults)
{
    const struct iq_engine_config c = config_of(f);
    const struct iq_rig_set *set = &prompts[f->setting.prompts];
    iq_rig_run(g, model_of(f), &c, set->request, set->n, faults, false);
}

static void same_as(const struct iq_rig *golden, const struct families_row *f, const char *params,
                    const char *more, bool may_fire)
{
    struct armed a;
    struct iq_rig g;
    arm(&a, f, params, more);
    run(&g, f, &a.selector);
    uint32_t n = iq_rig_differing(golden, &g);
    ck_assert_msg(n == 0 && g.seen.changed == 0 && (may_fire || g.seen.fired == 0),
                  "%s: %u answers differ, %u fired, %u rows changed", a.text, n, g.seen.fired,
                  g.seen.changed);
    iq_rig_close(&g);
    disarm(&a);
}

/* ---- what each has to show ---- */

START_TEST(with_rate_zero_and_where_it_cannot_strike_no_bit_differs)
{
    const struct families_row *f = &families[_i];
    struct iq_rig golden;
    run(&golden, f, NULL);
    same_as(&golden, f, f->params, ",\"rate\":0", false);
    if (f->masked) same_as(&golden, f, f->masked, "", true);
    iq_rig_close(&golden);
}
END_TEST

/* NaN everywhere ends the run: it says so, and that is the finding. */
static void ends_in_nan(const struct families_row *f)
{
    const struct iq_engine_config c = config_of(f);
    const struct iq_rig_set *set = &prompts[f->setting.prompts];
    struct iq_err err = {0};
    struct iq_rig g;
    struct armed a;
    bool more = true;
    int status = IQ_OK;
    arm(&a, f, f->params, f->more);
    iq_rig_open(&g, model_of(f), &c, set->request, set->n, &a.selector, false);
    while (more && status == IQ_OK) status = iq_engine_step(g.engine, &more, &err);
    ck_assert_msg(status != IQ_OK && strstr(err.text, "NaN") && g.seen.changed > 0,
                  "%s: %d %s, %u rows changed", a.text, status, err.text, g.seen.changed);
    iq_rig_close(&g);
    disarm(&a);
}

START_TEST(it_fires_and_is_called_what_it_is)
{
    const struct families_row *f = &families[_i];
    if (f->label == IQ_LABEL_CRASHED) return ends_in_nan(f);
    const struct iq_rig_set *set = &prompts[f->setting.prompts];
    const struct iq_store_options create = {.create = true};
    const struct iq_engine_config c = config_of(f);
    struct iq_store *store;
    struct iq_rig_seen seen;
    struct iq_err err = {0};
    struct armed a;
    char name[16];
    snprintf(name, sizeof name, "store%d", _i);
    ck_assert_msg(iq_store_open(iq_scratch(name), &create, &store, &err) == IQ_OK, "%s", err.text);
    arm(&a, f, f->params, f->more);
    iq_rig_record(store, "golden", model_of(f), &c, set->request, set->n, NULL, NULL, NULL);
    iq_rig_record(store, "subject", model_of(f), &c, set->request, set->n, a.text, &a.selector, &seen);
    ck_assert_msg(seen.fired > 0 && seen.changed > 0, "%s: fired %u times, %u rows changed", a.text,
                  seen.fired, seen.changed);
    struct iq_finding *found = iq_rig_compare(store);
    ck_assert_msg(found->label == f->label, "%s: label %s (%s), expected %s", a.text,
                  iq_label_text((int)found->label), found->reason, iq_label_text((int)f->label));
    ck_assert_msg(found->n_guilty > 0 && !strcmp(found->guilty[0].op, f->guilty),
                  "%s: guilty %s, expected %s", a.text, found->n_guilty ? found->guilty[0].op : "none",
                  f->guilty);
    for (size_t i = 0; i < found->n_guilty && !f->others; i++)
        ck_assert_msg(!strcmp(found->guilty[i].op, f->guilty), "%s: %s is called guilty too", a.text,
                      found->guilty[i].op);
    iq_finding_free(found);
    iq_store_close(store);
    disarm(&a);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("families");
    TCase *c = tcase_create("families");
    tcase_set_timeout(c, 120);
    tcase_add_unchecked_fixture(c, open_all, close_all);
    tcase_add_loop_test(c, with_rate_zero_and_where_it_cannot_strike_no_bit_differs, 0, FAMILIES);
    tcase_add_loop_test(c, it_fires_and_is_called_what_it_is, 0, FAMILIES);
    suite_add_tcase(s, c);
    return check_main(s);
}
