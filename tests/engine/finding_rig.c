#include "tests/engine/finding_rig.h"

#include "harness/trial/judge.h"
#include "tests/files/scratch.h"

#include <check.h>
#include <stdio.h>

static void manifest(const struct iq_rig *g, const struct iq_model *m, bool captured, const char *plan,
                     char *out, size_t size)
{
    const struct iq_model_config *c = &m->config;
    char contract[IQ_DIGEST_HEX], packed[IQ_DIGEST_HEX], experts[64] = "";
    if (c->experts)
        snprintf(experts, sizeof experts, "\"experts\":%u,\"active_experts\":%u,", c->experts, c->active);
    iq_digest_hex(iq_engine_contract(g->engine), contract);
    iq_digest_hex(m->packed_digest, packed);
    snprintf(out, size,
             "{\"contract\":\"%s\",\"model\":{\"sha256\":\"%s\",\"packed\":\"%s\",\"layout\":%u,\"hidden\":%"
             "u,\"ffn\":%u,%s"
             "\"heads\":%u,\"kv_heads\":%u,\"head_dim\":%u,\"vocab\":%u,\"weights\":\"F32\"},\"engine\":{"
             "\"tp\":%u,\"expert_parallel\":%u,\"captured\":%s}%s%s%s}",
             contract, m->sha256, packed, m->tp, (unsigned)c->hidden, (unsigned)c->ffn, experts,
             (unsigned)c->heads, (unsigned)c->kv_heads, (unsigned)c->head_dim, (unsigned)c->vocab, m->tp,
             m->expert_parallel, captured ? "true" : "false", plan ? ",\"plan\":{\"faults\":[" : "",
             plan ? plan : "", plan ? "]}" : "");
}

void iq_rig_record(struct iq_store *store, const char *name, const struct iq_model *m,
                   const struct iq_engine_config *c, const struct iq_request *request, uint32_t n,
                   const char *plan, const struct iq_selector *faults, struct iq_rig_seen *seen)
{
    struct iq_err err = {0};
    struct iq_rig g;
    struct iq_writer *writer;
    char text[2048];
    iq_rig_open(&g, m, c, request, n, faults, false);
    manifest(&g, m, c->captured, plan, text, sizeof text);
    struct iq_write_spec spec = {
        .manifest = text, .level = c->level, .mode = IQ_WRITE_TRIAL, .name = name, .replace = true};
    spec.nodes = iq_engine_nodes(g.engine, &spec.n_nodes);
    ck_assert_msg(iq_store_begin(store, &spec, &writer, &err) == IQ_OK, "%s", err.text);
    g.also = iq_writer_sink(writer);
    iq_rig_go(&g);
    ck_assert_msg(iq_writer_finish(writer, IQ_RUN_COMPLETE, "", &err) == IQ_OK, "%s", err.text);
    if (seen) *seen = g.seen;
    iq_rig_close(&g);
}

struct iq_finding *iq_rig_compare(struct iq_store *store)
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
