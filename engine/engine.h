/* The engine: continuous batching over one model, on a virtual clock, every op through the dispatch point.
 *
 * An engine takes a set of requests and runs them to the end, step by step: a step is one forward pass over the rows
 * that the scheduler chose (chunks of prompts and single decode tokens, side by side). What a row computes does not
 * depend on the step it rode in: that is the contract, and the property tests hold it to it.
 *
 * With speculation a request has more rows in a step than its last token: drafts of those that may follow. Each row
 * chooses a token as ever; drafts are kept as far as they are what was chosen, the others' rows are as if they had not been.
 * So tokens, chains and logits are those of a run without.
 *
 * Ownership: model, requests, selector and sink are borrowed. Requests' results are in iq_engine_output until close.
 * Not thread-safe; its worker threads are its own. Open it after fork.
 * Errors: IQ_LIMIT (a request larger than the KV cache or the context), IQ_MISMATCH (the floating-point mode changed; a
 * trajectory asks for what can't be), IQ_MEMORY, whatever a sink returned.
 */
#ifndef IQ_ENGINE_ENGINE_H
#define IQ_ENGINE_ENGINE_H

#include "engine/adapter.h"
#include "engine/constraint.h"
#include "engine/model.h"
#include "kernels/base/cell.h"
#include "kernels/base/json.h"
#include "kernels/dispatch.h"

struct iq_cuda; /* kernels/cuda/device.h */
struct iq_engine;

enum { IQ_DRAFT_MAX = 32 }; /* tokens that may be drafted at once */

/* The weights change between steps, once no request is under way: those that wait begin with the new ones. */
struct iq_weights_event {
    uint32_t step; /* not before this step */
    const struct iq_model
        *from; /* of the same shape; NULL: sleep and wake: they are dropped and loaded again */
};

struct iq_engine_config {
    uint32_t threads;   /* worker threads, the caller's included */
    uint32_t batch;     /* most requests in a step */
    uint32_t chunk;     /* most prompt tokens of one request in a step; 0: whole prompts */
    uint32_t kv_blocks; /* 0: enough for `batch` requests of the largest size */
    uint32_t start_s;   /* what the clock's 0 is, in seconds of a day: triggers can ask for the hour */
    uint32_t
        riders; /* runs that may ride on what this one leaves (ride.h); room for them, and nothing else */
    uint32_t prefix_min; /* shortest prefix, in tokens, that may be reused */
    bool prefix_cache;
    bool remote_kv;      /* a prefix hit's blocks are copied into the request's own, as from a remote cache */
    uint32_t defragment; /* the KV pool is compacted every so many steps; 0: never */
    /* Of a model that is open with a second set of position settings (iq_model_options.long_factor): requests of more tokens
     * than this, prompt and answer, are served by it. */
    uint32_t long_from;
    bool captured;      /* pad decode-only steps to 1, 2, 4, 8, 16 ... rows, as captured graphs have them */
    uint32_t speculate; /* most tokens of a request that are drafted for a step; 0: no speculation */
    const struct iq_model
        *draft; /* who guesses them, borrowed; NULL: they are looked up in the request's own tokens */
    enum iq_act act;
    const char *isa; /* highest instruction set to use, NULL: the best here */
    /* Where ops run: "cpu" (or NULL), "cuda", "cuda-shim" (the same kernels as fibers on the CPU). On a device, steps that
     * are padded to captured sizes are captured as graphs. */
    const char *device;
    /* Tensor-core products that every matmul uses ("sm90", "sm90-f16" ...); NULL: the golden ones, contract `ieee`. */
    const char *products;
    enum iq_level level; /* what is digested; the sink decides what is kept */
    bool unseen;         /* triggers read `tracing` false whatever the level: a harness looks on */
    bool untraced;       /* nothing is digested at all: outputs have no chain (benchmarks) */
    uint32_t top; /* candidates that the top-k op returns, at least IQ_TOP: one number for the whole run */
    const struct iq_weights_event *event; /* (events), by step. Not on a device. */
    uint32_t events;
    /* Recorded steps to follow, or NULL: [[[request, tokens], ...], ...]. 0 tokens: it was preempted for want of room
     * for itself. */
    const cJSON *trajectory;
    const char *trajectory_name; /* what its errors call it: a file's path; NULL: "trajectory" */
};
#define IQ_ENGINE_CONFIG                                                                                     \
    ((struct iq_engine_config){                                                                              \
        .threads = 1, .batch = 8, .prefix_cache = true, .level = IQ_LEVEL_CHAIN, .top = IQ_TOP})

struct iq_request {
    uint32_t index;          /* in the prompt set: what records call `request` */
    const char *id, *params; /* the caller's name; parameters as JSON, for the record */
    const uint32_t *prompt;
    uint32_t n_prompt, max_tokens; /* max_tokens 0: only score or prefill */
    uint32_t special;     /* first tokens that are no part of any message: the beginning of a sequence */
    const uint32_t *part; /* (parts) where its messages begin, ascending; NULL where parts is 0 */
    uint32_t parts;
    uint32_t
        truncate; /* a longer prompt loses its oldest tokens, not its first `special` ones; 0: none does */
    uint32_t session, tenant;        /* 0: none */
    float temperature, top_p, min_p; /* temperature 0: greedy */
    uint32_t top_k;
    uint64_t seed, arrive_us;
    const struct iq_adapter *adapter;       /* NULL: none. Neither on a device nor with experts. */
    const struct iq_constraint *constraint; /* what it may generate; NULL: anything. Not on a device. */
    bool score;                             /* log-likelihood of the prompt: iq_output.nll */
    bool ignore_stop;
    uint32_t cancel_after; /* its caller goes away once this many of its tokens are computed; 0: never */
};

struct iq_output {
    const uint32_t *ids; /* prompt, then generated */
    uint32_t n_ids, n_prompt;
    /* "stop", "length", "cancelled"; "invalid": a token outside the vocabulary was chosen; "blocked": its constraint
     * leaves no token; "" while it runs */
    const char *finish;
    struct iq_digest chain;
    const struct iq_position *position; /* (positions) */
    uint32_t positions;                 /* computed: every token but the last one generated */
    uint32_t top;                       /* candidates kept per generated token */
    const uint32_t *top_id;             /* (n_ids - n_prompt, top), in the order of the top-k op */
    const float *top_logit;             /* their logits before temperature; NaN: no such token */
    /* (n_prompt): nats of each prompt token given those before; [0] is 0. NULL unless scored. */
    const double *nll;
    uint32_t cached;            /* prompt tokens that a prefix hit brought */
    uint32_t attempts;          /* times that it was preempted */
    uint32_t drafted, accepted; /* tokens that speculation guessed; of them, those that became the answer's */
};

struct iq_engine_stats {
    uint64_t steps, generated, preemptions;
    uint64_t tokens;            /* rows computed */
    uint64_t updates;           /* times that the weights changed */
    uint64_t graphs;            /* steps that were launches of a captured graph */
    uint64_t hits;              /* prompt tokens reused */
    uint64_t moves;             /* KV blocks moved */
    uint64_t clock_us;          /* virtual time at the end */
    uint64_t drafted, accepted; /* by speculation, as in iq_output */
};

/* The captured size that a batch is padded to: 1, 2, 4, 8, then every 8. */
uint32_t iq_engine_captured(uint32_t batch);
int iq_engine_open(const struct iq_model *, const struct iq_engine_config *, const struct iq_request *,
                   uint32_t n, struct iq_engine **out, struct iq_err *err);
void iq_engine_close(struct iq_engine *);
/* The graph's nodes in canonical order, for the manifest. */
const struct iq_node *iq_engine_nodes(const struct iq_engine *, uint32_t *n);
/* The variant that golden runs of an op. */
const struct iq_variant *iq_engine_variant(const struct iq_engine *, enum iq_op_id op);
/* Whether the run has the op: the model has it, and where a request must ask for it, one does. */
bool iq_engine_has(const struct iq_engine *, enum iq_op_id op);
/* The device where ops run, for the manifest; NULL: the CPU. */
const struct iq_cuda *iq_engine_device(const struct iq_engine *);
/* What libraries beside the kernels chose so far, by name: {"cublas": [...]}; {}: nothing. */
void iq_engine_libraries(const struct iq_engine *, struct iq_jw *);
/* hash of profile, dtypes, constants, experts, rotary digest, the ops that this model has and their points, version. */
struct iq_digest iq_engine_contract(const struct iq_engine *);
/* Faults; between steps. NULL disarms. */
void iq_engine_arm(struct iq_engine *, const struct iq_selector *);
/* Where records go; NULL: nowhere. Before the first step. */
void iq_engine_record(struct iq_engine *, const struct iq_sink *);
/* One step; *more is false when every request is done. */
int iq_engine_step(struct iq_engine *, bool *more, struct iq_err *err);
/* The request's caller has gone: it leaves the batch at once, its blocks are given back. Between steps; nothing happens to
 * one that is done. */
int iq_engine_cancel(struct iq_engine *, uint32_t request, struct iq_err *err);
const struct iq_output *iq_engine_output(const struct iq_engine *, uint32_t request);
const struct iq_engine_stats *iq_engine_stats(const struct iq_engine *);
/* The steps so far, as config.trajectory takes them. */
int iq_engine_trajectory(const struct iq_engine *, struct iq_jw *);

#endif
