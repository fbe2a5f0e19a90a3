/* Coordinates of what was computed, and sinks that receive it. Shared by engine, faults, golden, probes and importers;
 * no kernel is known here. */
#ifndef IQ_BASE_CELL_H
#define IQ_BASE_CELL_H

#include "kernels/base/digest.h"

#include <stddef.h>
#include <stdint.h>

#define IQ_WHOLE    0xffff /* rank: the logical row, whatever ranks made it */
#define IQ_NO_LAYER 0xffff /* layer: outside the layers (embedding, head, sampling, control) */

/* A node: a point of an op at a layer and rank, as one row of the graph that a run records. Nodes stand in canonical
 * order (execution order of one position), so a node's index orders its cells. Inputs are nodes at the same position;
 * a node with IQ_NODE_READS_KV also reads the IQ_NODE_KV nodes of its layer at every position up to its own. A node
 * with no inputs depends on the token id (embedding) or on the request (control) alone. */
enum {
    IQ_NODE_CHAIN = 1,    /* part of the chain: state that carries forward (KV rows, residual stream) */
    IQ_NODE_KV = 2,       /* a row that is stored in the KV cache */
    IQ_NODE_READS_KV = 4, /* attention */
    IQ_NODE_LOGITS = 8,   /* only at positions that predict a token */
    IQ_NODE_CONTROL = 16  /* a decision (prefix lookup ...), not a tensor */
};

enum { IQ_NODE_INPUTS = 8 };

struct iq_node {
    char op[20], kind[20], point[16]; /* "attn_out", "matmul", "y": op is the place, kind the operation */
    uint16_t layer, rank, flags, inputs;
    uint16_t input[IQ_NODE_INPUTS]; /* indices of earlier nodes */
    uint32_t width;                 /* elements in a row */
};
_Static_assert(sizeof(struct iq_node) == 84, "wire format");

enum iq_cell_state {
    IQ_CELL_COMPUTED = 1, /* an op ran; 0 is "absent" */
    IQ_CELL_REUSED = 2,   /* a prefix hit: bytes digested again as they were attached */
    IQ_CELL_REJECTED = 3, /* speculation took it back */
    IQ_CELL_LANDED = 4,   /* a prefix hit whose bytes were copied from elsewhere: digested as they are read */
    /* What follows is never seen in golden: K and V of the position, digested again, are not what was written. */
    IQ_CELL_MOVED = 5,       /* since the block was moved */
    IQ_CELL_REALLOCATED = 6, /* since the block was handed out while somebody held it */
    IQ_CELL_EVICTED = 7,     /* since the block was evicted while somebody held it */
    IQ_CELL_FREED = 8,       /* since the block was freed while somebody held it, or while it was cached */
    IQ_CELL_MISTAKEN = 9,    /* a prefix hit on a block that was computed under other settings */
    IQ_CELL_STATES
};

#ifndef __cplusplus
/* The control op that answers for K and V of a position in this state, when they are not golden's; NULL: none, an op
 * computed them. */
static inline const char *iq_cell_answers(unsigned state)
{
    static const char *const op[IQ_CELL_STATES] = {
        [IQ_CELL_REUSED] = "prefix",        [IQ_CELL_LANDED] = "kv_land",   [IQ_CELL_MOVED] = "kv_move",
        [IQ_CELL_REJECTED] = "rollback", /* of a position: it stands all the same */
        [IQ_CELL_REALLOCATED] = "kv_alloc", [IQ_CELL_EVICTED] = "kv_evict", [IQ_CELL_FREED] = "kv_free",
        [IQ_CELL_MISTAKEN] = "identity"};
    return state < IQ_CELL_STATES ? op[state] : 0;
}
#endif

/* (request, position, attempt, node): the key of everything. `request` is the index in the prompt set, `pos` the
 * token position (never the step: runs under different batching compare), `attempt` counts recomputations. */
struct iq_cell {
    uint32_t request, pos;
    uint16_t attempt, node, state, zero;
};
_Static_assert(sizeof(struct iq_cell) == 16, "wire format");

enum { IQ_TOP = 8 }; /* logits kept per generated position at every level */

/* One position of one request, complete. `token` is the token AT this position. has_logits: this position predicted
 * another token, `next`; `top_id`/`top_logit` are the best logits as the logit row has them (descending, ties by id),
 * `candidates` the digest of what the top-k op returned (ids, then values), `tail` the probability mass outside top. */
struct iq_position {
    uint32_t request, pos, token, next;
    uint16_t attempt, has_logits, state, batch; /* batch: requests in the step that computed it */
    uint32_t step, tokens;                      /* which step; tokens in it */
    struct iq_digest body, logits, candidates;  /* body: chain cells without logits */
    uint32_t top_id[IQ_TOP];
    float top_logit[IQ_TOP];
    float tail, margin; /* margin: best minus second best logit */
};
_Static_assert(sizeof(struct iq_position) == 152, "wire format");

/* d_p: what a position adds to the chain, C_p = iq_digest_chain(C_{p-1}, token_p, d_p): the state that it carries
 * forward and, where it predicts, its logits, candidates and choice. The one place of this rule. */
static inline struct iq_digest iq_position_digest(const struct iq_position *p)
{
    struct iq_digest all[4] = {p->body, p->logits, p->candidates, {0, p->next}};
    return p->has_logits ? iq_digest_list(all, 4) : p->body;
}

/* A fault really fired: ground truth for detectors. One record per dispatch that it took part in. */
struct iq_firing {
    uint32_t fault, step;  /* index in the plan; step of the engine */
    uint16_t node, batch;  /* first node of the op that it struck; requests in the step */
    uint32_t rows;         /* rows that it computed */
    uint32_t rows_changed; /* rows in which a bit differs from golden's variant */
    uint32_t request, pos; /* of the first changed row, else of its first row */
    uint32_t zero;
};
_Static_assert(sizeof(struct iq_firing) == 32, "wire format");

/* A request at its end. Strings are NUL-terminated UTF-8, borrowed. */
struct iq_request_end {
    uint32_t request;
    const char *id;     /* the caller's name for it */
    const char *params; /* JSON: sampling parameters, seed, max_tokens, expect */
    const char *text;   /* what was generated, decoded; invalid UTF-8 already replaced */
    const char
        *finish; /* "stop", "length", "cancelled", "invalid" (a token outside the vocabulary), "blocked" */
    const uint32_t *ids; /* prompt, then generated */
    uint32_t n_ids, n_prompt;
    struct iq_digest chain; /* C of the last position */
};

/* What a run keeps: chain (a record per position), ops (digests of all cells too), tensors (contents of chosen cells
 * too). */
#define IQ_LEVEL_MAP(X) X(CHAIN, "chain") X(OPS, "ops") X(TENSORS, "tensors")
enum iq_level {
#define X(name, text) IQ_LEVEL_##name,
    IQ_LEVEL_MAP(X)
#undef X
        IQ_LEVELS
};

/* Called in step order from the engine's thread, never from inside a kernel. Each returns an iq_status; the first
 * failure stops the run. Any callback may be NULL. Pointers are borrowed for the call. */
struct iq_sink {
    void *self;
    /* The digest of one row at one node; `bytes` only for chosen cells at level tensors, else NULL. */
    int (*row)(void *self, const struct iq_cell *, struct iq_digest, const void *bytes, size_t n);
    int (*position)(void *self, const struct iq_position *);
    int (*fired)(void *self, const struct iq_firing *);
    int (*done)(void *self, const struct iq_request_end *);
};

#endif
