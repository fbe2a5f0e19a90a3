/* One forward pass: the rows of a step through every op of the graph. Buffers, argument structs and the order of
 * dispatches live here; what is in the batch is the scheduler's business, what becomes of the results the recorder's.
 *
 * Activations are whole logical rows of float32; a tensor-parallel rank reads and writes its columns of them. Buffers
 * are reused as soon as nobody reads them: digests are taken as each op returns.
 */
#ifndef IQ_ENGINE_FORWARD_H
#define IQ_ENGINE_FORWARD_H

#include "engine/graph.h"
#include "engine/kv.h"
#include "engine/model.h"
#include "kernels/dispatch.h"

/* What a step computes. Arrays are borrowed for the call. */
struct iq_batch {
    struct iq_step step;
    const struct iq_row *row; /* (rows) */
    const uint32_t *ids;      /* (rows) token at each row */
    const struct iq_seq *seq; /* (seqs) */
    const uint32_t *predict;  /* (predicts) rows that predict a token, ascending */
    uint32_t rows, seqs, predicts;
};

struct iq_forward {
    const struct iq_model *model;
    struct iq_graph *graph;
    struct iq_slots *slots;
    struct iq_kv *kv;
    struct iq_exec exec;
    enum iq_act act;
    uint32_t max_rows, max_predicts, k; /* k: candidates per predicting row */
    /* (max_rows, ...) activations */
    float *res[2]; /* residual stream before and after an addition */
    float *h;      /* hidden: norms' output; attention's output */
    float *wide;   /* q, k, v; gate, up */
    float *mid;    /* rotated q, k; swiglu's output */
    float *part;   /* (pieces, max_rows, hidden) partial sums */
    float *sum;    /* their reduction */
    size_t ld_h, ld_wide, ld_mid;
    uint32_t *pos; /* (max_rows) index into the rotary table */
    /* (max_predicts, ...) */
    float *head_in, *logits, *tempered, *values, *temperature, *top_p, *min_p;
    uint32_t *ids, *token, *predict_pos, *top_k;
    uint64_t *seed;
    struct iq_row *predict_row;
    const float *final_logits; /* logits, or tempered: what the last pass sampled from */
    void *map;
    size_t map_bytes;
};

int iq_forward_open(struct iq_forward *, struct iq_err *); /* fields up to k are set by the caller */
void iq_forward_close(struct iq_forward *);
int iq_forward_run(struct iq_forward *, const struct iq_batch *, struct iq_err *);

#endif
