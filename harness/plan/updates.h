/* Changes of the weights during a run: --update-weights STEP=MODEL, --sleep-weights STEP, or those of a recorded run.
 * Ownership: iq_updates_free frees all. */
#ifndef IQ_HARNESS_UPDATES_H
#define IQ_HARNESS_UPDATES_H

#include "engine/engine.h"
#include "harness/cli/cli.h"
#include "kernels/base/json.h"

#define IQ_UPDATE_FLAGS                                                                                      \
    {.name = "update-weights",                                                                               \
     .type = IQ_FLAG_LIST,                                                                                   \
     .meta = "STEP=MODEL",                                                                                   \
     .help = "from this step on the weights become this model's, in place, as soon as no request is under "  \
             "way"},                                                                                         \
    {                                                                                                        \
        .name = "sleep-weights", .type = IQ_FLAG_LIST, .meta = "STEP",                                       \
        .help = "at this step, likewise, the weights are dropped and loaded again"                           \
    }

struct iq_updates {
    struct iq_update {
        uint32_t step;
        char *path; /* NULL: sleep and wake */
        struct iq_model *model;
    } * at;
    uint32_t n;
    size_t cap;
    struct iq_weights_event *event; /* (n), by step, once opened */
};

/* What the command line gave. */
int iq_updates_args(const struct iq_call *, struct iq_updates *, struct iq_err *err);
/* As a manifest has them. */
int iq_updates_read(struct iq_updates *, const cJSON *manifest, struct iq_err *err);
/* The member "updates" of a manifest; nothing where there are none. Opened first. */
void iq_updates_write(const struct iq_updates *, struct iq_jw *);
int iq_updates_open(struct iq_updates *, const struct iq_model_options *, struct iq_err *err);
void iq_updates_free(struct iq_updates *);

#endif
