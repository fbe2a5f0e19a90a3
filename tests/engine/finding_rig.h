/* Runs of a rig through the store and the comparator, as `record`, `run` and `diff` do it. Failures stop the test. */
#ifndef IQ_TESTS_ENGINE_FINDING_RIG_H
#define IQ_TESTS_ENGINE_FINDING_RIG_H

#include "golden/compare.h"
#include "golden/store.h"
#include "tests/engine/rig.h"

/* Runs the requests and records them as `name`, which is replaced. plan: the fault's JSON for the manifest, or NULL. seen:
 * what the run showed, or NULL. */
void iq_rig_record(struct iq_store *, const char *name, const struct iq_model *,
                   const struct iq_engine_config *, const struct iq_request *, uint32_t n, const char *plan,
                   const struct iq_selector *faults, struct iq_rig_seen *seen);
/* What the comparator finds between the runs "golden" and "subject". The caller frees it. */
struct iq_finding *iq_rig_compare(struct iq_store *);

#endif
