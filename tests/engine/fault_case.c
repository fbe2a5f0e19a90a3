#include "tests/engine/fault_case.h"

#include "harness/trial/judge.h"
#include "tests/files/scratch.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

const char *iq_fault_text(const char *op, const char *variant, const char *params, const char *more)
{
    static char text[1024];
    snprintf(text, sizeof text, "{\"op\":\"%s\",\"variant\":\"%s\",\"params\":%s%s}", op, variant, params,
             more);
    return text;
}

void iq_fault_arm(struct iq_fault_armed *a, const char *text)
{
    struct iq_err err = {0};
    cJSON *json;
    int status = iq_faults_register(&err);
    if (status == IQ_OK) status = iq_json_parse(text, strlen(text), "fault", &json, &err);
    if (status == IQ_OK) status = iq_fault_parse(json, "fault", &a->fault, &err);
    if (status == IQ_OK) status = iq_faultset_open(&a->fault, 1, 3, &a->faults, &err);
    ck_assert_msg(status == IQ_OK, "%s: %s", text, err.text);
    iq_faultset_selector(a->faults, &a->selector);
    iq_json_free(json);
}

void iq_fault_disarm(struct iq_fault_armed *a)
{
    iq_faultset_close(a->faults);
    iq_fault_free(&a->fault);
}

void iq_fault_run(const struct iq_fault_bench *b, const char *text, struct iq_rig *g)
{
    struct iq_fault_armed a;
    if (text) iq_fault_arm(&a, text);
    iq_rig_run(g, b->model, &b->config, b->request, b->n, text ? &a.selector : NULL, false);
    iq_engine_arm(g->engine, NULL);
    if (text) iq_fault_disarm(&a);
}

uint32_t iq_fault_harm(const struct iq_fault_bench *b, const char *text, struct iq_rig_seen *seen)
{
    struct iq_rig golden, subject;
    iq_fault_run(b, NULL, &golden);
    iq_fault_run(b, text, &subject);
    uint32_t n = iq_rig_differing(&golden, &subject);
    *seen = subject.seen;
    iq_rig_close(&golden);
    iq_rig_close(&subject);
    return n;
}

/* ---- through the store and the comparator ---- */

static void manifest(const struct iq_rig *g, const struct iq_model *m, const char *plan, char *out,
                     size_t size)
{
    const struct iq_model_config *c = &m->config;
    char contract[IQ_DIGEST_HEX], packed[IQ_DIGEST_HEX], experts[32] = "";
    if (c->experts) snprintf(experts, sizeof experts, "\"experts\":%u,", c->experts);
    iq_digest_hex(iq_engine_contract(g->engine), contract);
    iq_digest_hex(m->packed_digest, packed);
    snprintf(out, size,
             "{\"contract\":\"%s\",\"model\":{\"sha256\":\"%s\",\"packed\":\"%s\",\"layout\":%u,\"hidden\":%"
             "u,\"ffn\":%u,%s"
             "\"heads\":%u,\"kv_heads\":%u,\"head_dim\":%u,\"vocab\":%u,\"weights\":\"F32\"},\"engine\":{"
             "\"tp\":%u}%s%s%s}",
             contract, m->sha256, packed, m->tp, (unsigned)c->hidden, (unsigned)c->ffn, experts,
             (unsigned)c->heads, (unsigned)c->kv_heads, (unsigned)c->head_dim, (unsigned)c->vocab, m->tp,
             plan ? ",\"plan\":{\"faults\":[" : "", plan ? plan : "", plan ? "]}" : "");
}

static void record(struct iq_store *store, const char *name, const struct iq_fault_bench *b, const char *plan,
                   const struct iq_selector *faults)
{
    struct iq_err err = {0};
    struct iq_rig g;
    struct iq_writer *writer;
    struct iq_engine_config c = b->config;
    char text[2048];
    c.level = IQ_LEVEL_OPS;
    iq_rig_open(&g, b->model, &c, b->request, b->n, faults, false);
    manifest(&g, b->model, plan, text, sizeof text);
    struct iq_write_spec spec = {
        .manifest = text, .level = IQ_LEVEL_OPS, .mode = IQ_WRITE_TRIAL, .name = name, .replace = true};
    spec.nodes = iq_engine_nodes(g.engine, &spec.n_nodes);
    ck_assert_msg(iq_store_begin(store, &spec, &writer, &err) == IQ_OK, "%s", err.text);
    g.also = iq_writer_sink(writer);
    iq_rig_go(&g);
    ck_assert_msg(iq_writer_finish(writer, IQ_RUN_COMPLETE, "", &err) == IQ_OK, "%s", err.text);
    iq_rig_close(&g);
}

static struct iq_finding *compare(struct iq_store *store)
{
    struct iq_err err = {0};
    struct iq_trace golden, subject;
    struct iq_judge judge;
    struct iq_finding *f = NULL;
    ck_assert_msg(iq_store_trace(store, "golden", &golden, &err) == IQ_OK, "%s", err.text);
    ck_assert_msg(iq_store_trace(store, "subject", &subject, &err) == IQ_OK, "%s", err.text);
    ck_assert_msg(iq_judge_open(subject.manifest, subject.manifest_len, &judge, &err) == IQ_OK, "%s",
                  err.text);
    int status = iq_compare(&golden, &subject, NULL, iq_judge_suspect, &judge, &f, &err);
    ck_assert_msg(status == IQ_OK, "%s", err.text);
    iq_judge_close(&judge);
    iq_trace_close(&golden), iq_trace_close(&subject);
    return f;
}

struct iq_finding *iq_fault_finding(const struct iq_fault_bench *b, const char *text)
{
    struct iq_err err = {0};
    struct iq_store *store;
    struct iq_store_tally tally;
    struct iq_fault_armed a;
    const struct iq_store_options create = {.create = true};
    ck_assert_msg(iq_store_open(iq_scratch("store"), &create, &store, &err) == IQ_OK, "%s", err.text);
    record(store, "golden", b, NULL, NULL);
    iq_fault_arm(&a, text);
    record(store, "subject", b, text, &a.selector);
    iq_fault_disarm(&a);
    ck_assert_msg(iq_store_verify(store, &tally, &err) == IQ_OK, "%s", err.text);
    struct iq_finding *f = compare(store);
    iq_store_close(store);
    return f;
}

void iq_fault_caught(const struct iq_fault_bench *b, const char *text, enum iq_label label,
                     const char *guilty)
{
    struct iq_finding *f = iq_fault_finding(b, text);
    ck_assert_msg(f->label == label, "%s: label %s (%s), expected %s", text, iq_label_text((int)f->label),
                  f->reason, iq_label_text((int)label));
    ck_assert_msg(!guilty == !f->n_guilty, "%s: %zu ops are guilty (%s), expected %s", text, f->n_guilty,
                  f->n_guilty ? f->guilty[0].op : "", guilty ? guilty : "none");
    for (size_t i = 0; i < f->n_guilty; i++)
        ck_assert_msg(!strcmp(f->guilty[i].op, guilty), "%s: %s is called guilty, expected %s alone", text,
                      f->guilty[i].op, guilty);
    iq_finding_free(f);
}
