/* Small random models for tests: complete GGUF files and Hugging Face folders.
 *
 * Every weight is a pure function of (seed, logical tensor, index), rounded once to the spec's format; so the same spec
 * written as GGUF and as a Hugging Face folder in F32, F16 or BF16 is the same model (GGUF's llama kind has its Q and K
 * rows permuted, as converters do). Matrices have variance about 1/columns, norms are near 1, biases near 0.
 * The tokenizer is byte-level BPE (GPT-2's pre-split): ids 0 <|endoftext|>, 1 <|im_start|>, 2 <|im_end|> (all
 * control), 3 to 258 the 256 bytes in GPT-2's order, then letter pairs that merges make ("a b" -> "ab"), then unused
 * names. A smaller vocabulary cuts the list. Its chat template is ChatML. */
#ifndef IQ_TESTS_MAKE_MODEL_H
#define IQ_TESTS_MAKE_MODEL_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"
#include "kernels/ops/format.h"

#include <stdbool.h>
#include <stdint.h>

struct iq_test_spec {
    /* "llama", "mistral" (in GGUF: llama), "qwen2" (q, k, v biases), "qwen3" (q, k norms), and with experts "mixtral" (in
     * GGUF: llama) and "qwen3moe" (q, k norms) */
    const char *arch;
    bool hf;               /* a folder, else one .gguf file */
    enum iq_format format; /* of matrices; HF: F32, F16 or BF16. GGUF keeps norms and biases in F32 */
    enum iq_format embed;  /* of the embedding and head in GGUF; IQ_FORMAT_NONE: as `format` */
    uint32_t layers, hidden, ffn, heads, kv_heads, head_dim, vocab;
    uint32_t experts, active; /* 0: dense; else ffn is an expert's */
    bool plain_weights;       /* HF, qwen3moe: norm_topk_prob is false */
    bool old_experts;         /* GGUF: each expert in tensors of its own, as old converters wrote them */
    uint32_t context;         /* 0: 512 */
    bool tied;                /* no head tensor, and the tie flag in config.json */
    uint32_t shards;          /* 0 or 1: one file; else a split set or an index with shards */
    double theta;             /* 0: 10000 */
    const char *rope_scaling; /* HF: JSON for rope_scaling, or NULL */
    bool rope_freqs;          /* GGUF: a rope_freqs.weight of random factors near 4 */
    const char *extra;        /* HF: more members for config.json, ", \"sliding_window\": 16", or NULL */
    bool no_tokenizer;
    bool unaligned; /* HF: the data begins at an odd offset, as old files may have it */
};

/* llama, GGUF, F32, 2 layers, hidden 64, ffn 160, 4 heads on 2 KV heads of 16, vocabulary 320. */
struct iq_test_spec iq_test_spec_default(void);

/* `path`: the .gguf file (with shards: its stem, "dir/m" gives dir/m-00001-of-00003.gguf), or a folder that exists. */
int iq_test_write_model(const char *path, const struct iq_test_spec *, uint64_t seed, struct iq_err *err);

/* ---- parts, for tests that write malformed files ---- */

/* The value of element i of a tensor before rounding; `name` is Hugging Face's ("model.layers.0.mlp.up_proj.weight"). */
float iq_test_weight(uint64_t seed, const char *name, uint64_t i, float mean, float deviation);
/* Encodes n values (whole blocks) in a format; appends to the buffer. */
void iq_test_encode(struct iq_buf *, enum iq_format, const float *x, size_t n);

/* The tokenizer parts; *keys grows by the keys written. */
extern const char iq_test_chat_template[];
void iq_test_gguf_tokenizer(struct iq_buf *, uint32_t vocab, uint64_t *keys);
void iq_test_hf_tokenizer(struct iq_buf *, uint32_t vocab); /* the text of tokenizer.json */

/* GGUF scalars and strings, appended little endian. */
void iq_test_put_u32(struct iq_buf *, uint32_t);
void iq_test_put_u64(struct iq_buf *, uint64_t);
void iq_test_put_text(struct iq_buf *, const char *s);
void iq_test_key_text(struct iq_buf *, const char *key, const char *value);
void iq_test_key_u32(struct iq_buf *, const char *key, uint32_t value);
void iq_test_key_f32(struct iq_buf *, const char *key, float value);
void iq_test_key_bool(struct iq_buf *, const char *key, bool value);

int iq_test_write_file(const char *path, const void *bytes, size_t n, struct iq_err *err);

#endif
