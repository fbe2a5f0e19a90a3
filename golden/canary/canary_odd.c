/* Odd prompts: texts that no question is, where a model that answers every question well is not sure any more. */
#include "golden/canary/canary_parts.h"

#include <string.h>

const struct iq_canary_odd_kind iq_canary_odd_kinds[IQ_CANARY_ODDS] = {
#define X(id, name, what) {name, what},
    IQ_CANARY_ODD_MAP(X)
#undef X
};

/* A whole question with its answer. */
static int draw_question(struct iq__draws *d, struct iq__text *out, struct iq_err *err)
{
    struct iq__question q;
    struct iq__tables tables = {0};
    uint32_t task, level = iq__below(d, IQ_CANARY_LEVELS);
    do task = iq__below(d, IQ_CANARY_TASKS);
    while (!iq_canary_tasks[task].gated || task == IQ_CANARY_FAR);
    out->n = 0;
    if (task == IQ_CANARY_LOOKUP) {
        uint32_t n = iq__table_keys(level, d);
        IQ_TRY(iq__table_draw(&tables, n, IQ_CANARY_HELD_OUT, d, out, err));
        iq__table_ask(&tables, tables.key[iq__below(d, n)], &q);
    } else
        IQ_TRY(iq__question_draw((enum iq_canary_id)task, level, IQ_CANARY_HELD_OUT, d, &q, err));
    for (uint32_t i = 0; i < q.prompt.n; i++) iq__put(out, q.prompt.s[i]);
    for (uint32_t i = 0; i < q.answer.n; i++) iq__put(out, q.answer.s[i]);
    return IQ_OK;
}

static int cut(struct iq__draws *d, struct iq__text *out, struct iq_err *err)
{
    IQ_TRY(draw_question(d, out, err));
    out->n = iq__between(d, 2, out->n - 1); /* the shortest has three */
    return IQ_OK;
}

static int spliced(struct iq__draws *d, struct iq__text *out, struct iq_err *err)
{
    struct iq__text end;
    IQ_TRY(draw_question(d, out, err));
    IQ_TRY(draw_question(d, &end, err));
    out->n = iq__between(d, 1, out->n);
    for (uint32_t i = iq__below(d, end.n); i < end.n; i++) iq__put(out, end.s[i]);
    return IQ_OK;
}

static int no_key(struct iq__draws *d, struct iq__text *out, struct iq_err *err)
{
    struct iq__tables tables = {0};
    uint32_t level = iq__below(d, IQ_CANARY_LEVELS), n = iq__table_keys(level, d), key;
    out->n = 0;
    IQ_TRY(iq__table_draw(&tables, n, IQ_CANARY_HELD_OUT, d, out, err));
    do key = iq__below(d, IQ__KEYS);
    while (tables.value[key]);
    const char ask[] = {'?', (char)('a' + key / 26), (char)('a' + key % 26), 0};
    iq__puts(out, ask);
    return IQ_OK;
}

/* Two of three signs become others. */
static int separators(struct iq__draws *d, struct iq__text *out, struct iq_err *err)
{
    static const char signs[] = "=,;?:+-*./ ";
    IQ_TRY(draw_question(d, out, err));
    for (uint32_t i = 0; i < out->n; i++)
        if (strchr(signs, out->s[i]) && iq__below(d, 3)) out->s[i] = signs[iq__below(d, sizeof signs - 1)];
    return IQ_OK;
}

static int letters(struct iq__draws *d, struct iq__text *out, struct iq_err *err)
{
    static const char all[] = "abcdefghijklmnopqrstuvwxyz0123456789CRSKAMNBEPGHUVWXYZ=,;?:+-*.()[]{}<>";
    (void)err;
    out->n = 0;
    for (uint32_t n = iq__between(d, 3, 40); n; n--) iq__put(out, all[iq__below(d, sizeof all - 1)]);
    return IQ_OK;
}

typedef int make_fn(struct iq__draws *, struct iq__text *out, struct iq_err *);
static make_fn *const make[IQ_CANARY_ODDS] = {
    [IQ_CANARY_ODD_CUT] = cut,         [IQ_CANARY_ODD_SPLICED] = spliced,
    [IQ_CANARY_ODD_NO_KEY] = no_key,   [IQ_CANARY_ODD_SEPARATORS] = separators,
    [IQ_CANARY_ODD_LETTERS] = letters,
};

int iq_canary_odd_text(enum iq_canary_odd kind, uint64_t seed, uint64_t index, struct iq_buf *out,
                       struct iq_err *err)
{
    struct iq__draws d = iq__draws(seed, IQ__STREAM_ODD, kind, 0, index);
    struct iq__text text;
    if ((unsigned)kind >= IQ_CANARY_ODDS || !make[kind])
        return iq_fail(err, IQ_USAGE, "canary: odd prompts of kind %d are no text", (int)kind);
    IQ_TRY(make[kind](&d, &text, err));
    iq_buf_put(out, text.s, text.n);
    return out->failed ? iq_fail(err, IQ_MEMORY, "no memory for a prompt") : IQ_OK;
}

int iq_canary_odd_front(uint64_t seed, uint64_t index, struct iq_buf *out, struct iq_err *err)
{
    struct iq__draws d = iq__draws(seed, IQ__STREAM_FRONT, 0, 0, index);
    struct iq__text text;
    for (uint32_t n = 0, least = iq__between(&d, 40, 100); n < least; n += text.n + 1) {
        IQ_TRY(draw_question(&d, &text, err));
        iq_buf_put(out, text.s, text.n);
        iq_buf_put(out, IQ_CANARY_END_TEXT, sizeof IQ_CANARY_END_TEXT - 1);
    }
    return out->failed ? iq_fail(err, IQ_MEMORY, "no memory for a prompt") : IQ_OK;
}

uint32_t iq_canary_odd_ids(uint64_t seed, uint64_t index, uint32_t vocab, uint32_t out[IQ_CANARY_ODD_LONGEST])
{
    struct iq__draws d = iq__draws(seed, IQ__STREAM_ODD, IQ_CANARY_ODD_IDS, 0, index);
    uint32_t n = iq__between(&d, 3, IQ_CANARY_ODD_LONGEST);
    for (uint32_t i = 0; i < n; i++) out[i] = iq__below(&d, vocab);
    return n;
}
