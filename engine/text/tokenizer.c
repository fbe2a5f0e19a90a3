/* Encoding: added tokens, normalizer, splitter, model, in this order; and what tokens are. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/grow.h"
#include "kernels/base/utf8.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int iq_ids_put(struct iq_ids *ids, uint32_t id, struct iq_err *err)
{
    if (ids->n == ids->cap) IQ_TRY(iq_grow(&ids->id, &ids->cap, ids->n + 1, sizeof *ids->id, err));
    ids->id[ids->n++] = id;
    return IQ_OK;
}

void iq_ids_free(struct iq_ids *ids)
{
    free(ids->id);
    *ids = (struct iq_ids){0};
}

int iq__tokenizer_new(const char *name, struct iq_tokenizer **out, struct iq_err *err)
{
    struct iq_tokenizer *t = *out = calloc(1, sizeof *t);
    if (t) t->name = strdup(name ? name : "the tokenizer");
    if (!t || !t->name) return iq_fail(err, IQ_MEMORY, "no memory for a tokenizer");
    t->bos = t->eos = t->unk = t->pad = IQ_TOKEN_NONE;
    return IQ_OK;
}

static void added_free(struct iq__added_set *set)
{
    for (uint32_t i = 0; i < set->n; i++) free(set->token[i].normal);
    free(set->token);
}

void iq_tokenizer_free(struct iq_tokenizer *t)
{
    if (!t) return;
    iq__vocab_free(&t->vocab);
    free(t->merges.slot);
    free(t->scores);
    free(t->unk_spelling);
    free(t->prefix);
    free(t->suffix);
    iq__steps_free(&t->normalizer);
    iq__steps_free(&t->splitter);
    iq__steps_free(&t->decoder);
    added_free(&t->raw);
    added_free(&t->normalized);
    iq_ids_free(&t->before);
    iq_ids_free(&t->after);
    free(t->type);
    free(t->bytes);
    free(t->bytes_at);
    iq_ids_free(&t->eog);
    free(t->warning);
    free(t->name);
    free(t);
}

/* --- after loading --- */

/* Tokens that end a turn in the families that are served, wherever they are special tokens. */
static const char *const ends[] = {
    "<|im_end|>",      "<|endoftext|>",        "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>",
    "<|end|>",         "<end_of_turn>",        "<|eot|>",    "<|eom|>",    "<|return|>",
    "<|end_of_turn|>", "<|endofturn|>",        "<|call|>",   "<EOT>",      "_<EOT>",
    "<|end_of_role|>", "<｜end▁of▁sentence｜>"};

static int decoded_table(struct iq_tokenizer *t, struct iq__scratch *w, struct iq_err *err)
{
    struct iq_buf all = IQ_BUF(64 * t->vocab.text_len + 4096);
    int status = IQ_OK;
    t->bytes_at = calloc((size_t)t->n_ids + 1, sizeof *t->bytes_at);
    if (!t->bytes_at) return iq_fail(err, IQ_MEMORY, "%s: no memory for %u tokens", t->name, t->n_ids);
    iq_buf_put(&all, "", 0);
    for (uint32_t id = 0; id < t->n_ids && status == IQ_OK; id++) {
        if (all.len > UINT32_MAX / 2)
            status = iq_fail(err, IQ_LIMIT, "the tokens decode to more than 2 GiB");
        else if (t->type[id])
            status = iq__decode_token(t, w, id, false, &all, err);
        t->bytes_at[id + 1] = (uint32_t)all.len;
    }
    t->bytes = all.data;
    return status;
}

static int find_ends(struct iq_tokenizer *t, struct iq_err *err)
{
    if (t->eos != IQ_TOKEN_NONE) IQ_TRY(iq_tokenizer_eog_add(t, t->eos, err));
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        uint32_t id = iq_tokenizer_find(t, ends[i], strlen(ends[i]));
        if (id != IQ_TOKEN_NONE && iq_tokenizer_is_special(t, id)) IQ_TRY(iq_tokenizer_eog_add(t, id, err));
    }
    return IQ_OK;
}

int iq__tokenizer_finish(struct iq_tokenizer *t, struct iq_err *err)
{
    char text[8];
    for (uint32_t cp = 0; cp < 512; cp++)
        t->char_id[cp] = iq__vocab_find(&t->vocab, text, (size_t)iq_utf8_put(cp, text));
    for (unsigned b = 0; b < 256; b++) {
        char raw = (char)b;
        snprintf(text, sizeof text, "<0x%02X>", b);
        t->byte_id[b] = iq__vocab_find(&t->vocab, text, 6);
        /* llama.cpp's second choice */
        if (t->by_score && t->byte_id[b] == IQ_TOKEN_NONE) t->byte_id[b] = iq__vocab_find(&t->vocab, &raw, 1);
    }
    iq__added_sort(&t->raw);
    iq__added_sort(&t->normalized);
    struct iq__scratch w = {0};
    int status = decoded_table(t, &w, err);
    iq__scratch_free(&w);
    return status == IQ_OK ? find_ends(t, err) : status;
}

/* --- encoding --- */

struct encoding {
    const struct iq_tokenizer *t;
    struct iq__scratch w;
    struct iq_ids *out;
    bool parse, after_special;
};

/* Text between added tokens, normalized. */
static int put_text(void *ctx, struct iq_span text, uint32_t id, bool at_start, struct iq_err *err)
{
    struct encoding *e = ctx;
    if (id != IQ_TOKEN_NONE) return iq_ids_put(e->out, id, err);
    IQ_TRY(iq__split_run(&e->t->splitter, &e->w, text.data, text.len, at_start, err));
    for (size_t i = 0; i < e->w.a.n; i++) {
        struct iq__piece p = e->w.a.piece[i];
        IQ_TRY(iq__model_encode(e->t, &e->w, e->w.a.text.data + p.at, p.len, e->out, err));
    }
    return IQ_OK;
}

/* Text between added tokens, as it came. */
static int put_raw(void *ctx, struct iq_span text, uint32_t id, bool at_start, struct iq_err *err)
{
    struct encoding *e = ctx;
    const struct iq_tokenizer *t = e->t;
    if (id != IQ_TOKEN_NONE) {
        e->after_special = true;
        return iq_ids_put(e->out, id, err);
    }
    struct iq_buf *from = &e->w.normal, *to = &e->w.swap;
    from->len = 0;
    from->max = to->max = e->w.limit;
    if (t->space_first && e->after_special) iq_buf_put(from, " ", 1);
    e->after_special = false;
    iq_buf_put(from, text.data, text.len);
    if (from->failed) return iq_fail(err, IQ_MEMORY, "no memory for a text of %zu bytes", text.len);
    for (size_t i = 0; i < t->normalizer.n; i++) {
        const struct iq__step *st = &t->normalizer.step[i];
        to->len = 0;
        e->w.cut_front = false;
        IQ_TRY(st->rewrite(st, &e->w, from->data, from->len, at_start, to, err));
        struct iq_buf swap = *from;
        *from = *to;
        *to = swap;
        at_start = at_start && !e->w.cut_front;
    }
    if (!from->len) return IQ_OK;
    struct iq_span normal = {from->data, from->len};
    return iq__added_split(&t->normalized, e->parse, normal, at_start, put_text, e, err);
}

static int check_text(const char *text, size_t len, struct iq_err *err)
{
    if (len > IQ_TEXT_MAX)
        return iq_fail(err, IQ_LIMIT, "a text of %zu bytes; at most %zu can be tokenized at once", len,
                       IQ_TEXT_MAX);
    for (size_t i = 0; i < len;) {
        uint32_t cp;
        int n = (unsigned char)text[i] < 0x80 ? 1 : iq_utf8_next(text + i, len - i, &cp);
        if (n < 0)
            return iq_fail(err, IQ_FORMAT, "the text is no UTF-8 at byte %zu: found 0x%02x", i,
                           (unsigned char)text[i]);
        i += (size_t)n;
    }
    return IQ_OK;
}

static int put_ids(struct iq_ids *out, const struct iq_ids *add, struct iq_err *err)
{
    for (size_t i = 0; i < add->n; i++) IQ_TRY(iq_ids_put(out, add->id[i], err));
    return IQ_OK;
}

int iq_tokenizer_encode(const struct iq_tokenizer *t, const char *text, size_t len, unsigned flags,
                        struct iq_ids *out, struct iq_err *err)
{
    IQ_TRY(check_text(text, len, err));
    struct encoding e = {.t = t, .out = out, .parse = flags & IQ_ENCODE_PARSE, .after_special = true};
    size_t n = out->n, most = 4 * IQ_TEXT_MAX - 1;
    e.w.limit = 32 * len + 65536 < most ? 32 * len + 65536 : most; /* NFKD makes 11 bytes of one at most */
    int status = flags & IQ_ENCODE_SPECIAL ? put_ids(out, &t->before, err) : IQ_OK;
    struct iq_span all = {text, len};
    if (status == IQ_OK && len) status = iq__added_split(&t->raw, e.parse, all, true, put_raw, &e, err);
    if (status == IQ_OK && (flags & IQ_ENCODE_SPECIAL)) status = put_ids(out, &t->after, err);
    iq__scratch_free(&e.w);
    if (status != IQ_OK) out->n = n;
    return status;
}

/* --- what is known about ids --- */

struct iq_span iq_tokenizer_bytes(const struct iq_tokenizer *t, uint32_t id)
{
    if (id >= t->n_ids) return (struct iq_span){"", 0};
    return (struct iq_span){t->bytes + t->bytes_at[id], t->bytes_at[id + 1] - t->bytes_at[id]};
}

struct iq_span iq_tokenizer_spelling(const struct iq_tokenizer *t, uint32_t id)
{
    return id < t->n_ids ? iq__vocab_span(&t->vocab, id) : (struct iq_span){"", 0};
}

uint32_t iq_tokenizer_find(const struct iq_tokenizer *t, const char *s, size_t len)
{
    uint32_t id = iq__vocab_find_any(&t->vocab, s, len);
    return id < t->n_ids ? id : IQ_TOKEN_NONE;
}

uint32_t iq_tokenizer_vocab(const struct iq_tokenizer *t) { return t->n_ids; }
uint32_t iq_tokenizer_bos(const struct iq_tokenizer *t) { return t->bos; }
uint32_t iq_tokenizer_eos(const struct iq_tokenizer *t) { return t->eos; }
uint32_t iq_tokenizer_unk(const struct iq_tokenizer *t) { return t->unk; }
uint32_t iq_tokenizer_pad(const struct iq_tokenizer *t) { return t->pad; }
const struct iq_ids *iq_tokenizer_eog(const struct iq_tokenizer *t) { return &t->eog; }
const char *iq_tokenizer_warning(const struct iq_tokenizer *t) { return t->warning; }
bool iq_tokenizer_is_gguf(const struct iq_tokenizer *t) { return t->gguf; }

bool iq_tokenizer_adds_bos(const struct iq_tokenizer *t)
{
    return t->before.n && t->bos != IQ_TOKEN_NONE && t->before.id[0] == t->bos;
}

bool iq_tokenizer_is_special(const struct iq_tokenizer *t, uint32_t id)
{
    return id < t->n_ids && (t->type[id] == IQ_TOKEN_CONTROL || t->type[id] == IQ_TOKEN_UNKNOWN);
}

bool iq_tokenizer_is_eog(const struct iq_tokenizer *t, uint32_t id)
{
    for (size_t i = 0; i < t->eog.n; i++)
        if (t->eog.id[i] == id) return true;
    return false;
}

int iq_tokenizer_eog_add(struct iq_tokenizer *t, uint32_t id, struct iq_err *err)
{
    if (id >= t->n_ids)
        return iq_fail(err, IQ_FORMAT, "%s: end-of-generation id %u is no token: the vocabulary ends at %u",
                       t->name, id, t->n_ids);
    if (iq_tokenizer_is_eog(t, id)) return IQ_OK;
    IQ_TRY(iq_ids_put(&t->eog, id, err));
    for (size_t i = t->eog.n - 1; i && t->eog.id[i - 1] > id; i--) {
        t->eog.id[i] = t->eog.id[i - 1];
        t->eog.id[i - 1] = id;
    }
    return IQ_OK;
}
