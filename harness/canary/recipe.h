/* The canaries that inquest trains and ships: what each is made of, and the digests of the run that made it. */
#ifndef IQ_HARNESS_CANARY_RECIPE_H
#define IQ_HARNESS_CANARY_RECIPE_H

#include "engine/train/train.h"

struct iq_canary_golden {
    uint32_t step;      /* steps done */
    const char *digest; /* iq_train_digest then, 32 hex digits */
};

struct iq_canary_recipe {
    const char *name; /* "dense", "moe" */
    struct iq_train_recipe train;
    const struct iq_canary_golden *golden; /* ascending; digest NULL ends */
    const char *sha256;                    /* of the shipped model's file; NULL: it is not on record */
};

extern const struct iq_canary_recipe iq_canary_dense, iq_canary_moe;

#endif
