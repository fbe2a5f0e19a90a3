/* The eight faults, each armed where it strikes the small models IQ_SMALL_WIDE (8 KV heads, an FFN of 901 columns) and
 * IQ_SMALL_EXPERTS (a router over 160 columns), and what the comparator has to find. */
#ifndef IQ_TESTS_ENGINE_EIGHT_FAULTS_H
#define IQ_TESTS_ENGINE_EIGHT_FAULTS_H

#include "faults/families.h"
#include "golden/compare.h"
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <check.h>

/* `op` holds where the fault strikes. */
static const struct entry {
    const char *family, *op, *variant, *params;
    uint32_t tp;
    enum iq_label label;
    const char *guilty;
    bool experts; /* strikes the mixture of experts */
} entries[] = {
    {"K1", "topk", "coarse_bin", "{\"bits\":4,\"capacity\":8}", 1, IQ_LABEL_WRONG, "topk", false},
    {"K2", "topk", "shard_merge", "{\"shards\":4}", 1, IQ_LABEL_WRONG, "topk", false},
    {"K3", "topk", "threshold_precision", "{}", 1, IQ_LABEL_WRONG, "topk", false},
    {"K10", "prefix", "foreign_block", "{\"which\":2}", 1, IQ_LABEL_WRONG, "prefix", false},
    {"K15", "down", "reduction_order", "{\"unit\":64}", 1, IQ_LABEL_BENIGN, "down", false},
    {"K16", "ffn_reduce", "stale_peer", "{}", 2, IQ_LABEL_WRONG, "ffn_reduce", false},
    {"K17", "down", "low_precision", "{\"bits\":8}", 1, IQ_LABEL_SUSPECT, "down", false},
    {"K18", "down", "k_tail", "{\"tile\":128}", 1, IQ_LABEL_WRONG, "down", false},
    {"K1", "topk", "coarse_bin", "{\"bits\":4,\"capacity\":8}", 1, IQ_LABEL_WRONG, "topk", true},
    {"K2", "topk", "shard_merge", "{\"shards\":4}", 1, IQ_LABEL_WRONG, "topk", true},
    {"K3", "topk", "threshold_precision", "{}", 1, IQ_LABEL_WRONG, "topk", true},
    {"K10", "prefix", "foreign_block", "{\"which\":2}", 1, IQ_LABEL_WRONG, "prefix", true},
    {"K15", "router", "reduction_order", "{\"unit\":64}", 1, IQ_LABEL_BENIGN, "router", true},
    {"K16", "attn_reduce", "stale_peer", "{}", 2, IQ_LABEL_WRONG, "attn_reduce", true},
    {"K17", "router", "low_precision", "{\"bits\":8}", 1, IQ_LABEL_SUSPECT, "router", true},
    {"K18", "router", "k_tail", "{\"tile\":128}", 1, IQ_LABEL_WRONG, "router", true},
};
enum { ENTRIES = sizeof entries / sizeof *entries, DENSE = ENTRIES / 2 }; /* the dense model's come first */

static struct iq_model
    *models[2][3];            /* dense, experts; by tensor-parallel size (the experts' ranks are as many) */
static struct iq_rig_set set; /* the test's requests */

static inline void models_open(void)
{
    struct iq_err err = {0};
    iq_scratch_make();
    for (uint32_t tp = 1; tp <= 2; tp++) {
        models[0][tp] = iq_rig_model(iq_small_write(&iq_small[IQ_SMALL_WIDE]), tp);
        models[1][tp] = iq_rig_model_experts(iq_small_write(&iq_small[IQ_SMALL_EXPERTS]), tp, tp);
    }
    ck_assert_int_eq(iq_faults_register(&err), IQ_OK);
}

static inline const struct iq_model *model_of(const struct entry *e) { return models[e->experts][e->tp]; }

static inline void close_all(void)
{
    iq_rig_set_free(&set);
    for (int i = 0; i < 4; i++) iq_model_close(models[i / 2][1 + i % 2]);
    iq_scratch_remove();
}

#endif
