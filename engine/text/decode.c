/* Decoders: spellings back to bytes. */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/utf8.h"

#include <string.h>

static int done(const struct iq_buf *out, struct iq_err *err)
{
    return out->failed ? iq_fail(err, IQ_LIMIT, "the decoded text exceeds %zu bytes", out->max) : IQ_OK;
}

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* "<0x0A>" is the byte 10. Hugging Face replaces bytes that make no character by U+FFFD; here they stay
 * bytes. */
int iq__decode_bytes(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                     struct iq_buf *out, struct iq_err *err)
{
    (void)st, (void)w, (void)first;
    if (n == 6 && !memcmp(s, "<0x", 3) && s[5] == '>' && hex_digit(s[3]) >= 0 && hex_digit(s[4]) >= 0) {
        char byte = (char)(hex_digit(s[3]) << 4 | hex_digit(s[4]));
        iq_buf_put(out, &byte, 1);
    } else {
        iq_buf_put(out, s, n);
    }
    return done(out, err);
}

/* A spelling with a character outside the byte map stands for itself. */
int iq__decode_byte_map(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                        struct iq_buf *out, struct iq_err *err)
{
    (void)st, (void)w, (void)first;
    size_t start = out->len;
    for (size_t i = 0; i < n;) {
        uint32_t cp;
        int len = iq_utf8_next(s + i, n - i, &cp), byte = len > 0 ? iq__char_byte(cp) : -1;
        if (byte < 0) {
            out->len = start;
            iq_buf_put(out, s, n);
            break;
        }
        char c = (char)byte;
        iq_buf_put(out, &c, 1);
        i += (size_t)len;
    }
    return done(out, err);
}

/* `put` becomes a space; in the first token it vanishes where encoding may have put it there (st->left). */
int iq__decode_metaspace(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n,
                         bool first, struct iq_buf *out, struct iq_err *err)
{
    (void)w;
    for (size_t i = 0; i < n;) {
        if (n - i >= st->put_len && !memcmp(s + i, st->put, st->put_len)) {
            if (!(first && st->left)) iq_buf_put(out, " ", 1);
            i += st->put_len;
        } else {
            iq_buf_put(out, s + i++, 1);
        }
    }
    return done(out, err);
}

/* Takes up to `start` copies of `find` off the front and `stop` off the end. */
int iq__decode_strip(const struct iq__step *st, struct iq__scratch *w, const char *s, size_t n, bool first,
                     struct iq_buf *out, struct iq_err *err)
{
    (void)w, (void)first;
    size_t k = st->find_len, begin = 0, end = n;
    for (uint32_t i = 0; i < st->start && end - begin >= k && !memcmp(s + begin, st->find, k); i++)
        begin += k;
    for (uint32_t i = 0; i < st->stop && end - begin >= k && !memcmp(s + end - k, st->find, k); i++) end -= k;
    iq_buf_put(out, s + begin, end - begin);
    return done(out, err);
}

static size_t fuse_at(const struct iq__steps *steps)
{
    size_t i = 0;
    while (i < steps->n && steps->step[i].rewrite) i++;
    return i;
}

/* Runs steps [from, to) over what `out` holds from `at` on. */
static int run(const struct iq_tokenizer *t, struct iq__scratch *w, size_t from, size_t to, size_t at,
               bool first, struct iq_buf *out, struct iq_err *err)
{
    for (size_t i = from; i < to; i++) {
        const struct iq__step *st = &t->decoder.step[i];
        if (!st->rewrite) continue;
        w->swap.max = out->max;
        w->swap.len = 0;
        w->swap.failed = 0;
        iq_buf_put(&w->swap, out->data ? out->data + at : "", out->len - at);
        if (w->swap.failed) return done(&w->swap, err);
        out->len = at;
        iq_buf_put(out, "", 0); /* the NUL behind the end, should the step print nothing */
        IQ_TRY(st->rewrite(st, w, w->swap.data, w->swap.len, first, out, err));
    }
    return IQ_OK;
}

int iq__decode_token(const struct iq_tokenizer *t, struct iq__scratch *w, uint32_t id, bool first,
                     struct iq_buf *out, struct iq_err *err)
{
    struct iq_span s = iq__vocab_span(&t->vocab, id);
    size_t at = out->len;
    iq_buf_put(out, s.data, s.len);
    IQ_TRY(done(out, err));
    /* GGUF: control and user tokens are spelt plainly, the byte map is for the others */
    bool plain = t->keep_unknown && (t->type[id] == IQ_TOKEN_CONTROL || t->type[id] == IQ_TOKEN_USER);
    return plain ? IQ_OK : run(t, w, 0, fuse_at(&t->decoder), at, first, out, err);
}

static int decode_all(const struct iq_tokenizer *t, struct iq__scratch *w, const uint32_t *ids, size_t n,
                      unsigned flags, struct iq_buf *out, struct iq_err *err)
{
    size_t at = out->len;
    bool first = true;
    for (size_t i = 0; i < n; i++) {
        if (ids[i] >= t->n_ids)
            return iq_fail(err, IQ_SHAPE, "id %u at position %zu is no token: the vocabulary ends at %u",
                           ids[i], i, t->n_ids);
        if ((flags & IQ_DECODE_SKIP) && iq_tokenizer_is_special(t, ids[i])) continue;
        if (!first && t->join_with_space) iq_buf_put(out, " ", 1);
        if (first) {
            IQ_TRY(iq__decode_token(t, w, ids[i], true, out, err));
        } else {
            struct iq_span b = iq_tokenizer_bytes(t, ids[i]);
            iq_buf_put(out, b.data, b.len);
        }
        first = false;
    }
    IQ_TRY(done(out, err));
    size_t fuse = fuse_at(&t->decoder);
    return fuse < t->decoder.n ? run(t, w, fuse, t->decoder.n, at, true, out, err) : IQ_OK;
}

int iq_tokenizer_decode(const struct iq_tokenizer *t, const uint32_t *ids, size_t n, unsigned flags,
                        struct iq_buf *out, struct iq_err *err)
{
    struct iq__scratch w = {0};
    int status = decode_all(t, &w, ids, n, flags, out, err);
    iq__scratch_free(&w);
    return status;
}
