/* A model ready to run: configuration, packed weights, tokenizer, rotary table.
 *
 * Weights are copied out of the file into one arena of packed panels, cut for `tp` tensor-parallel ranks: a rank owns a
 * contiguous run of KV groups (attention) and of units of columns (FFN), as the contract says; for row-parallel
 * matrices it holds one matrix per tree node of its run. Experts are whole: an expert-parallel rank owns a run of them,
 * and no byte depends on how many ranks there are. The file's pages are let go as they are packed.
 * Ownership: iq_model_close frees all. Constant after opening: several engines and threads may share one.
 * Errors: what the readers say; IQ_UNSUPPORTED when tp has more ranks than units, or when the experts can't be dealt
 * out, by name.
 */
#ifndef IQ_ENGINE_MODEL_H
#define IQ_ENGINE_MODEL_H

#include "engine/files/config.h"
#include "engine/text/chat.h"
#include "engine/text/tokenizer.h"
#include "kernels/arith.h"
#include "kernels/base/arena.h"
#include "kernels/base/digest.h"
#include "kernels/matrix.h"
#include "kernels/shard.h"

struct iq_rank_weights {
    struct iq_matrix q, k, v, gate, up;   /* column-parallel: this rank's outputs; gate, up, down: dense */
    struct iq_matrix out[IQ_SHARD_NODES]; /* row-parallel: one per tree node */
    struct iq_matrix down[IQ_SHARD_NODES];
};

/* Those of a role are of one type. */
struct iq_expert_weights {
    struct iq_matrix router;            /* (experts, hidden) */
    struct iq_matrix *gate, *up, *down; /* (experts) of (ffn, hidden) twice, (hidden, ffn) */
};

struct iq_layer_weights {
    const float *attn_norm, *ffn_norm;     /* (hidden) */
    const float *q_norm, *k_norm;          /* (head_dim) or NULL */
    const float *q_bias, *k_bias, *v_bias; /* whole rows, or NULL */
    struct iq_rank_weights *rank;          /* (tp) */
    struct iq_expert_weights experts;      /* of a mixture of experts */
};

struct iq_model {
    struct iq_model_config config;
    uint32_t tp, expert_parallel; /* ranks that attention and dense FFN, and experts, are spread over */
    struct iq_shard attn[IQ_SHARD_RANKS], ffn[IQ_SHARD_RANKS]; /* (tp) runs of KV groups, of FFN units */
    uint32_t attn_units, attn_unit;                            /* KV groups; columns of one */
    uint32_t ffn_units, ffn_unit; /* units that ranks share; columns of one, in an expert too */
    struct iq_matrix embed, head; /* the same panels when tied */
    const float *final_norm;
    struct iq_layer_weights *layer; /* (layers) */
    struct iq_matrix *expert;       /* (layers, 3, experts): where the layers' pointers point; or NULL */
    float *rotary;                  /* (tables, positions, head_dim / 2, 2) */
    uint32_t positions;             /* longest sequence */
    uint32_t tables;                /* 1, or 2: the second is that of a server for long contexts */
    struct iq_digest rotary_digest, long_digest;
    struct iq_digest packed_digest; /* all weights in memory, after load, pack and shard */
    struct iq_tokenizer *tokenizer;
    struct iq_chat *chat;       /* NULL: the model has no template */
    char sha256[IQ_SHA256_HEX]; /* of the weight file; of the list of digests when there are several */
    struct iq_arena arena;
    float *vectors; /* norm weights and biases */
    size_t vectors_bytes;
    struct iq_model_file *file;
    struct iq_model_tensors tensors;
};

struct iq_model_options {
    uint32_t tp, threads;     /* threads: for packing and hashing only */
    uint32_t expert_parallel; /* a power of two that divides the experts; 0 or 1: one rank has them all */
    uint32_t positions;       /* longest sequence; 0: the model's context, at most 8,192 */
    /* 0: none. Else a second rotary table, as a server has it that is set up for contexts longer by this factor: angles are
     * divided by it; of a longrope model, the table of its long factors. */
    uint32_t long_factor;
    bool weights; /* false: configuration and tokenizer only */
};
int iq_model_open(const char *path, const struct iq_model_options *, struct iq_model **out,
                  struct iq_err *err);
/* Fills m->sha256; opening with weights does it as well. */
int iq_model_digest(struct iq_model *m, struct iq_err *err);
void iq_model_close(struct iq_model *);

#endif
