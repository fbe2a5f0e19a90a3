/* Where an op runs: what triggers are predicates over. The static part belongs to the slot; the dynamic part is made
 * once per step; rows are borrowed for the call. */
#ifndef IQ_SITE_H
#define IQ_SITE_H

#include <stddef.h>
#include <stdint.h>

struct iq_slot;

enum iq_phase { IQ_PREFILL, IQ_DECODE };

/* How the other requests of a step sample, each number at its most unusual; of a request alone: n is 0. */
struct iq_others {
    uint32_t n, top_k;               /* how many; the smallest top_k that is on, 0: it is off in all */
    float temperature, top_p, min_p; /* largest, smallest, largest */
};

/* One row of the step's activations: one token of one request. */
struct iq_row {
    uint32_t request, session; /* index in the prompt set; the caller's session, 0 if none */
    uint32_t pos, context;     /* token position; keys that it sees (pos + 1) */
    uint32_t prompt, cached;   /* prompt length; tokens of it that a prefix hit brought */
    uint32_t phase, attempt;   /* enum iq_phase; recomputations so far */
    uint32_t cell;             /* row of the step in the cell matrix */
    uint32_t draft;            /* drafted tokens that the request has in the step, 0: it does not speculate */
    uint32_t top_k;            /* sampling, as the request asked */
    float temperature, top_p, min_p;
    uint64_t seed;
    uint32_t ordinal;                /* requests that had joined before it did */
    uint32_t before, after;          /* its request's context when the step begins, and when it ends */
    uint64_t arrived_us, session_us; /* when its request arrived, and the first one of its session */
    struct iq_others others;
    uint32_t masked;       /* 1: the request forbids tokens (kernels/ops/mask.h) */
    uint32_t adapter;      /* its number, from 1 (kernels/ops/lora.h); 0: none */
    uint32_t pool, tenant; /* that the request was placed in; whose it is, 0 if nobody's */
};

struct iq_step {
    uint64_t step, clock_us; /* ordinal since start; virtual or real time */
    uint32_t batch,
        captured; /* requests in the step; their decodes and drafts padded ("captured"), else batch */
    uint32_t tokens, tp, tracing; /* rows; tensor-parallel ranks; 1 when level ops or tensors is recorded */
    uint32_t evictions;           /* prefix blocks evicted since start */
    uint64_t idle_us;             /* of the clock, in which nothing ran before the step */
    uint32_t start_s;             /* the time of day at clock 0, in seconds */
    uint32_t expert_parallel, act, products; /* ranks; enum iq_act; 0: ieee, then IQ_TC_PRODUCTS_MAP's */
    uint32_t shortest, longest;              /* contexts that the step's requests have at its end */
    uint32_t running, waiting;               /* requests: in the batch; arrived and not yet in it */
    uint32_t started, finished, preempted;   /* requests since start */
    uint32_t hits, hit_tokens;               /* since start: prefix hits; tokens that they brought */
    uint32_t kv_blocks, kv_free;             /* in all; those that could be had as the step begins */
    uint32_t max_batch, chunk; /* most requests in a step; most prompt tokens of one in it, 0: all */
    uint32_t weights;          /* version of the weights, from 0 */
    uint32_t moves;            /* KV blocks that were moved since start */
};

struct iq_site {
    uint16_t op, layer, rank, prev_op, next_op; /* enum iq_op_id; layer IQ_NO_LAYER outside the layers */
    const struct iq_step *step;
    const struct iq_row *row; /* (rows) of this call, in the order of the args' rows; NULL: of training */
    uint32_t rows;            /* without the padding that the args may have behind them */
    struct iq_slot *slot;
};

#endif
