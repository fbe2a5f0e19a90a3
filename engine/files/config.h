/* What a model is: one description from either source, checked against the tensors that are really there.
 *
 * iq_model_config_read fills the config from GGUF keys or config.json, refuses by name whatever would change the
 * arithmetic and is not built (other architectures, activations, biases, scales), and resolves every needed tensor with
 * its dimensions. What it cannot honour it refuses; what it decides for the user it notes (iq_model_file_note).
 * Ownership: tensor pointers and strings belong to the model file; iq_model_config_free frees the rest.
 * Errors name the key or tensor, what was found and what was expected. */
#ifndef IQ_FILES_CONFIG_H
#define IQ_FILES_CONFIG_H

#include "engine/files/model_file.h"
#include "kernels/rotary.h"

/* In GGUF Mixtral is a llama with experts. */
enum iq_arch {
    IQ_ARCH_LLAMA,
    IQ_ARCH_MISTRAL,
    IQ_ARCH_QWEN2,
    IQ_ARCH_QWEN3,
    IQ_ARCH_MIXTRAL,
    IQ_ARCH_QWEN3MOE,
    IQ_ARCHS
};

/* Which elements of a head make a rotary pair. GGUF files of the llama kind have their Q and K rows permuted so that
 * pairs are neighbours; all other sources use halves. */
enum iq_rope_pairing { IQ_PAIR_HALVES /* (i, i + d/2) */, IQ_PAIR_NEIGHBOURS /* (2i, 2i+1) */ };

/* Rotary scaling: the kinds of kernels/rotary.h, and what only GGUF files have. With inv[i] = theta^(-2i/d), i < d/2:
 *   linear    inv / factor
 *   dynamic   theta grows with the sequence beyond original_context: factor
 *   yarn      factor, original_context, beta_fast, beta_slow, attention_factor, mscale, mscale_all_dim, truncate
 *   llama3    factor, low_freq_factor, high_freq_factor, original_context
 *   longrope  inv / short_factor[i] up to original_context, inv / long_factor[i] beyond; attention_factor
 *   factors   rope_freqs.weight (Llama 3 exports): inv / factors[i] */
enum iq_rope_kind {
#define X(id, name) IQ_ROPE_##id = IQ_ROTARY_##id,
    IQ_ROTARY_KIND_MAP(X)
#undef X
        IQ_ROPE_FACTORS,
    IQ_ROPE_KINDS
};

struct iq_rope_config {
    enum iq_rope_kind kind;
    enum iq_rope_pairing pairing;
    double theta;
    double factor;             /* 1 when absent */
    uint64_t original_context; /* original_max_position_embeddings; the context length when absent */
    double attention_factor;   /* 0: absent, the kind's own formula holds */
    double beta_fast, beta_slow;
    double mscale, mscale_all_dim; /* 0: absent */
    bool truncate;                 /* yarn: round the correction range to whole pairs (the default) */
    double low_freq_factor, high_freq_factor;
    double *short_factor, *long_factor; /* (head_dim/2); owned. FACTORS: short_factor holds rope_freqs */
};

enum { IQ_MAX_STOPS = 16, IQ_NO_TOKEN = -1 };

struct iq_model_config {
    enum iq_arch arch;
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    /* A mixture of experts has them in every layer, each a feed-forward network of `ffn` columns. */
    uint32_t experts, active; /* of a layer, 0: dense; of those, how many serve a position */
    bool renormalise;         /* the weights of a position's experts sum to 1 */
    uint64_t context;         /* positions */
    double norm_eps;
    struct iq_rope_config rope;
    bool qkv_bias, qk_norm;
    uint64_t window; /* sliding-window attention: a position sees itself and window-1 before it; 0: none */
    uint32_t window_layer;      /* layers from this one on have the window (Qwen2's max_window_layers) */
    bool tied;                  /* the head is the embedding: the final word, whatever the flag said */
    int64_t bos;                /* IQ_NO_TOKEN: none named */
    int64_t stop[IQ_MAX_STOPS]; /* end-of-sequence, -turn and -message ids */
    uint32_t stops;
    /* What the file says the weights were trained or saved in: "bfloat16"; "" when it does not. */
    char dtype[16];
};

/* Tensors of their own, or in every entry the same three, of all experts one after the other: (experts, rows, columns). */
struct iq_expert_tensors {
    const struct iq_tensor *gate, *up, *down; /* (ffn, hidden) twice, (hidden, ffn) */
};

struct iq_layer_tensors {
    /* (hidden), (heads*head_dim, hidden), two of (kv_heads*head_dim, hidden), (hidden, heads*head_dim) */
    const struct iq_tensor *attn_norm, *q, *k, *v, *o;
    const struct iq_tensor *q_bias, *k_bias, *v_bias; /* all or none */
    const struct iq_tensor *q_norm, *k_norm;          /* (head_dim), Qwen3 */
    const struct iq_tensor *ffn_norm;                 /* (hidden) */
    const struct iq_tensor *gate, *up, *down;         /* dense: (ffn, hidden) twice, (hidden, ffn) */
    const struct iq_tensor *router;                   /* (experts, hidden) */
    struct iq_expert_tensors *expert;                 /* [experts], each role in one type; NULL: dense */
};

struct iq_model_tensors {
    const struct iq_tensor *embed;      /* (vocab, hidden) */
    const struct iq_tensor *head;       /* (vocab, hidden); the embedding itself when tied */
    const struct iq_tensor *final_norm; /* (hidden) */
    struct iq_layer_tensors *layer;     /* [layers]; owned */
    struct iq_expert_tensors *expert;   /* [layers * experts]; owned */
};

int iq_model_config_read(struct iq_model_file *, struct iq_model_config *, struct iq_model_tensors *,
                         struct iq_err *);
void iq_model_config_free(struct iq_model_config *, struct iq_model_tensors *);

const char *iq_arch_name(enum iq_arch);           /* "llama" */
const char *iq_rope_kind_name(enum iq_rope_kind); /* "yarn" */

#endif
