/* The eight faults, each armed where it strikes the small model IQ_SMALL_WIDE (8 KV heads, an FFN of 901 columns), and what
 * the comparator has to find. */
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
} entries[] = {
    {"K1", "topk", "coarse_bin", "{\"bits\":4,\"capacity\":8}", 1, IQ_LABEL_WRONG, "topk"},
    {"K2", "topk", "shard_merge", "{\"shards\":4}", 1, IQ_LABEL_WRONG, "topk"},
    {"K3", "topk", "threshold_precision", "{}", 1, IQ_LABEL_WRONG, "topk"},
    {"K10", "prefix", "foreign_block", "{\"which\":2}", 1, IQ_LABEL_WRONG, "prefix"},
    {"K15", "down", "reduction_order", "{\"unit\":64}", 1, IQ_LABEL_BENIGN, "down"},
    {"K16", "ffn_reduce", "stale_peer", "{}", 2, IQ_LABEL_WRONG, "ffn_reduce"},
    {"K17", "down", "low_precision", "{\"bits\":8}", 1, IQ_LABEL_SUSPECT, "down"},
    {"K18", "down", "k_tail", "{\"tile\":128}", 1, IQ_LABEL_WRONG, "down"},
};
enum { ENTRIES = sizeof entries / sizeof *entries };

static struct iq_model *models[3]; /* by tensor-parallel size */
static struct iq_rig_set set;      /* the test's requests */

static inline void models_open(void)
{
    struct iq_err err = {0};
    iq_scratch_make();
    const char *path = iq_small_write(&iq_small[IQ_SMALL_WIDE]);
    models[1] = iq_rig_model(path, 1);
    models[2] = iq_rig_model(path, 2);
    ck_assert_int_eq(iq_faults_register(&err), IQ_OK);
}

static inline void close_all(void)
{
    iq_rig_set_free(&set);
    iq_model_close(models[1]);
    iq_model_close(models[2]);
    iq_scratch_remove();
}

#endif
