/* Ties as JSON lines. */
#include "harness/canary/ties.h"

#include "kernels/base/json.h"
#include "kernels/base/utf8.h"

#include <stdio.h>
#include <string.h>

/* The prompt's text, where the same text gives the same tokens; else an empty one. */
static int prompt_text(const struct iq_model *m, const struct iq_tie *t, struct iq_buf *out,
                       struct iq_err *err)
{
    struct iq_ids again = {0};
    size_t leading;
    uint32_t cp;
    int status = iq_tokenizer_encode(m->tokenizer, "", 0, IQ_ENCODE_SPECIAL, &again, err);
    leading = again.n < t->n_prompt ? again.n : t->n_prompt;
    if (status == IQ_OK)
        status = iq_tokenizer_decode(m->tokenizer, t->ids + leading, t->n_prompt - leading, 0, out, err);
    bool same = status == IQ_OK && out->len;
    for (size_t i = 0; same && i < out->len;) {
        int n = iq_utf8_next(out->data + i, out->len - i, &cp);
        same = n > 0 && cp;
        i += same ? (size_t)n : 0;
    }
    again.n = 0;
    if (same)
        same = iq_tokenizer_encode(m->tokenizer, out->data, out->len, IQ_ENCODE_SPECIAL | IQ_ENCODE_PARSE,
                                   &again, NULL) == IQ_OK &&
               again.n == t->n_prompt && !memcmp(again.id, t->ids, again.n * sizeof *again.id);
    if (!same) out->len = 0;
    iq_ids_free(&again);
    return status;
}

static void write_ids(const uint32_t *id, uint32_t n, struct iq_jw *w)
{
    for (uint32_t i = 0; i < n; i++) iq_jw_u64(w, id[i]);
}

static int write_prompt(const struct iq_model *m, const struct iq_tie *t, struct iq_jw *w, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    int status = prompt_text(m, t, &text, err);
    if (text.len) {
        iq_jw_key(w, "prompt"), iq_jw_str(w, text.data);
    } else {
        iq_jw_key(w, "ids"), iq_jw_begin(w, '[');
        write_ids(t->ids, t->n_prompt, w);
        iq_jw_end(w, ']');
    }
    iq_buf_free(&text);
    return status;
}

static int write_tie(const struct iq_model *m, const struct iq_tie *t, struct iq_buf *out, struct iq_err *err)
{
    struct iq_jw w = IQ_JW(out);
    struct iq_buf expect = IQ_BUF(1 << 20);
    const uint32_t before = t->n - t->n_prompt;
    char id[64];
    snprintf(id, sizeof id, "%s.%d.%u", iq_canary_odd_kinds[t->kind].name, t->later, t->index);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "id"), iq_jw_str(&w, id);
    IQ_TRY(write_prompt(m, t, &w, err));
    iq_jw_key(&w, "max_tokens"), iq_jw_u64(&w, before + 1);
    int status =
        iq_tokenizer_decode(m->tokenizer, t->ids + t->n_prompt, before, IQ_DECODE_SKIP, &expect, err);
    if (status == IQ_OK)
        status = iq_tokenizer_decode(m->tokenizer, &t->best, 1, IQ_DECODE_SKIP, &expect, err);
    iq_jw_key(&w, "expect"), iq_jw_str(&w, expect.data ? expect.data : "");
    iq_jw_key(&w, "tie"), iq_jw_begin(&w, '{');
    iq_jw_key(&w, "token"), iq_jw_u64(&w, before);
    iq_jw_key(&w, "margin"), iq_jw_f32(&w, t->margin);
    iq_jw_key(&w, "rival"), iq_jw_u64(&w, t->rival);
    iq_jw_key(&w, "ids"), iq_jw_begin(&w, '[');
    write_ids(t->ids + t->n_prompt, before, &w);
    iq_jw_u64(&w, t->best);
    iq_jw_end(&w, ']');
    iq_jw_key(&w, "model"), iq_jw_str(&w, m->sha256);
    iq_jw_end(&w, '}');
    iq_jw_end(&w, '}');
    iq_buf_put(out, "\n", 1);
    iq_buf_free(&expect);
    return status;
}

int iq_ties_write(const struct iq_ties *ties, const struct iq_model *m, struct iq_buf *out,
                  struct iq_err *err)
{
    for (uint32_t i = 0; i < ties->n; i++) IQ_TRY(write_tie(m, &ties->tie[i], out, err));
    return out->failed ? iq_fail(err, IQ_MEMORY, "no room for the prompts") : IQ_OK;
}
