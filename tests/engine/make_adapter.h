/* Low-rank adapters for tests: folders as PEFT writes them, with random weights. */
#ifndef IQ_TESTS_MAKE_ADAPTER_H
#define IQ_TESTS_MAKE_ADAPTER_H

#include "engine/adapter.h"

struct iq_adapter_spec {
    uint32_t rank;
    unsigned targets; /* bit t: enum iq_target t */
    double alpha;
    bool rslora;
    uint64_t seed;
    const char *config; /* more members of adapter_config.json, `,"use_dora":true`; or NULL */
    const char *extra;  /* the name of one more tensor, or NULL */
};

/* `path`: a folder that exists. Failures stop the test. */
void iq_test_write_adapter(const char *path, const struct iq_model_config *, const struct iq_adapter_spec *);
struct iq_adapter *iq_test_adapter(const char *name, const char *path, const struct iq_model *);
/* Adds scale * B A to the F32 weights of a Hugging Face folder, in double, rounded once. */
void iq_test_merge_adapter(const char *folder, const struct iq_model *, const struct iq_adapter *);

#endif
