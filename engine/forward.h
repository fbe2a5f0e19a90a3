/* One forward pass: the rows of a step through every op of the graph. Buffers, argument structs and the order of
 * dispatches live here; what is in the batch is the scheduler's business, what becomes of the results the recorder's.
 *
 * Activations are whole logical rows of float32; a tensor-parallel rank reads and writes its columns of them. Buffers
 * are reused as soon as nobody reads them: digests are taken as each op returns.
 *
 * Padding: rows that no sequence covers, with token 0. They are computed as the others are (attention and the cache leave them
 * alone), nobody reads them, and golden bits do not depend on them.
 *
 * On a device (exec.cuda) the buffers are its memory. What the host says and what it learns crosses over once a step; padded
 * steps may be captured as graphs.
 */
#ifndef IQ_ENGINE_FORWARD_H
#define IQ_ENGINE_FORWARD_H

#include "engine/adapter.h"
#include "engine/graph.h"
#include "engine/kv.h"
#include "engine/model.h"
#include "kernels/dispatch.h"

/* A sequence whose rows are golden's up to a place in the middle of the step: there they join, with golden's residual. */
struct iq_entry {
    uint32_t start; /* IQ_START_EMBED; 1 + the first layer that is computed; 1 + layers: the head alone */
};
enum { IQ_START_EMBED };

/* What a step computes. Arrays are borrowed for the call. */
struct iq_batch {
    struct iq_step step;
    const struct iq_row *row;                /* (rows) */
    const uint32_t *ids;                     /* (rows) token at each row */
    const struct iq_seq *seq;                /* (seqs) */
    const uint32_t *predict;                 /* (predicts) rows that predict a token, ascending */
    const struct iq_adapter *const *adapter; /* (rows, and padding) of those; NULL: no request has one */
    const uint64_t *const *allow; /* (predicts, and padding) masks of those; NULL: no row has one */
    uint32_t rows, seqs, predicts;
    const struct iq_entry
        *enter; /* (seqs) ascending by start, from f->kept; NULL: all begin at the embedding */
};

/* What the host tells the ops. */
struct iq_inputs {
    uint32_t *ids, *pos;           /* (max_rows) tokens; indices into the rotary table */
    struct iq_seq *seq;            /* (max_seqs) */
    uint32_t *predict_pos, *top_k; /* (max_predicts), as all below */
    float *temperature, *top_p, *min_p;
    uint64_t *seed;
    uint32_t *blocks; /* on a device: the block tables of all sequences, one after the other */
};

/* What the host learns of the rows that predict. */
struct iq_results {
    float *logits, *tempered; /* (max_predicts, vocab) */
    float *masked;            /* likewise, where requests may have masks */
    float *values;            /* (max_predicts, k) */
    uint32_t *ids, *token;    /* (max_predicts, k), (max_predicts) */
    int32_t *status;          /* (max_predicts) of sampling, on a device */
};

/* Of a mixture of experts. */
struct iq_moe_room {
    float *logits;            /* (max_rows, experts) */
    float *weight;            /* (max_rows, active), as the ids */
    uint32_t *expert, *owner; /* chosen; serving */
    uint32_t *first, *list;   /* (experts + 1), (max_rows * active) */
    float *slots;             /* (max_rows, active, hidden): on the way to experts, and on the way back */
};

struct iq_captured; /* graphs: forward_device.c */

struct iq_forward {
    const struct iq_model *model; /* its weights where the ops run */
    struct iq_graph *graph;
    struct iq_slots *slots;
    struct iq_kv *kv;
    struct iq_exec exec;
    enum iq_act act;
    uint32_t max_rows, max_predicts, max_seqs, max_blocks, k; /* k: candidates per predicting row */
    uint32_t max_context;                                     /* longest sequence of any request */
    bool masks, adapters;                                     /* requests may have them */
    bool padded; /* steps in which every row predicts are padded to step.captured rows ... */
    bool graphs; /* ... and on a device captured */
    bool traced; /* every cell is digested: level ops and above */
    /* (max_rows, ...) activations */
    float *res[2]; /* residual stream before and after an addition */
    float *h;      /* hidden: norms' output; attention's output */
    float *wide;   /* q, k, v; gate, up */
    float *mid;    /* rotated q, k; swiglu's output */
    float *part;   /* (pieces, max_rows, hidden) partial sums; (max_rows, active, hidden) what experts made */
    float *sum;    /* their reduction; what was combined */
    float *tuned_wide, *tuned_sum;    /* wide and sum with what adapters add, where requests may have them */
    const struct iq_lora_pair **pair; /* (IQ_LORA_PARTS, max_rows) likewise */
    struct iq_moe_room moe;
    size_t ld_h, ld_wide, ld_mid;
    float *head_in; /* (2, max_predicts, hidden): rows that predict, and their norm */
    /* Written by the host, read by ops; written by ops, read by the host: on a CPU the same arrays. */
    struct iq_inputs in, op_in;
    struct iq_results got, op_out;
    struct iq_row *predict_row; /* (max_predicts) */
    bool masked, tempered;      /* the last pass had these ops: it sampled from the last one's rows */
    void *map, *device_map;     /* the host's arrays; the device's */
    size_t map_bytes;
    struct iq_captured *captured;
    uint64_t graph_launches;
    /* The residual before each layer and behind the last, by position, of the one request that runs: written by passes without
     * entries, read by those with. Borrowed, (positions, layers + 1, hidden); NULL: not kept. */
    float *kept;
};

int iq_forward_open(struct iq_forward *, struct iq_err *); /* fields up to traced are set by the caller */
void iq_forward_close(struct iq_forward *);
int iq_forward_run(struct iq_forward *, const struct iq_batch *, struct iq_err *);

#endif
