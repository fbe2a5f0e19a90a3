/* Faults in control ops, inside the engine: a scene (model, requests, settings), golden and subject recorded at level ops,
 * and what the comparator says. Failures stop the test. */
#ifndef IQ_TESTS_ENGINE_CONTROL_RIG_H
#define IQ_TESTS_ENGINE_CONTROL_RIG_H

#include "faults/families.h"
#include "faults/faultset.h"
#include "golden/store.h"
#include "harness/trial/judge.h"
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct scene {
    const struct iq_model *model;
    struct iq_engine_config config;
    const struct iq_request *request;
    uint32_t n;
};

struct armed {
    struct iq_fault fault;
    struct iq_faultset *faults;
    struct iq_selector selector;
};

static inline void arm(struct armed *a, const char *text)
{
    struct iq_err err = {0};
    cJSON *json;
    int status = iq_json_parse(text, strlen(text), "fault", &json, &err);
    if (status == IQ_OK) status = iq_fault_parse(json, "fault", &a->fault, &err);
    if (status == IQ_OK) status = iq_faultset_open(&a->fault, 1, 3, &a->faults, &err);
    ck_assert_msg(status == IQ_OK, "%s: %s", text, err.text);
    iq_faultset_selector(a->faults, &a->selector);
    iq_json_free(json);
}

static inline void disarm(struct armed *a)
{
    iq_faultset_close(a->faults);
    iq_fault_free(&a->fault);
}

/* Runs the scene with the fault (NULL: golden); *g is closed by the caller. */
static inline void scene_run(const struct scene *s, const char *fault, struct iq_rig *g)
{
    struct armed a;
    if (fault) arm(&a, fault);
    iq_rig_run(g, s->model, &s->config, s->request, s->n, fault ? &a.selector : NULL, false);
    if (fault) disarm(&a);
}

/* Requests that answer otherwise than golden; *fired and *changed from the firing log. */
static inline uint32_t scene_harmed(const struct scene *s, const char *fault, uint32_t *fired,
                                    uint32_t *changed)
{
    struct iq_rig golden, subject;
    scene_run(s, NULL, &golden);
    scene_run(s, fault, &subject);
    uint32_t n = iq_rig_differing(&golden, &subject);
    *fired = subject.seen.fired;
    *changed = subject.seen.changed;
    iq_rig_close(&golden), iq_rig_close(&subject);
    return n;
}

static inline void scene_record(const struct scene *s, struct iq_store *store, const char *name,
                                const char *fault)
{
    struct iq_err err = {0};
    struct iq_rig g;
    struct iq_writer *writer;
    struct iq_engine_config c = s->config;
    struct armed a;
    const struct iq_model_config *m = &s->model->config;
    char text[2048], contract[IQ_DIGEST_HEX], packed[IQ_DIGEST_HEX];
    if (fault) arm(&a, fault);
    c.level = IQ_LEVEL_OPS;
    iq_rig_open(&g, s->model, &c, s->request, s->n, fault ? &a.selector : NULL, false);
    iq_digest_hex(iq_engine_contract(g.engine), contract);
    iq_digest_hex(s->model->packed_digest, packed);
    snprintf(text, sizeof text,
             "{\"contract\":\"%s\",\"prompts\":\"%08x\",\"model\":{\"sha256\":\"%s\",\"packed\":\"%s\","
             "\"layout\":1,"
             "\"hidden\":%u,\"ffn\":%u,\"heads\":%u,\"kv_heads\":%u,\"head_dim\":%u,\"vocab\":%u,"
             "\"weights\":\"F32\"},\"engine\":{\"tp\":1}%s%s%s}",
             contract, s->n, s->model->sha256, packed, m->hidden, m->ffn, m->heads, m->kv_heads, m->head_dim,
             m->vocab, fault ? ",\"plan\":{\"faults\":[" : "", fault ? fault : "", fault ? "]}" : "");
    struct iq_write_spec spec = {.manifest = text,
                                 .level = IQ_LEVEL_OPS,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = name,
                                 .replace = true,
                                 .move_name = true};
    spec.nodes = iq_engine_nodes(g.engine, &spec.n_nodes);
    ck_assert_msg(iq_store_begin(store, &spec, &writer, &err) == IQ_OK, "%s", err.text);
    g.also = iq_writer_sink(writer);
    iq_rig_go(&g);
    ck_assert_msg(iq_writer_finish(writer, IQ_RUN_COMPLETE, "", &err) == IQ_OK, "%s", err.text);
    iq_rig_close(&g);
    if (fault) disarm(&a);
}

/* Golden and subject through the store and the comparator; the finding is the caller's. */
static inline struct iq_finding *scene_finding(const struct scene *s, const char *fault)
{
    struct iq_err err = {0};
    struct iq_store *store;
    struct iq_store_tally tally;
    struct iq_trace golden, subject;
    struct iq_judge judge;
    struct iq_finding *f = NULL;
    const struct iq_store_options create = {.create = true};
    ck_assert_msg(iq_store_open(iq_scratch("store"), &create, &store, &err) == IQ_OK, "%s", err.text);
    scene_record(s, store, "golden", NULL);
    scene_record(s, store, "subject", fault);
    ck_assert_msg(iq_store_verify(store, &tally, &err) == IQ_OK, "%s: %s", fault, err.text);
    ck_assert_msg(iq_store_trace(store, "golden", &golden, &err) == IQ_OK, "%s", err.text);
    ck_assert_msg(iq_store_trace(store, "subject", &subject, &err) == IQ_OK, "%s", err.text);
    ck_assert_msg(iq_judge_open(subject.manifest, subject.manifest_len, &judge, &err) == IQ_OK, "%s",
                  err.text);
    int status = iq_compare(&golden, &subject, NULL, iq_judge_suspect, &judge, &f, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
    iq_judge_close(&judge);
    iq_trace_close(&golden), iq_trace_close(&subject);
    iq_store_close(store);
    return f;
}

/* The one guilty op is `op`, under this label. */
static inline void scene_called(const struct scene *s, const char *fault, const char *op, enum iq_label label)
{
    struct iq_finding *f = scene_finding(s, fault);
    ck_assert_msg(f->label == label, "%s: label %s (%s)", fault, iq_label_text((int)f->label), f->reason);
    for (size_t i = 0; i < f->n_guilty; i++)
        ck_assert_msg(!strcmp(f->guilty[i].op, op), "%s: %s is called guilty, expected %s", fault,
                      f->guilty[i].op, op);
    ck_assert_msg(f->n_guilty == 1 && f->guilty[0].fault == 0, "%s: %zu guilty", fault, f->n_guilty);
    iq_finding_free(f);
}

static inline void scene_caught(const struct scene *s, const char *fault, const char *op)
{
    scene_called(s, fault, op, IQ_LABEL_WRONG);
}

/* It may fire, but nothing differs. */
static inline void scene_unharmed(const struct scene *s, const char *fault)
{
    uint32_t fired, changed;
    ck_assert_msg(scene_harmed(s, fault, &fired, &changed) == 0,
                  "%s: %u fired, %u changed, and answers differ", fault, fired, changed);
    struct iq_finding *f = scene_finding(s, fault);
    ck_assert_msg(f->label == IQ_LABEL_IDENTICAL, "%s: label %s (%s)", fault, iq_label_text((int)f->label),
                  f->reason);
    iq_finding_free(f);
}

static inline void scene_harms(const struct scene *s, const char *fault)
{
    uint32_t fired, changed, n = scene_harmed(s, fault, &fired, &changed);
    ck_assert_msg(n && changed, "%s: %u fired, %u changed, %u of %u requests differ", fault, fired, changed,
                  n, s->n);
}

#endif
