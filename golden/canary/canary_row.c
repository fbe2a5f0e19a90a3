/* Rows: questions and their answers one behind the other, and what precedes a far look-up. */
#include "golden/canary/canary_parts.h"

#include <string.h>

enum {
    ASK = 3,             /* ids of "?kk" */
    ASKED = ASK + 2 + 1, /* with answer and END: the shortest there is */
    FAILS = 8,           /* questions in a row that did not fit: it is full */
    WEIGHT_MAX = 1000000
};

struct packing {
    const struct iq_canary_mix *mix;
    enum iq_canary_split split;
    struct iq__draws draws;
    struct iq__tables tables;
    struct iq_canary_row *row;
    uint32_t room; /* ids that may be used */
    char order
        [IQ__TABLE_KEYS]; /* in which the keys of a table are asked for: a far row's, or the last one's */
    uint32_t asked;       /* far rows: how many were */
    struct iq_err *err;
};

static uint32_t pick(struct iq__draws *d, const uint32_t *weight, uint32_t n)
{
    uint32_t total = 0, i = 0;
    for (uint32_t k = 0; k < n; k++) total += weight[k];
    uint32_t at = iq__below(d, total);
    while (at >= weight[i]) at -= weight[i++];
    return i;
}

static void put_text(struct packing *p, const struct iq__text *t)
{
    for (uint32_t i = 0; i < t->n; i++) p->row->id[p->row->used++] = (unsigned char)t->s[i];
}

static bool fits(const struct packing *p, uint32_t n) { return p->row->used + n <= p->room; }

/* A question with its answer, if it fits. */
static bool put_question(struct packing *p, const struct iq__question *q, unsigned task, unsigned level)
{
    struct iq_canary_row *row = p->row;
    if (!fits(p, q->prompt.n + q->answer.n + 1) || row->n_spans == IQ_CANARY_SPANS) return false;
    put_text(p, &q->prompt);
    uint32_t start = row->used;
    put_text(p, &q->answer);
    row->id[row->used++] = IQ_CANARY_END;
    memset(row->loss + start, 1, row->used - start);
    row->span[row->n_spans++] =
        (struct iq_canary_span){(uint16_t)start, (uint16_t)row->used, (uint8_t)task, (uint8_t)level};
    return true;
}

/* `asked` of a table's n keys, in any order. */
static void draw_order(struct packing *p, uint32_t n, uint32_t asked)
{
    for (uint32_t i = 0; i < n; i++) p->order[i] = (char)i;
    iq__sample(&p->draws, p->order, n, asked);
}

/* A table, and questions about different keys of it. */
static int put_lookups(struct packing *p, uint32_t level, bool *fitted)
{
    struct iq__text text;
    struct iq__question q;
    uint32_t n = iq__table_keys(level, &p->draws), asked = 3 + level < n ? 3 + level : n;
    *fitted = false;
    if (p->tables.tables == IQ__TABLES || !fits(p, 5 * n + 1 + ASKED)) return IQ_OK;
    IQ_TRY(iq__table_draw(&p->tables, n, p->split, &p->draws, &text, p->err));
    put_text(p, &text);
    draw_order(p, n, asked);
    for (uint32_t i = 0; i < asked; i++) {
        iq__table_ask(&p->tables, p->tables.key[p->tables.n - n + (uint32_t)p->order[i]], &q);
        if (!put_question(p, &q, IQ_CANARY_LOOKUP, level)) break;
    }
    *fitted = true;
    return IQ_OK;
}

/* How far back a key may be: what a long row's look-up counts as. */
static uint32_t far_level(uint32_t length) { return length > 1024 ? 2 : length > 512 ? 1 : 0; }

static bool put_far_lookup(struct packing *p)
{
    struct iq__question q;
    iq__table_ask(&p->tables, p->tables.key[(uint32_t)p->order[p->asked++]], &q);
    return put_question(p, &q, IQ_CANARY_FAR, far_level(p->mix->length));
}

/* One block. */
static int put_block(struct packing *p, bool *fitted)
{
    struct iq__question q;
    uint32_t level = pick(&p->draws, p->mix->level, IQ_CANARY_LEVELS);
    uint32_t task = pick(&p->draws, p->mix->weight, IQ_CANARY_TASKS);
    if (task == IQ_CANARY_LOOKUP) return put_lookups(p, level, fitted);
    IQ_TRY(iq__question_draw((enum iq_canary_id)task, level, p->split, &p->draws, &q, p->err));
    *fitted = put_question(p, &q, task, level);
    return IQ_OK;
}

/* BEGIN, for far rows a table, then blocks until the row is full. A far row asks for each key of its table once, evenly over
 * its length. */
static int pack(struct packing *p, uint32_t front_keys)
{
    struct iq__text text;
    p->row->id[p->row->used++] = IQ_CANARY_BEGIN;
    if (front_keys) {
        IQ_TRY(iq__table_draw(&p->tables, front_keys, p->split, &p->draws, &text, p->err));
        put_text(p, &text);
        draw_order(p, front_keys, front_keys);
    }
    for (int fails = 0; fits(p, ASKED) && fails < FAILS;) {
        bool fitted = false;
        if (p->mix->far && p->asked < front_keys &&
            p->row->used * (front_keys + 1) >= p->room * (p->asked + 1))
            fitted = put_far_lookup(p);
        else
            IQ_TRY(put_block(p, &fitted));
        fails += !fitted;
    }
    return IQ_OK;
}

/* ---- rows of a mix ---- */

static int check_weights(const uint32_t *weight, uint32_t n, const char *what, struct iq_err *err)
{
    uint32_t total = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (weight[i] > WEIGHT_MAX)
            return iq_fail(err, IQ_USAGE, "canary row: %s %u weighs %u, at most %d", what, i, weight[i],
                           WEIGHT_MAX);
        total += weight[i];
    }
    return total ? IQ_OK : iq_fail(err, IQ_USAGE, "canary row: no %s has a weight", what);
}

static int check_mix(const struct iq_canary_mix *mix, enum iq_canary_split split, struct iq_err *err)
{
    if ((unsigned)split >= IQ_CANARY_SPLITS)
        return iq_fail(err, IQ_USAGE, "canary row: split %d, expected 0 to %d", (int)split,
                       IQ_CANARY_SPLITS - 1);
    if (mix->length < IQ_CANARY_SHORTEST || mix->length > IQ_CANARY_CONTEXT)
        return iq_fail(err, IQ_USAGE, "canary row: length %u, expected %d to %d ids", mix->length,
                       IQ_CANARY_SHORTEST, IQ_CANARY_CONTEXT);
    if (mix->weight[IQ_CANARY_FAR])
        return iq_fail(err, IQ_USAGE, "canary row: far-lookup has a weight; set `far`, which asks for them");
    if (mix->far && mix->weight[IQ_CANARY_LOOKUP])
        return iq_fail(err, IQ_USAGE, "canary row: lookup has a weight in a far row, which has one table");
    IQ_TRY(check_weights(mix->weight, IQ_CANARY_TASKS, "task", err));
    return check_weights(mix->level, IQ_CANARY_LEVELS, "level", err);
}

int iq_canary_row(const struct iq_canary_mix *mix, uint64_t seed, uint64_t index, enum iq_canary_split split,
                  struct iq_canary_row *out, struct iq_err *err)
{
    *out = (struct iq_canary_row){0};
    IQ_TRY(check_mix(mix, split, err));
    struct packing p = {.mix = mix, .split = split, .row = out, .room = mix->length, .err = err};
    p.draws = iq__draws(seed, IQ__STREAM_ROW, 0, 0, index);
    uint32_t keys = 0;
    if (mix->far) {
        uint32_t most = mix->length / 16;
        keys = iq__between(&p.draws, 8, most < IQ__TABLE_KEYS ? most : IQ__TABLE_KEYS);
    }
    IQ_TRY(pack(&p, keys));
    out->n = mix->length;
    for (uint32_t i = out->used; i < out->n; i++) out->id[i] = IQ_CANARY_PAD;
    return IQ_OK;
}

/* ---- the recipe ---- */

int iq_canary_step(uint64_t seed, uint64_t step, uint64_t steps, struct iq_canary_step *out,
                   struct iq_err *err)
{
    enum { STEP_IDS = 2048, SHORT = 128, ROWS_MAX = STEP_IDS / SHORT };
    /* Up to so many hundredths of the steps: shares of the levels. */
    static const struct {
        uint32_t until, level[IQ_CANARY_LEVELS];
    } course[] = {{24, {5, 3, 2}}, {56, {3, 3, 4}}, {100, {2, 3, 5}}};
    *out = (struct iq_canary_step){0};
    if (!steps || steps > (uint64_t)1 << 40 || step >= 2 * steps)
        return iq_fail(
            err, IQ_USAGE,
            "canary step %llu of %llu: expected 1 to 2^40 steps, and an encore no longer than they",
            (unsigned long long)step, (unsigned long long)steps);
    struct iq__draws d = iq__draws(seed, IQ__STREAM_STEP, 0, 0, step);
    const uint32_t *level = course[0].level;
    const uint64_t at = step < steps ? step : steps - 1;
    for (size_t i = 0; at * 100 >= steps * course[i].until;) level = course[++i].level;
    memcpy(out->mix.level, level, sizeof out->mix.level);
    for (uint32_t t = 0; t < IQ_CANARY_TASKS; t++) out->mix.weight[t] = iq_canary_tasks[t].share;
    out->mix.far = step * 3 >= steps && iq__below(&d, step < steps ? 5 : 2) == 0;
    if (out->mix.far) out->mix.weight[IQ_CANARY_LOOKUP] = 0;
    out->mix.length = out->mix.far ? 256u << iq__below(&d, 4) : SHORT;
    out->rows = STEP_IDS / out->mix.length;
    out->first = step * ROWS_MAX;
    return IQ_OK;
}

/* ---- far look-ups ---- */

int iq__far_draw(uint32_t level, enum iq_canary_split split, struct iq__draws *d, struct iq_canary_row *row,
                 struct iq__text *answer, struct iq_err *err)
{
    static const uint32_t ids[IQ_CANARY_LEVELS] = {400, 1000, 2040};
    struct iq_canary_mix mix = {.level = {1, 1, 1}, .length = ids[level]};
    struct iq__question q;
    /* No further table stands between: the key is in the one in front. */
    for (unsigned t = 0; t < IQ_CANARY_TASKS; t++) mix.weight[t] = iq_canary_tasks[t].gated;
    mix.weight[IQ_CANARY_LOOKUP] = mix.weight[IQ_CANARY_FAR] = 0;
    *row = (struct iq_canary_row){0};
    struct packing p = {.mix = &mix, .split = split, .draws = *d, .row = row, .err = err};
    p.room = mix.length - ASK;
    uint32_t keys = iq__between(&p.draws, 8, IQ__TABLE_KEYS);
    IQ_TRY(pack(&p, keys));
    iq__table_ask(&p.tables, p.tables.key[iq__below(&p.draws, p.tables.n)], &q);
    put_text(&p, &q.prompt);
    *answer = q.answer;
    *d = p.draws;
    return IQ_OK;
}
