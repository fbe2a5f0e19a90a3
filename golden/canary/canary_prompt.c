/* One question as a prompt, its text and its ids. */
#include "golden/canary/canary_parts.h"

#include <string.h>

size_t iq_canary_encode(const char *text, size_t n, uint32_t *out, size_t cap)
{
    const size_t end = sizeof IQ_CANARY_END_TEXT - 1;
    size_t ids = 0;
    if (ids < cap) out[ids] = IQ_CANARY_BEGIN;
    ids++;
    for (size_t i = 0; i < n; ids++) {
        bool ends = n - i >= end && !memcmp(text + i, IQ_CANARY_END_TEXT, end);
        if (ids < cap) out[ids] = ends ? (uint32_t)IQ_CANARY_END : (unsigned char)text[i];
        i += ends ? end : 1;
    }
    return ids;
}

void iq_canary_spell(const uint32_t *ids, size_t n, struct iq_buf *out)
{
    for (size_t i = 0; i < n; i++) {
        char byte = (char)ids[i];
        if (ids[i] < 256) iq_buf_put(out, &byte, 1);
        if (ids[i] == IQ_CANARY_END) iq_buf_put(out, IQ_CANARY_END_TEXT, sizeof IQ_CANARY_END_TEXT - 1);
    }
}

static int finish(const char *text, size_t n, const struct iq__text *answer, uint32_t ids,
                  struct iq_canary_prompt *out, struct iq_err *err)
{
    if (n >= sizeof out->text || answer->n >= sizeof out->answer)
        return iq_fail(err, IQ_INTERNAL, "canary %s: a prompt of %zu and an answer of %u bytes",
                       iq_canary_tasks[out->task].name, n, answer->n);
    memcpy(out->text, text, n);
    memcpy(out->answer, answer->s, answer->n);
    out->ids = ids;
    return IQ_OK;
}

static int draw_far(struct iq__draws *d, enum iq_canary_split split, struct iq_canary_prompt *out,
                    struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(IQ_CANARY_TEXT);
    struct iq_canary_row row;
    struct iq__text answer;
    IQ_TRY(iq__far_draw(out->level, split, d, &row, &answer, err));
    iq_canary_spell(row.id, row.used, &text);
    int status = text.failed ? iq_fail(err, IQ_MEMORY, "no memory for a prompt")
                             : finish(text.data, text.len, &answer, row.used, out, err);
    iq_buf_free(&text);
    return status;
}

static int draw_lookup(struct iq__draws *d, enum iq_canary_split split, struct iq_canary_prompt *out,
                       struct iq_err *err)
{
    struct iq__tables tables = {0};
    struct iq__question q;
    struct iq__text text;
    uint32_t n = iq__table_keys(out->level, d);
    IQ_TRY(iq__table_draw(&tables, n, split, d, &text, err));
    iq__table_ask(&tables, tables.key[iq__below(d, n)], &q);
    for (uint32_t i = 0; i < q.prompt.n; i++) iq__put(&text, q.prompt.s[i]);
    return finish(text.s, text.n, &q.answer, text.n + 1, out, err);
}

int iq_canary_draw(enum iq_canary_id task, uint32_t level, uint64_t seed, uint64_t index,
                   enum iq_canary_split split, struct iq_canary_prompt *out, struct iq_err *err)
{
    struct iq__question q;
    *out = (struct iq_canary_prompt){.task = task, .level = level};
    if ((unsigned)task >= IQ_CANARY_TASKS || level >= IQ_CANARY_LEVELS || (unsigned)split >= IQ_CANARY_SPLITS)
        return iq_fail(
            err, IQ_USAGE,
            "canary: task %d, level %u, split %d; expected a task below %d, a level below %d, a split "
            "below %d",
            (int)task, level, (int)split, IQ_CANARY_TASKS, IQ_CANARY_LEVELS, IQ_CANARY_SPLITS);
    struct iq__draws d = iq__draws(seed, IQ__STREAM_PROMPT, task, level, index);
    if (task == IQ_CANARY_FAR) return draw_far(&d, split, out, err);
    if (task == IQ_CANARY_LOOKUP) return draw_lookup(&d, split, out, err);
    IQ_TRY(iq__question_draw(task, level, split, &d, &q, err));
    return finish(q.prompt.s, q.prompt.n, &q.answer, q.prompt.n + 1, out, err);
}
