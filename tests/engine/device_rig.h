/* A run on the CPU and the same on a device: every record held against its twin, bit by bit.
 *
 * The device is the shim, or with IQ_TEST_DEVICE=cuda the GPU. Failures stop the test and name the first cell (in the
 * order of requests, positions and the graph) that differs. */
#ifndef IQ_TESTS_ENGINE_DEVICE_RIG_H
#define IQ_TESTS_ENGINE_DEVICE_RIG_H

#include "tests/engine/rig.h"

/* To be called first by main. The device's name; where it is not there, says so in a line and exits 77. */
const char *iq_rig_device(void);
/* How the shim's kernels run from here on (kernels/cuda/shim/control.h); a GPU has its own ways. */
void iq_rig_schedule(const char *schedule, uint32_t poison);
/* All findings of the shim since the last iq_shim_reset are failures. */
void iq_rig_no_findings(const char *what);

/* Everything that a sink was given. */
struct iq_rig_cell {
    struct iq_cell cell;
    struct iq_digest digest, bytes; /* bytes: what of the row's contents was given, digested */
    size_t n;
};
struct iq_rig_log {
    struct iq_rig_cell *cell;
    struct iq_position *position;
    struct iq_firing *firing;
    uint32_t cells, positions, firings, ends, cap_cells, cap_positions, cap_firings;
};
struct iq_sink iq_rig_log_sink(struct iq_rig_log *);
void iq_rig_log_free(struct iq_rig_log *);

/* Eight short requests, at most IQ_RIG_SHORT tokens in and IQ_RIG_ANSWER out: lengths on both sides of a KV block's end,
 * and of two; all but two share a head of two blocks. */
enum { IQ_RIG_FEW = 8, IQ_RIG_SHORT = 36, IQ_RIG_ANSWER = 6 };
struct iq_rig_set iq_rig_few(uint64_t seed, uint32_t vocab, bool sampled);

struct iq_rig_case {
    const char *what; /* names it in failures */
    const struct iq_model *model;
    struct iq_engine_config config; /* its device is set by the rig */
    const struct iq_request *request;
    uint32_t n;
    const struct iq_selector *faults; /* or NULL */
    bool watch;
};
struct iq_rig_recorded {
    struct iq_rig rig;
    struct iq_rig_log log;
};
/* device: NULL, or iq_rig_device(). */
void iq_rig_case_run(const struct iq_rig_case *, const char *device, struct iq_rig_recorded *);
void iq_rig_recorded_close(struct iq_rig_recorded *);

/* Stops the test unless both runs took the same steps, and gave the same answers, chains, candidates, likelihoods,
 * positions, cells and firings. */
void iq_rig_same_run(const char *what, const struct iq_rig_recorded *a, const struct iq_rig_recorded *b);

/* Runs a case on the CPU and on the device and compares. What the device showed is in *out; the caller closes it. */
void iq_rig_twins(const struct iq_rig_case *, struct iq_rig_recorded *out);

#endif
