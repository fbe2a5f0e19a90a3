/* A trained canary as a model file that inquest and others open: GGUF version 3, architecture llama.
 *
 * Matrices are bf16, rounded to nearest even; norms stay float32. Query and key rows are moved so that rotary pairs are
 * neighbours, as files of this architecture have them. The tokenizer is byte-level BPE without merges, so a text's ids are
 * iq_canary_encode's: BEGIN, the bytes, and END for IQ_CANARY_END_TEXT. The spare ids are characters of rare scripts, which no
 * text encodes to: a model that answers one is broken, and its answer shows it.
 * The bytes are a function of the recipe's sizes and the weights. Source: ggml/docs/gguf.md, convert_hf_to_gguf.py. */
#ifndef IQ_HARNESS_EXPORT_H
#define IQ_HARNESS_EXPORT_H

#include "engine/train/train.h"
#include "kernels/base/sha256.h"

/* Written whole or not at all. sha256: of the file. IQ_SHAPE: the vocabulary is not the canary's; errors of
 * iq_file_write_whole. */
int iq_canary_export(const struct iq_train *, const char *path, char sha256[IQ_SHA256_HEX],
                     struct iq_err *err);

#endif
