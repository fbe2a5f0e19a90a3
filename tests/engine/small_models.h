/* The random small models that engine tests run on: every architecture, every weight format, grouped, multi-head and
 * wide attention, ragged FFNs, a window smaller than the prompts, tied and untied heads, mixtures of experts. */
#ifndef IQ_TESTS_ENGINE_SMALL_MODELS_H
#define IQ_TESTS_ENGINE_SMALL_MODELS_H

#include "engine/model.h"
#include "tests/files/make_model.h"

struct iq_small {
    const char *name;
    struct iq_test_spec spec;
    enum iq_act act;
    uint32_t tp[4];              /* sizes to try beside 1; 0 ends */
    uint32_t expert_parallel[4]; /* the same */
};
extern const struct iq_small iq_small[];
extern const int iq_smalls;
/* 8 KV heads and 8 units of FFN, untied; 8 KV heads and 8 experts, of which 2 are active. */
enum { IQ_SMALL_WIDE = 0, IQ_SMALL_EXPERTS = 10 };

/* Not among them: small enough for prompts of hundreds of tokens, and for hundreds of runs. */
extern const struct iq_small iq_small_tiny;

/* Writes it into the scratch folder; its path. */
const char *iq_small_write(const struct iq_small *);

#endif
