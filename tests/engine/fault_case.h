/* A fault in an engine, from its JSON text to what the comparator finds: for the tests of families. Failures stop the
 * test. */
#ifndef IQ_TESTS_ENGINE_FAULT_CASE_H
#define IQ_TESTS_ENGINE_FAULT_CASE_H

#include "faults/families.h"
#include "faults/faultset.h"
#include "golden/compare.h"
#include "golden/store.h"
#include "tests/engine/rig.h"

struct iq_fault_armed {
    struct iq_fault fault;
    struct iq_faultset *faults;
    struct iq_selector selector;
};

/* The text {"op": ..., "variant": ..., "params": ...MORE}, until the next call; more: `,"rate":0`, or "". */
const char *iq_fault_text(const char *op, const char *variant, const char *params, const char *more);
void iq_fault_arm(struct iq_fault_armed *, const char *text);
void iq_fault_disarm(struct iq_fault_armed *);

/* What a case is run with: one model, its requests, its engine. */
struct iq_fault_bench {
    const struct iq_model *model;
    const struct iq_request *request;
    uint32_t n;
    struct iq_engine_config config;
};
/* Runs it; text NULL: golden. */
void iq_fault_run(const struct iq_fault_bench *, const char *text, struct iq_rig *);
/* Requests that answer otherwise than golden, under the fault; what fired is in *seen. */
uint32_t iq_fault_harm(const struct iq_fault_bench *, const char *text, struct iq_rig_seen *seen);
/* Records golden and subject at level ops, compares them; the caller frees the finding. */
struct iq_finding *iq_fault_finding(const struct iq_fault_bench *, const char *text);
/* The finding has this label, and this op alone is guilty. */
void iq_fault_caught(const struct iq_fault_bench *, const char *text, enum iq_label, const char *guilty);

#endif
