/* Inside engine/files: the pieces of iq_model_config_read. */
#ifndef IQ_FILES_CONFIG_PARTS_H
#define IQ_FILES_CONFIG_PARTS_H

#include "engine/files/config.h"

/* Sizes that both sources must name. */
struct iq__size {
    const char *gguf, *hf; /* gguf: after "ARCH." */
    size_t field;          /* offset of a uint32_t in struct iq_model_config */
    uint32_t least, most;
};
extern const struct iq__size iq__sizes[];
extern const size_t iq__sizes_n;

enum { IQ__MOST_HEADS = 4096, IQ__MOST_HEAD_DIM = 1024, IQ__MOST_VOCAB = 1 << 22, IQ__MOST_FFN = 1 << 20 };
#define IQ__MOST_CONTEXT (UINT64_C(1) << 28)

/* Those that are a mixture of experts by name, and those whose Q and K have norms. */
static inline bool iq__arch_has_experts(enum iq_arch a)
{
    return a == IQ_ARCH_MIXTRAL || a == IQ_ARCH_QWEN3MOE;
}
static inline bool iq__arch_has_qk_norm(enum iq_arch a)
{
    return a == IQ_ARCH_QWEN3 || a == IQ_ARCH_QWEN3MOE;
}

int iq__arch_find(const char *name, size_t n, const char *where, enum iq_arch *out, struct iq_err *);
int iq__rope_kind_find(const char *name, size_t n, const char *where, enum iq_rope_kind *out,
                       struct iq_err *);
/* Adds a stop id; one outside the vocabulary is noted and left out. */
void iq__stop_add(struct iq_model_file *, struct iq_model_config *, const char *key, uint64_t id);

int iq__config_gguf(struct iq_model_file *, struct iq_model_config *, struct iq_err *);
int iq__config_hf(struct iq_model_file *, struct iq_model_config *, struct iq_err *);
/* config.json's rotary part. */
int iq__rope_hf(const cJSON *config, const char *where, struct iq_model_config *, struct iq_err *);

/* tie: what config.json said about the head; always false for GGUF. */
int iq__tensors_resolve(struct iq_model_file *, struct iq_model_config *, bool tie, struct iq_model_tensors *,
                        struct iq_err *);

#endif
