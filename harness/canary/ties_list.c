/* Ties in an output, and the lists of the narrowest. */
#include "harness/canary/ties_parts.h"

#include "golden/answer.h"
#include "kernels/base/utf8.h"

#include <stdlib.h>
#include <string.h>

/* Tokens in front of a later tie are decided by this much, so that they stay where the tie falls the other way: activations
 * rounded to bf16 move a margin of the canary by 0.03 in the median, by 0.3 at one of a hundred positions. */
static const float DECIDED = 1;

int iq__ties_each(const struct iq_output *o, const struct iq__tie_place *at, iq__tie_fn *take, void *ctx,
                  struct iq_err *err)
{
    const uint32_t last = o->n_prompt - 1;
    for (uint32_t row = at->first_row; row < o->positions && (row <= last || at->later); row++) {
        const struct iq_position *p = &o->position[row];
        if (row > last && !(o->position[row - 1].margin >= DECIDED)) break;
        const struct iq_tie t = {.margin = p->margin,
                                 .kind = at->kind,
                                 .later = row > last,
                                 .index = at->index,
                                 .front = at->front,
                                 .ids = (uint32_t *)o->ids,
                                 .n = row + 1,
                                 .n_prompt = row > last ? o->n_prompt : row + 1,
                                 .best = p->top_id[0],
                                 .rival = p->top_id[1]};
        if (p->has_logits && p->margin >= 0) IQ_TRY(take(ctx, &t, err));
    }
    return IQ_OK;
}

/* ---- answers as text ---- */

static bool is_text(const struct iq_buf *b)
{
    uint32_t cp;
    int n;
    for (size_t i = 0; i < b->len; i += (size_t)n) {
        n = iq_utf8_next(b->data + i, b->len - i, &cp);
        if (n < 0 || !cp) return false;
    }
    return true;
}

/* The answer with this token at its end. */
static int answer(const struct iq_model *m, const struct iq_tie *t, uint32_t end, struct iq_buf *out,
                  struct iq_err *err)
{
    IQ_TRY(iq_tokenizer_decode(m->tokenizer, t->ids + t->n_prompt, t->n - t->n_prompt, IQ_DECODE_SKIP, out,
                               err));
    IQ_TRY(iq_tokenizer_decode(m->tokenizer, &end, 1, IQ_DECODE_SKIP, out, err));
    iq_buf_put(out, "", 0);
    return out->failed ? iq_fail(err, IQ_MEMORY, "no memory for an answer") : IQ_OK;
}

int iq__tie_readable(const struct iq_model *m, const struct iq_tie *t, bool *out, struct iq_err *err)
{
    struct iq_buf best = IQ_BUF(1 << 20), rival = IQ_BUF(1 << 20);
    int status = answer(m, t, t->best, &best, err);
    if (status == IQ_OK) status = answer(m, t, t->rival, &rival, err);
    *out = status == IQ_OK && is_text(&best) && is_text(&rival) &&
           !iq_answer_right(rival.data ? rival.data : "", rival.len, best.data ? best.data : "");
    iq_buf_free(&best);
    iq_buf_free(&rival);
    return status;
}

/* ---- lists ---- */

int iq__tie_copy(const struct iq_tie *from, struct iq_tie *to, struct iq_err *err)
{
    uint32_t *ids = malloc(from->n * sizeof *ids);
    if (!ids) return iq_fail(err, IQ_MEMORY, "no memory for a prompt of %u tokens", from->n);
    memcpy(ids, from->ids, from->n * sizeof *ids);
    free(to->ids);
    *to = *from;
    to->ids = ids;
    return IQ_OK;
}

static void take_out(struct iq__tie_list *list, uint32_t i)
{
    free(list->tie[i].ids);
    memmove(&list->tie[i], &list->tie[i + 1], (--list->n - i) * sizeof *list->tie);
}

int iq__ties_offer(struct iq__tie_list *list, const struct iq_model *m, const struct iq_tie *t,
                   struct iq_err *err)
{
    bool readable;
    if (list->n == list->room && !(t->margin < list->tie[list->n - 1].margin)) return IQ_OK;
    for (uint32_t i = 0; i < list->n; i++)
        if (list->tie[i].index == t->index && list->tie[i].margin <= t->margin) return IQ_OK;
    IQ_TRY(iq__tie_readable(m, t, &readable, err));
    if (!readable) return IQ_OK;
    struct iq_tie copy = {0};
    IQ_TRY(iq__tie_copy(t, &copy, err));
    uint32_t i = 0;
    while (i < list->n && list->tie[i].index != t->index) i++;
    if (i == list->n && list->n == list->room) i = list->n - 1;
    if (i < list->n) take_out(list, i);
    for (i = 0; i < list->n && list->tie[i].margin <= t->margin;) i++;
    memmove(&list->tie[i + 1], &list->tie[i], (list->n++ - i) * sizeof *list->tie);
    list->tie[i] = copy;
    return IQ_OK;
}
