/* Tokenizers: text to token ids and back, from a GGUF file's metadata or a Hugging Face tokenizer.json.
 *
 * Kinds: byte-level BPE; character BPE with or without byte fallback (SentencePiece as tokenizer.json tells
 * it); SentencePiece BPE by scores (GGUF model "llama"). From tokenizer.json the ids are those of Hugging
 * Face's fast tokenizer; from GGUF those of llama.cpp. What a file asks for and this code lacks is refused by
 * name at load.
 *
 * Units: lengths in bytes, positions in bytes. Text is UTF-8; other bytes are refused with their offset.
 * Ownership: a tokenizer copies all that it needs from its source. It is constant after loading: any number
 * of threads may use one at a time. What a getter returns is borrowed from it. Errors: IQ_FORMAT for a
 * damaged file or text, IQ_UNSUPPORTED for a component that is not known, IQ_LIMIT for a split pattern that
 * runs away on this text (bounded time), IQ_MEMORY. On failure of an encode nothing was appended. Sources:
 * huggingface/tokenizers 0.23 (Rust), ggml-org/llama.cpp src/llama-vocab.cpp.
 */
#ifndef IQ_TEXT_TOKENIZER_H
#define IQ_TEXT_TOKENIZER_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IQ_TOKEN_NONE UINT32_MAX

struct iq_tokenizer;

/* Bytes that somebody else owns. */
struct iq_span {
    const char *data;
    size_t len;
};

/* A growing list of ids; zero-initialise; freed by iq_ids_free. */
struct iq_ids {
    uint32_t *id; /* (n) */
    size_t n, cap;
};
int iq_ids_put(struct iq_ids *, uint32_t id, struct iq_err *err);
void iq_ids_free(struct iq_ids *);

/* GGUF's tokenizer.ggml.token_type. */
enum iq_token_type {
    IQ_TOKEN_NORMAL = 1,
    IQ_TOKEN_UNKNOWN,
    IQ_TOKEN_CONTROL,
    IQ_TOKEN_USER,
    IQ_TOKEN_UNUSED,
    IQ_TOKEN_BYTE
};

/* The metadata of a GGUF file. An absent id or flag is -1, an absent array NULL, an absent name NULL. */
struct iq_tokenizer_source {
    const char *name;             /* of the file, for errors */
    const char *model, *pre;      /* tokenizer.ggml.model, .pre */
    const struct iq_span *tokens; /* (n_tokens) */
    const float *scores;          /* (n_tokens) */
    const int32_t *types;         /* (n_tokens), enum iq_token_type */
    const struct iq_span *merges; /* (n_merges), "left right" */
    size_t n_tokens, n_merges;
    int64_t bos, eos, unk, pad, eot, eom;
    int add_bos, add_eos, add_space_prefix;
};
/* All absent: start from this. */
#define IQ_TOKENIZER_SOURCE                                                                                  \
    ((struct iq_tokenizer_source){.bos = -1,                                                                 \
                                  .eos = -1,                                                                 \
                                  .unk = -1,                                                                 \
                                  .pad = -1,                                                                 \
                                  .eot = -1,                                                                 \
                                  .eom = -1,                                                                 \
                                  .add_bos = -1,                                                             \
                                  .add_eos = -1,                                                             \
                                  .add_space_prefix = -1})

int iq_tokenizer_from_gguf(const struct iq_tokenizer_source *, struct iq_tokenizer **out, struct iq_err *err);

/* `json`: the text of tokenizer.json, `name` its path for errors. `config`: the text of
 * tokenizer_config.json, or NULL; it gives the bos, eos, unk and pad tokens (and add_bos_token for the Llama
 * family). Truncation and padding that tokenizer.json may hold are not applied. */
int iq_tokenizer_from_hf(const char *json, size_t len, const char *name, const char *config,
                         size_t config_len, struct iq_tokenizer **out, struct iq_err *err);
void iq_tokenizer_free(struct iq_tokenizer *);

/* Flags of encode and decode. */
enum {
    IQ_ENCODE_SPECIAL = 1, /* add what the file adds around a text: BOS, EOS */
    IQ_ENCODE_PARSE = 2, /* control tokens in the text become their ids; without it they are ordinary text */
    IQ_DECODE_SKIP = 4   /* leave special tokens out */
};

/* Appends to *out. At most 256 MiB of text. */
int iq_tokenizer_encode(const struct iq_tokenizer *, const char *text, size_t len, unsigned flags,
                        struct iq_ids *out, struct iq_err *err);
/* Appends the bytes that `ids` stand for: part-characters stay as they are, so they may be no UTF-8.
 * IQ_SHAPE: an id is out of range. */
int iq_tokenizer_decode(const struct iq_tokenizer *, const uint32_t *ids, size_t n, unsigned flags,
                        struct iq_buf *out, struct iq_err *err);
/* The bytes of one id as it stands inside a text (not at its start). Nothing for an id out of range. */
struct iq_span iq_tokenizer_bytes(const struct iq_tokenizer *, uint32_t id);
/* The token as the file spells it ("Ġthe", "▁the", "<0x0A>"), and the id of a token so spelt or
 * IQ_TOKEN_NONE. */
struct iq_span iq_tokenizer_spelling(const struct iq_tokenizer *, uint32_t id);
uint32_t iq_tokenizer_find(const struct iq_tokenizer *, const char *spelling, size_t len);

/* The character by which byte-level tokens spell a byte (below 256): GPT-2's map. */
uint32_t iq_tokenizer_byte_char(unsigned byte);

uint32_t iq_tokenizer_vocab(const struct iq_tokenizer *); /* 1 + the largest id */
/* IQ_TOKEN_NONE where the file names none. */
uint32_t iq_tokenizer_bos(const struct iq_tokenizer *);
uint32_t iq_tokenizer_eos(const struct iq_tokenizer *);
uint32_t iq_tokenizer_unk(const struct iq_tokenizer *);
uint32_t iq_tokenizer_pad(const struct iq_tokenizer *);
bool iq_tokenizer_adds_bos(const struct iq_tokenizer *); /* IQ_ENCODE_SPECIAL puts BOS in front */
bool iq_tokenizer_is_gguf(const struct iq_tokenizer *);  /* from iq_tokenizer_from_gguf */
bool iq_tokenizer_is_special(const struct iq_tokenizer *, uint32_t id);
/* End of generation: eos, eot, eom and the special tokens that are known by their text to end a turn. More
 * (say generation_config.json's list) may be added before the tokenizer is shared. Ascending. */
bool iq_tokenizer_is_eog(const struct iq_tokenizer *, uint32_t id);
const struct iq_ids *iq_tokenizer_eog(const struct iq_tokenizer *);
int iq_tokenizer_eog_add(struct iq_tokenizer *, uint32_t id, struct iq_err *err);
/* What was odd about the file but has one known reading, as a sentence; NULL if nothing. */
const char *iq_tokenizer_warning(const struct iq_tokenizer *);

#endif
