/* The adapters of a run, by the names that requests call them: --adapter NAME=PATH, or those of a recorded run. Opened once
 * the model is there. Ownership: iq_adapters_free frees all. */
#ifndef IQ_HARNESS_ADAPTERS_H
#define IQ_HARNESS_ADAPTERS_H

#include "engine/adapter.h"
#include "kernels/base/json.h"

struct iq_adapters {
    struct iq_named_adapter {
        char *name, *path;
        struct iq_adapter *adapter; /* NULL until opened */
    } * at;
    uint32_t n;
    size_t cap;
};

/* "NAME=PATH"; IQ_USAGE: it is none, or the name is taken. */
int iq_adapters_add(struct iq_adapters *, const char *text, struct iq_err *err);
/* As a manifest has them; those whose names are taken are left out. */
int iq_adapters_read(struct iq_adapters *, const cJSON *manifest, struct iq_err *err);
/* The member "adapters" of a manifest; nothing where there are none. */
void iq_adapters_write(const struct iq_adapters *, struct iq_jw *);
int iq_adapters_open(struct iq_adapters *, const struct iq_model *, struct iq_err *err);
/* IQ_NOT_FOUND: the known names are in the sentence. */
int iq_adapters_find(const struct iq_adapters *, const char *name, const struct iq_adapter **out,
                     struct iq_err *err);
void iq_adapters_free(struct iq_adapters *);

#endif
