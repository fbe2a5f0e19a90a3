#include "harness/canary/export.h"

#include "engine/files/model_file.h"
#include "engine/text/tokenizer.h"
#include "golden/canary/canary.h"
#include "kernels/arith.h"
#include "kernels/base/file.h"
#include "kernels/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the file is little endian and copied as it is");

enum {
    VERSION = 3,
    ALIGNMENT = 32,
    TYPE_F32 = 0, /* ggml's tensor types */
    TYPE_BF16 = 30,
    FILE_TYPE_BF16 = 32,
    PER_LAYER = 10 /* tensors, at most; and three beside the layers */
};
#define FILE_MAX ((size_t)1 << 32)

/* ---- keys ---- */

struct keys {
    struct iq_buf *buf;
    uint64_t n;
};

static void put_u32(struct iq_buf *b, uint32_t v) { iq_buf_put(b, &v, sizeof v); }
static void put_u64(struct iq_buf *b, uint64_t v) { iq_buf_put(b, &v, sizeof v); }

static void put_text(struct iq_buf *b, const char *s, size_t n)
{
    put_u64(b, n);
    iq_buf_put(b, s, n);
}

static void put_key(struct keys *k, const char *key, enum iq_meta_type type)
{
    put_text(k->buf, key, strlen(key));
    put_u32(k->buf, type);
    k->n++;
}

static void key_text(struct keys *k, const char *key, const char *value)
{
    put_key(k, key, IQ_META_STRING);
    put_text(k->buf, value, strlen(value));
}

static void key_u32(struct keys *k, const char *key, uint32_t value)
{
    put_key(k, key, IQ_META_U32);
    put_u32(k->buf, value);
}

static void key_f32(struct keys *k, const char *key, double value)
{
    float v = (float)value;
    put_key(k, key, IQ_META_F32);
    iq_buf_put(k->buf, &v, sizeof v);
}

static void key_array(struct keys *k, const char *key, enum iq_meta_type element, uint64_t n)
{
    put_key(k, key, IQ_META_ARRAY);
    put_u32(k->buf, element);
    put_u64(k->buf, n);
}

static void put_sizes(struct keys *k, const struct iq_train_recipe *r)
{
    key_text(k, "general.architecture", "llama");
    key_text(k, "general.name", "inquest canary");
    key_u32(k, "general.file_type", FILE_TYPE_BF16);
    key_u32(k, "llama.vocab_size", r->vocab);
    key_u32(k, "llama.context_length", r->length);
    key_u32(k, "llama.embedding_length", r->hidden);
    key_u32(k, "llama.block_count", r->layers);
    key_u32(k, "llama.feed_forward_length", r->ffn);
    if (r->experts) key_u32(k, "llama.expert_count", r->experts);
    if (r->experts) key_u32(k, "llama.expert_used_count", r->active);
    key_u32(k, "llama.attention.head_count", r->heads);
    key_u32(k, "llama.attention.head_count_kv", r->kv_heads);
    key_u32(k, "llama.attention.key_length", r->head_dim);
    key_u32(k, "llama.attention.value_length", r->head_dim);
    key_u32(k, "llama.rope.dimension_count", r->head_dim);
    key_f32(k, "llama.rope.freq_base", r->rope_base);
    key_f32(k, "llama.attention.layer_norm_rms_epsilon", r->norm_eps);
}

/* ---- tokens ---- */

/* Runs of assigned letters; together the spare ids. */
static const struct {
    uint32_t first, n;
} scripts[] = {{0x0e01, 16} /* Thai */,
               {0x0f49, 16} /* Tibetan */,
               {0x1200, 16} /* Ethiopic */,
               {0x13a0, 13} /* Cherokee */};

static uint32_t spare_letter(uint32_t at)
{
    size_t i = 0;
    while (at >= scripts[i].n) at -= scripts[i++].n;
    return scripts[i].first + at;
}

/* Bytes as byte-level tokens spell them. */
static void put_spelling(struct iq_buf *b, const char *bytes, int n)
{
    char text[4 * 2];
    size_t len = 0;
    for (int i = 0; i < n; i++)
        len += (size_t)iq_utf8_put(iq_tokenizer_byte_char((unsigned char)bytes[i]), text + len);
    put_text(b, text, len);
}

static void put_token(struct iq_buf *b, uint32_t id)
{
    static const char *const named[] = {"<|begin|>", IQ_CANARY_END_TEXT, "<|pad|>"};
    char bytes[4] = {(char)id};
    if (id < IQ_CANARY_BEGIN)
        put_spelling(b, bytes, 1);
    else if (id < IQ_CANARY_SPARE)
        put_text(b, named[id - IQ_CANARY_BEGIN], strlen(named[id - IQ_CANARY_BEGIN]));
    else
        put_spelling(b, bytes, iq_utf8_put(spare_letter(id - IQ_CANARY_SPARE), bytes));
}

static void put_tokenizer(struct keys *k)
{
    key_text(k, "tokenizer.ggml.model", "gpt2");
    key_text(k, "tokenizer.ggml.pre", "gpt-2");
    key_array(k, "tokenizer.ggml.tokens", IQ_META_STRING, IQ_CANARY_VOCAB);
    for (uint32_t id = 0; id < IQ_CANARY_VOCAB; id++) put_token(k->buf, id);
    key_array(k, "tokenizer.ggml.token_type", IQ_META_I32, IQ_CANARY_VOCAB);
    for (uint32_t id = 0; id < IQ_CANARY_VOCAB; id++)
        put_u32(k->buf, id >= IQ_CANARY_BEGIN && id < IQ_CANARY_SPARE ? IQ_TOKEN_CONTROL : IQ_TOKEN_NORMAL);
    key_array(k, "tokenizer.ggml.merges", IQ_META_STRING, 0); /* llama.cpp asks for the key */
    key_u32(k, "tokenizer.ggml.bos_token_id", IQ_CANARY_BEGIN);
    key_u32(k, "tokenizer.ggml.eos_token_id", IQ_CANARY_END);
    key_u32(k, "tokenizer.ggml.padding_token_id", IQ_CANARY_PAD);
    put_key(k, "tokenizer.ggml.add_bos_token", IQ_META_BOOL);
    iq_buf_put(k->buf, "\1", 1);
}

/* ---- tensors ---- */

struct tensor {
    char name[40];
    const float *from;
    uint32_t experts, rows, cols; /* (experts, rows, cols); experts 0: (rows, cols); rows 0: (cols) */
    size_t stride;                /* floats from an expert to the next */
    uint32_t head;                /* rows of a head, which are moved; 0: none are */
    bool exact;                   /* float32 */
};

struct tensors {
    const struct iq_train *train;
    const struct iq_train_recipe *recipe;
    struct tensor *list;
    size_t n;
};

static const struct iq_train_tensor *find(const struct iq_train *t, const char *name)
{
    const struct iq_train_tensor *x;
    for (size_t i = 0; (x = iq_train_tensor_at(t, i)) && strcmp(x->name, name);) i++;
    return x;
}

/* Rows [row, row + rows) of the trainer's tensor, or of every expert's part of it. */
static struct tensor *add(struct tensors *all, const char *name, const char *source, uint32_t row,
                          uint32_t rows, uint32_t experts)
{
    const struct iq_train_tensor *x = find(all->train, source);
    struct tensor *t = &all->list[all->n++];
    *t = (struct tensor){.from = iq_train_weights(all->train, NULL) + x->at + (size_t)row * x->cols,
                         .experts = experts,
                         .rows = rows,
                         .cols = x->cols,
                         .exact = !rows};
    if (experts) t->stride = (size_t)x->rows / experts * x->cols;
    snprintf(t->name, sizeof t->name, "%s.weight", name);
    return t;
}

static struct tensor *add_part(struct tensors *all, uint32_t layer, const char *name, const char *source,
                               uint32_t row, uint32_t rows, uint32_t experts)
{
    char full[32], from[32];
    snprintf(full, sizeof full, "blk.%u.%s", layer, name);
    snprintf(from, sizeof from, "layer.%u.%s", layer, source);
    return add(all, full, from, row, rows, experts);
}

static void add_layer(struct tensors *all, uint32_t layer)
{
    const struct iq_train_recipe *r = all->recipe;
    const uint32_t q = r->heads * r->head_dim, kv = r->kv_heads * r->head_dim;
    const char *of = r->experts ? "_exps" : "";
    char name[16];
    add_part(all, layer, "attn_norm", "attn_norm", 0, 0, 0);
    add_part(all, layer, "attn_q", "qkv", 0, q, 0)->head = r->head_dim;
    add_part(all, layer, "attn_k", "qkv", q, kv, 0)->head = r->head_dim;
    add_part(all, layer, "attn_v", "qkv", q + kv, kv, 0);
    add_part(all, layer, "attn_output", "out", 0, r->hidden, 0);
    add_part(all, layer, "ffn_norm", "ffn_norm", 0, 0, 0);
    if (r->experts) add_part(all, layer, "ffn_gate_inp", "router", 0, r->experts, 0)->exact = true;
#define NAMED(stem) (snprintf(name, sizeof name, "%s%s", stem, of), name)
    add_part(all, layer, NAMED("ffn_gate"), "gate_up", 0, r->ffn, r->experts);
    add_part(all, layer, NAMED("ffn_up"), "gate_up", r->ffn, r->ffn, r->experts);
    add_part(all, layer, NAMED("ffn_down"), "down", 0, r->hidden, r->experts);
#undef NAMED
}

static void add_all(struct tensors *all)
{
    const struct iq_train_recipe *r = all->recipe;
    add(all, "token_embd", "embed", 0, r->vocab, 0);
    for (uint32_t i = 0; i < r->layers; i++) add_layer(all, i);
    add(all, "output_norm", "final_norm", 0, 0, 0);
    if (!r->tied) add(all, "output", "head", 0, r->vocab, 0);
}

static uint32_t least_one(uint32_t n) { return n ? n : 1; }

static size_t tensor_bytes(const struct tensor *t)
{
    size_t elements = (size_t)least_one(t->experts) * least_one(t->rows) * t->cols;
    return elements * (t->exact ? sizeof(float) : sizeof(uint16_t));
}

static void pad(struct iq_buf *b)
{
    static const char zeros[ALIGNMENT];
    iq_buf_put(b, zeros, (ALIGNMENT - b->len % ALIGNMENT) % ALIGNMENT);
}

static void put_infos(struct iq_buf *b, const struct tensors *all)
{
    uint64_t offset = 0;
    for (const struct tensor *t = all->list; t < all->list + all->n; t++) {
        put_text(b, t->name, strlen(t->name));
        put_u32(b, t->experts ? 3 : t->rows ? 2 : 1);
        put_u64(b, t->cols);
        if (t->rows) put_u64(b, t->rows);
        if (t->experts) put_u64(b, t->experts);
        put_u32(b, t->exact ? TYPE_F32 : TYPE_BF16);
        put_u64(b, offset);
        offset += (tensor_bytes(t) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    }
}

/* Row r of the file is this row of the trainer's: elements i and i + d/2 of a head come to stand together. */
static uint32_t source_row(const struct tensor *t, uint32_t r)
{
    if (!t->head) return r;
    uint32_t j = r % t->head;
    return r - j + j / 2 + (j & 1) * (t->head / 2);
}

static void put_row(struct iq_buf *b, const float *row, uint32_t n, bool exact)
{
    if (exact) {
        iq_buf_put(b, row, n * sizeof *row);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint16_t v = iq_f32_to_bf16(row[i]);
        iq_buf_put(b, &v, sizeof v);
    }
}

static void put_data(struct iq_buf *b, const struct tensor *t)
{
    for (uint32_t e = 0; e < least_one(t->experts); e++)
        for (uint32_t r = 0; r < least_one(t->rows); r++)
            put_row(b, t->from + e * t->stride + (size_t)source_row(t, r) * t->cols, t->cols, t->exact);
    pad(b);
}

/* ---- the file ---- */

static void compose(struct iq_buf *file, const struct tensors *all)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    struct keys k = {&text, 0};
    put_sizes(&k, all->recipe);
    put_tokenizer(&k);
    iq_buf_put(file, "GGUF", 4);
    put_u32(file, VERSION);
    put_u64(file, all->n);
    put_u64(file, k.n);
    iq_buf_put(file, text.data, text.len);
    put_infos(file, all);
    pad(file);
    for (size_t i = 0; i < all->n; i++) put_data(file, &all->list[i]);
    file->failed |= text.failed;
    iq_buf_free(&text);
}

int iq_canary_export(const struct iq_train *t, const char *path, char sha256[IQ_SHA256_HEX],
                     struct iq_err *err)
{
    const struct iq_train_recipe *r = iq_train_recipe_of(t);
    struct tensors all = {.train = t, .recipe = r};
    struct iq_buf file = IQ_BUF(FILE_MAX);
    int status = IQ_OK;
    if (r->vocab != IQ_CANARY_VOCAB)
        return iq_fail(err, IQ_SHAPE, "%s: the trainer has %u tokens, expected the canary's %d", path,
                       r->vocab, IQ_CANARY_VOCAB);
    all.list = calloc((size_t)PER_LAYER * r->layers + 3, sizeof *all.list);
    if (all.list) {
        add_all(&all);
        compose(&file, &all);
    }
    if (!all.list || file.failed)
        status = iq_fail(err, IQ_MEMORY, "%s: no memory for the model's file", path);
    if (status == IQ_OK) status = iq_file_write_whole(path, file.data, file.len, err);
    if (status == IQ_OK) iq_sha256(file.data, file.len, sha256);
    iq_buf_free(&file);
    free(all.list);
    return status;
}
