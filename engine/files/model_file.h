/* Model files over mmap: GGUF (single or split) and Hugging Face folders (safetensors with config.json).
 *
 * Opened from: a .gguf file (any shard of a split set), a folder that holds one GGUF set, a Hugging Face folder, or a
 * .safetensors file inside one. Everything about the files' structure is checked here, so that later readers cannot be
 * led outside a mapping: counts, sizes, alignment, overlaps, duplicate names, shard sets. No allocation is larger than
 * a small multiple of the bytes that were really there. What a model needs (names, dimensions) is config.h's business.
 * Ownership: names, strings, tensors and bytes are borrowed until iq_model_file_close. Not thread-safe, except that
 * any thread may read tensor bytes.
 * Used marks: whoever reads a key or tensor through this header marks it, so that iq_model_file_unread can list what
 * nothing read.
 * Errors: IQ_IO, IQ_FORMAT (malformed), IQ_UNSUPPORTED (by name), IQ_NOT_FOUND (a shard, a tensor), IQ_MISMATCH (shards
 * disagree), IQ_MEMORY, IQ_LIMIT.
 * Sources: ggml/docs/gguf.md, huggingface/safetensors README. */
#ifndef IQ_FILES_MODEL_FILE_H
#define IQ_FILES_MODEL_FILE_H

#include "kernels/base/json.h"
#include "kernels/base/sha256.h"
#include "kernels/base/status.h"
#include "kernels/ops/format.h"

#include <stdbool.h>
#include <stdint.h>

struct iq_model_file;

enum iq_model_kind { IQ_MODEL_GGUF, IQ_MODEL_HF };

int iq_model_file_open(const char *path, struct iq_model_file **out, struct iq_err *err);
/* No model: one safetensors file of a folder (an adapter's), and the folder's JSON files. */
int iq_model_file_open_tensors(const char *folder, const char *file, struct iq_model_file **out,
                               struct iq_err *err);
void iq_model_file_close(struct iq_model_file *); /* NULL is fine */

enum iq_model_kind iq_model_file_kind(const struct iq_model_file *);
/* What was opened, for messages: the .gguf file (shard 1 of a set) or the folder. */
const char *iq_model_file_name(const struct iq_model_file *);

/* The files that were read so far (weights, and JSON files once they were asked for). */
size_t iq_model_file_count(const struct iq_model_file *);
const char *iq_model_file_path(const struct iq_model_file *, size_t file);
uint64_t iq_model_file_bytes(const struct iq_model_file *, size_t file);
int iq_model_file_sha256(const struct iq_model_file *, size_t file, char hex[IQ_SHA256_HEX], struct iq_err *);

/* Things that a user should know but that stop nothing: a tied head, a stale copy that was ignored. */
size_t iq_model_file_note_count(const struct iq_model_file *);
const char *iq_model_file_note(const struct iq_model_file *, size_t i);
void iq_model_file_add_note(struct iq_model_file *, const char *fmt, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- tensors ---- */

struct iq_tensor {
    const char *name;
    const char *type; /* as the file names it: "Q4_1", "BF16", "Q4_K" */
    /* IQ_FORMAT_NONE: a type that no kernel reads; bytes may be copied, not computed with. */
    enum iq_format format;
    int rank; /* 1 to 4 */
    /* Logical, row-major: a matrix is dim[0] rows (outputs) of dim[1] columns; unused are 1. */
    uint64_t dim[4];
    /* Row-major, no padding between rows; safetensors may leave it unaligned: use memcpy. */
    const void *bytes;
    uint64_t nbytes;
    size_t file;
    uint64_t offset; /* in that file */
    bool used;
};

size_t iq_model_tensor_count(const struct iq_model_file *);
/* In file order; does not mark. */
const struct iq_tensor *iq_model_tensor_at(const struct iq_model_file *, size_t i);
/* NULL when there is none of this name; otherwise marks it as used. */
const struct iq_tensor *iq_model_tensor_find(struct iq_model_file *, const char *name);
/* Same without the mark. */
const struct iq_tensor *iq_model_tensor_peek(const struct iq_model_file *, const char *name);
/* The caller has packed (copied) the tensor: its pages leave memory. Bytes stay readable, from disk. */
void iq_model_tensor_release(const struct iq_model_file *, const struct iq_tensor *);

/* ---- GGUF keys; all find nothing in a Hugging Face folder ---- */

struct iq_text {
    const char *s; /* not NUL-terminated; may hold any byte */
    size_t n;
};

enum iq_meta_type { /* GGUF's numbers */
                    IQ_META_U8,
                    IQ_META_I8,
                    IQ_META_U16,
                    IQ_META_I16,
                    IQ_META_U32,
                    IQ_META_I32,
                    IQ_META_F32,
                    IQ_META_BOOL,
                    IQ_META_STRING,
                    IQ_META_ARRAY,
                    IQ_META_U64,
                    IQ_META_I64,
                    IQ_META_F64,
                    IQ_META_TYPES
};

struct iq_meta {
    const char *key;
    enum iq_meta_type type;
    enum iq_meta_type element;  /* of an array */
    uint64_t n;                 /* elements of an array, bytes of a string, else 1 */
    const unsigned char *bytes; /* the first element; strings in arrays carry their length in front */
    size_t file;
    uint64_t offset; /* of the value in that file */
    bool used;
};

size_t iq_model_meta_count(const struct iq_model_file *);
const struct iq_meta *iq_model_meta_at(const struct iq_model_file *, size_t i);    /* does not mark */
const struct iq_meta *iq_model_meta_find(struct iq_model_file *, const char *key); /* marks; NULL if absent */
const char *iq_meta_type_name(enum iq_meta_type);

/* Getters mark. Absent: *out is left as it was, and *found (may be NULL) false. Present with another type, inexact or
 * outside [lo, hi]: IQ_FORMAT. Any integer type serves for u64; any number for f64 (it must be finite). */
int iq_model_u64(struct iq_model_file *, const char *key, uint64_t lo, uint64_t hi, uint64_t *out,
                 bool *found, struct iq_err *);
int iq_model_f64(struct iq_model_file *, const char *key, double lo, double hi, double *out, bool *found,
                 struct iq_err *);
int iq_model_bool(struct iq_model_file *, const char *key, bool *out, bool *found, struct iq_err *);
int iq_model_text(struct iq_model_file *, const char *key, struct iq_text *out, bool *found, struct iq_err *);

/* An array, to be walked from the front. iq_array_next_* give the next element; call them n times at most (beyond that
 * they give empty or zero elements). The array's bounds were checked at open. */
struct iq_array {
    enum iq_meta_type element;
    uint64_t n, at;
    const unsigned char *next;
};
/* `element` is STRING (strings), F64 (any number) or I64 (any integer that fits): what the caller will walk it as. */
int iq_model_array(struct iq_model_file *, const char *key, enum iq_meta_type element, struct iq_array *out,
                   bool *found, struct iq_err *);
struct iq_text iq_array_next_text(struct iq_array *);
double iq_array_next_f64(struct iq_array *);
int64_t iq_array_next_i64(struct iq_array *); /* a U64 above INT64_MAX gives INT64_MAX */

/* ---- files of a Hugging Face folder ---- */

/* The parsed file (config.json, generation_config.json, tokenizer.json, tokenizer_config.json,
 * special_tokens_map.json ...): read once, kept until iq_model_json_drop or close. *out is NULL, and the status IQ_OK,
 * when the folder has no such file or the model is a GGUF. */
int iq_model_json(struct iq_model_file *, const char *file, const cJSON **out, struct iq_err *);
void iq_model_json_drop(struct iq_model_file *, const char *file); /* a tokenizer.json tree is large */
/* The bytes of a file of the folder (tokenizer.json, chat_template.jinja), mapped, at most `max`. out->s is NULL when
 * there is no such file. */
int iq_model_bytes(struct iq_model_file *, const char *file, uint64_t max, struct iq_text *out,
                   struct iq_err *);
/* Marks a member of a tree from iq_model_json as read; returns the member or NULL if it is absent (null counts). */
const cJSON *iq_model_json_use(const cJSON *object, const char *key);

/* ---- what nothing read ---- */

/* Calls back for each key ("llama.foo", "config.json: foo") and tensor without a mark. Nested objects of the small JSON
 * files are walked; tokenizer.json is not (its reader refuses what it does not know). */
void iq_model_file_unread(const struct iq_model_file *,
                          void (*each)(void *ctx, bool tensor, const char *name), void *ctx);

#endif
