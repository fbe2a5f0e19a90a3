/* Low-rank adapters (LoRA): a folder as PEFT writes it, adapter_config.json beside adapter_model.safetensors.
 *
 * Targets are q, k, v, o, gate, up and down of dense models, in any layers. What else a config asks for (DoRA, biases,
 * ranks by pattern, whole modules) is refused by name, as is a tensor that does not belong. Weights are widened to float32.
 * Where a GGUF model's queries and keys stand in another order than Hugging Face's, B's rows are put in the model's order.
 * Ownership: iq_adapter_close frees all. Constant.
 */
#ifndef IQ_ENGINE_ADAPTER_H
#define IQ_ENGINE_ADAPTER_H

#include "engine/model.h"
#include "kernels/ops/lora.h"

enum iq_target {
    IQ_TARGET_Q,
    IQ_TARGET_K,
    IQ_TARGET_V,
    IQ_TARGET_O,
    IQ_TARGET_GATE,
    IQ_TARGET_UP,
    IQ_TARGET_DOWN,
    IQ_TARGETS
};

struct iq_adapter {
    char *name;
    uint32_t number;           /* what triggers call it, from 1: the opener's caller sets it */
    struct iq_lora_pair *pair; /* (layers, IQ_TARGETS) */
    float *weights;
    struct iq_digest digest; /* of the weights in memory, and the scale */
    char sha256[IQ_SHA256_HEX];
};

int iq_adapter_open(const char *name, const char *path, const struct iq_model *, struct iq_adapter **out,
                    struct iq_err *err);
void iq_adapter_close(struct iq_adapter *); /* NULL is fine */

#endif
