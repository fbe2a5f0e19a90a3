/* The search: candidates, then rounds of narrowing. */
#include "harness/canary/ties_parts.h"

#include "harness/cli/progress.h"
#include "kernels/base/rng.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    PLACES = 2, /* the answer's first token, or a later one */
    LISTS = PLACES * IQ_CANARY_ODDS,
    GROUP = 16,             /* ties that are narrowed together */
    SINGLES = 24,           /* changes of one token that a round tries */
    TOGETHER = 4,           /* of so many at most, */
    TRIES = 48,             /* so often */
    WAVE = GROUP * SINGLES, /* requests of one engine: what stays in memory */
    POOL = 8192             /* tokens of the first fronts: what a token is changed into */
};

/* One token of a prompt changed, and by how much the margin grows then: NAN: not known. */
struct change {
    uint32_t place, id;
    float by;
};

/* Two to four changes together: how far from a tie they should lead. */
struct together {
    float off;
    uint32_t n;
    uint8_t k[TOGETHER]; /* in change */
};

/* A tie that is narrowed. */
struct narrowing {
    struct iq_tie *tie, best; /* as it was; the narrowest so far, without ids: none yet */
    struct change
        change[SINGLES]; /* the last round's: those that move the margin about as far as it is come first */
    struct together plan[TRIES]; /* ascending */
    uint32_t tries;
};

struct search {
    const struct iq_model *model;
    const struct iq_settings *settings;
    const struct iq_tie_search *spec;
    struct iq__tie_list list[LISTS];
    struct narrowing *narrowing; /* (ties) every tie of the lists */
    struct narrowing **wide;     /* (ties) those of them that are to be narrowed */
    uint32_t ties;
    uint32_t pool_n, pool[POOL];
    uint32_t leading; /* tokens that stand in front of every text */
    uint32_t longest; /* prompt */
    /* One wave: its prompts one behind the other, its requests, where ties of each are looked for. */
    struct iq_ids ids;
    uint32_t waiting;
    struct iq_request request[WAVE];
    size_t start[WAVE];
    struct iq__tie_place place[WAVE];
    struct narrowing *of[WAVE];    /* NULL: a candidate */
    struct change *measured[WAVE]; /* the one change in it, or NULL */
    struct narrowing *in_hand;
    uint64_t done;
    struct iq_progress bar;
};

/* ---- waves ---- */

static int take_candidate(void *ctx, const struct iq_tie *t, struct iq_err *err)
{
    struct search *s = ctx;
    return iq__ties_offer(&s->list[(unsigned)t->kind * PLACES + t->later], s->model, t, err);
}

static int take_changed(void *ctx, const struct iq_tie *t, struct iq_err *err)
{
    const struct search *s = ctx;
    struct narrowing *n = s->in_hand;
    bool readable;
    if (t->later != n->tie->later || !(t->margin < (n->best.ids ? &n->best : n->tie)->margin)) return IQ_OK;
    IQ_TRY(iq__tie_readable(s->model, t, &readable, err));
    return readable ? iq__tie_copy(t, &n->best, err) : IQ_OK;
}

/* How much farther the tie's two tokens are apart, where the answer still comes to the tie. */
static float effect(const struct iq_tie *t, const struct iq_output *o)
{
    const uint32_t before = t->n - t->n_prompt;
    float best = NAN, rival = NAN;
    if (o->n_ids < t->n || memcmp(o->ids + t->n_prompt, t->ids + t->n_prompt, before * sizeof *o->ids))
        return NAN;
    const struct iq_position *p = &o->position[t->n - 1];
    for (int k = 0; k < IQ_TOP; k++) {
        if (p->top_id[k] == t->best) best = p->top_logit[k];
        if (p->top_id[k] == t->rival) rival = p->top_logit[k];
    }
    return best - rival - t->margin;
}

static int take_output(struct search *s, uint32_t i, const struct iq_output *o, struct iq_err *err)
{
    s->in_hand = s->of[i];
    if (s->measured[i]) s->measured[i]->by = effect(s->in_hand->tie, o);
    return iq__ties_each(o, &s->place[i], s->in_hand ? take_changed : take_candidate, s, err);
}

static int run_wave(struct search *s, struct iq_err *err)
{
    struct iq_engine_config c;
    struct iq_engine *engine = NULL;
    if (!s->waiting) return IQ_OK;
    iq_settings_engine(s->settings, &c);
    for (uint32_t i = 0; i < s->waiting; i++) s->request[i].prompt = s->ids.id + s->start[i];
    int status = iq_engine_open(s->model, &c, s->request, s->waiting, &engine, err);
    for (bool more = true; status == IQ_OK && more;) status = iq_engine_step(engine, &more, err);
    for (uint32_t i = 0; status == IQ_OK && i < s->waiting; i++)
        status = take_output(s, i, iq_engine_output(engine, i), err);
    iq_engine_close(engine);
    s->done += s->waiting;
    s->waiting = 0;
    s->ids.n = 0;
    iq_progress_at(&s->bar, s->done);
    return status;
}

/* Adds what stands in s->ids from `start` on as a request. */
static int put(struct search *s, size_t start, struct iq__tie_place place, struct narrowing *of,
               struct change *measured, struct iq_err *err)
{
    const uint32_t i = s->waiting++;
    s->start[i] = start;
    s->place[i] = place;
    s->of[i] = of;
    s->measured[i] = measured;
    s->request[i] = (struct iq_request){.index = i,
                                        .id = "candidate",
                                        .params = "{}",
                                        .n_prompt = (uint32_t)(s->ids.n - start),
                                        .max_tokens = place.later ? s->spec->max_tokens : 1,
                                        .top_p = 1,
                                        .score = !of};
    return s->waiting == WAVE ? run_wave(s, err) : IQ_OK;
}

/* ---- candidates ---- */

static int encode(struct search *s, const struct iq_buf *text, unsigned flags, struct iq_err *err)
{
    return iq_tokenizer_encode(s->model->tokenizer, text->data ? text->data : "", text->len, flags, &s->ids,
                               err);
}

/* A text behind a front is one text; random ids stand behind its ids. */
static int draw(struct search *s, enum iq_canary_odd kind, uint32_t index, struct iq_buf *text,
                struct iq_err *err)
{
    const uint32_t known = iq_tokenizer_vocab(s->model->tokenizer), all = s->model->config.vocab;
    uint32_t random[IQ_CANARY_ODD_LONGEST], n = 0;
    if (kind != IQ_CANARY_ODD_IDS)
        IQ_TRY(iq_canary_odd_text(kind, s->spec->seed, index, text, err));
    else
        n = iq_canary_odd_ids(s->spec->seed, index, known < all ? known : all, random);
    IQ_TRY(encode(s, text, IQ_ENCODE_SPECIAL | IQ_ENCODE_PARSE, err));
    for (uint32_t i = 0; i < n; i++) IQ_TRY(iq_ids_put(&s->ids, random[i], err));
    return IQ_OK;
}

static int put_candidate(struct search *s, uint32_t index, struct iq_err *err)
{
    const enum iq_canary_odd kind = (enum iq_canary_odd)(index % IQ_CANARY_ODDS);
    const size_t start = s->ids.n;
    struct iq_buf text = IQ_BUF(1 << 16);
    size_t front = 0;
    int status = iq_canary_odd_front(s->spec->seed, index, &text, err);
    if (status == IQ_OK) status = encode(s, &text, IQ_ENCODE_SPECIAL | IQ_ENCODE_PARSE, err);
    if (status == IQ_OK) {
        front = s->ids.n - start;
        for (size_t i = start + s->leading; i < s->ids.n && s->pool_n < POOL; i++)
            s->pool[s->pool_n++] = s->ids.id[i];
        s->ids.n = start;
        status = draw(s, kind, index, &text, err);
    }
    iq_buf_free(&text);
    if (status != IQ_OK) return status;
    /* A context that is too short for it: its first tokens are left out, but for those that stand in front of every text. */
    const size_t n = s->ids.n - start, over = n > s->longest ? n - s->longest : 0;
    uint32_t *at = s->ids.id + start + s->leading;
    memmove(at, at + over, (n - over - s->leading) * sizeof *at);
    s->ids.n -= over;
    front = front > over + s->leading ? front - over : s->leading;
    struct iq__tie_place place = {
        .kind = kind, .index = index, .front = (uint32_t)front, .first_row = (uint32_t)front, .later = true};
    return put(s, start, place, NULL, NULL, err);
}

/* ---- narrowing ---- */

/* The tie's prompt with tokens of its front changed. */
static int put_changed(struct search *s, struct narrowing *n, const struct together *t, struct iq_err *err)
{
    const struct iq_tie *tie = n->tie;
    const size_t start = s->ids.n;
    for (uint32_t i = 0; i < tie->n_prompt; i++) IQ_TRY(iq_ids_put(&s->ids, tie->ids[i], err));
    for (uint32_t i = 0; i < t->n; i++) s->ids.id[start + n->change[t->k[i]].place] = n->change[t->k[i]].id;
    struct iq__tie_place place = {.kind = tie->kind,
                                  .index = tie->index,
                                  .front = tie->front,
                                  .first_row = tie->n_prompt - 1,
                                  .later = tie->later};
    return put(s, start, place, n, t->n == 1 ? &n->change[t->k[0]] : NULL, err);
}

/* By what factor the change's effect and the margin differ. */
static float unlike(const struct change *c, float margin)
{
    const float by = fabsf(c->by);
    return by >= margin ? by / margin : by > 0 ? margin / by : INFINITY;
}

/* Places whose changes suit come first: other tokens there move the margin about as much. */
static void sort_changes(struct narrowing *n)
{
    const float margin = n->tie->margin;
    for (uint32_t i = 1; i < SINGLES; i++) {
        const struct change c = n->change[i];
        uint32_t k = i;
        for (; k && unlike(&c, margin) < unlike(&n->change[k - 1], margin); k--)
            n->change[k] = n->change[k - 1];
        n->change[k] = c;
    }
}

/* Three tokens at each of the places that suited best, and some at any. Changes stand in the second half of the front: what
 * is in front of them is computed once. */
static void draw_changes(const struct search *s, struct narrowing *n, uint32_t round)
{
    enum { SUITED = SINGLES / 4 };
    const struct iq_tie *t = n->tie;
    const uint32_t half = (t->front - s->leading + 1) / 2;
    for (uint32_t k = SINGLES; k-- > 0;) {
        const uint64_t counter =
            (uint64_t)IQ_DRAW_DATA << 56 | (uint64_t)t->later << 48 | (uint64_t)round << 16 | k;
        const struct iq_philox w = iq_philox(iq_mix64(s->spec->seed), counter, t->index);
        const bool again = round && k < 3 * SUITED;
        n->change[k].place = again ? n->change[k % SUITED].place : t->front - 1 - w.v[0] % half;
        n->change[k].id = s->pool[w.v[1] % s->pool_n];
        n->change[k].by = NAN;
    }
}

static void plan(struct narrowing *n, const struct together *t)
{
    uint32_t i = n->tries < TRIES ? n->tries++ : TRIES;
    if (i == TRIES && !(t->off < n->plan[--i].off)) return;
    for (; i && t->off < n->plan[i - 1].off; i--) n->plan[i] = n->plan[i - 1];
    n->plan[i] = *t;
}

/* Adds a change that stands behind those of t in the list, each in turn. Effects add up but for a part of them, so that small
 * ones are better. */
static void plan_more(struct narrowing *n, const struct together *t, float sum, float part)
{
    static const float MIXED = 0.1F;
    for (uint32_t k = t->n ? t->k[t->n - 1] + 1U : 0; k < SINGLES; k++) {
        const struct change *c = &n->change[k];
        struct together more = *t;
        bool known = c->by == c->by; /* no NaN */
        for (uint32_t i = 0; i < t->n; i++) known &= n->change[t->k[i]].place != c->place;
        if (!known) continue;
        more.k[more.n++] = (uint8_t)k;
        more.off = fabsf(sum + c->by) + part + MIXED * fabsf(c->by);
        if (more.n > 1) plan(n, &more);
        if (more.n < TOGETHER) plan_more(n, &more, sum + c->by, part + MIXED * fabsf(c->by));
    }
}

static void take_best(struct narrowing *n)
{
    if (n->best.ids) {
        free(n->tie->ids);
        *n->tie = n->best;
        n->best.ids = NULL;
    }
    n->tries = 0;
    sort_changes(n);
}

/* Ties take turns, so that each one's prompt is there for its later changes to begin with. */
static int narrow_group(struct search *s, struct narrowing **group, uint32_t ties, uint32_t round,
                        struct iq_err *err)
{
    const struct together none = {0};
    for (uint32_t i = 0; i < ties; i++) draw_changes(s, group[i], round);
    for (uint32_t k = 0; k < SINGLES; k++)
        for (uint32_t i = 0; i < ties; i++) {
            const struct together one = {.n = 1, .k = {(uint8_t)k}};
            IQ_TRY(put_changed(s, group[i], &one, err));
        }
    IQ_TRY(run_wave(s, err));
    for (uint32_t i = 0; i < ties; i++) plan_more(group[i], &none, group[i]->tie->margin, 0);
    for (uint32_t k = 0; k < TRIES; k++)
        for (uint32_t i = 0; i < ties; i++)
            if (k < group[i]->tries) IQ_TRY(put_changed(s, group[i], &group[i]->plan[k], err));
    IQ_TRY(run_wave(s, err));
    for (uint32_t i = 0; i < ties; i++) take_best(group[i]);
    return IQ_OK;
}

static int begin_narrowing(struct search *s, struct iq_err *err)
{
    for (struct iq__tie_list *l = s->list; l < s->list + LISTS; l++) s->ties += l->n;
    s->narrowing = calloc((size_t)s->ties + 1, sizeof *s->narrowing);
    s->wide = calloc((size_t)s->ties + 1, sizeof *s->wide);
    if (!s->narrowing || !s->wide) return iq_fail(err, IQ_MEMORY, "no memory for %u prompts", s->ties);
    uint32_t n = 0;
    for (struct iq__tie_list *l = s->list; l < s->list + LISTS; l++)
        for (uint32_t i = 0; i < l->n; i++) s->narrowing[n++].tie = &l->tie[i];
    return IQ_OK;
}

/* A round for all that are too wide; *more is false when there are enough that are not. */
static int narrow(struct search *s, uint32_t round, bool *more, struct iq_err *err)
{
    uint32_t wide = 0, narrow = 0;
    for (struct narrowing *n = s->narrowing; n < s->narrowing + s->ties; n++)
        if (n->tie->margin <= s->spec->max_margin)
            narrow++;
        else if (n->tie->front > s->leading)
            s->wide[wide++] = n;
    *more = narrow < s->spec->count && wide;
    for (uint32_t i = 0; *more && i < wide; i += GROUP)
        IQ_TRY(narrow_group(s, s->wide + i, wide - i < GROUP ? wide - i : GROUP, round, err));
    return IQ_OK;
}

/* ---- the result ---- */

static int by_margin(const void *a, const void *b)
{
    const struct iq_tie *x = a, *y = b;
    if (x->margin != y->margin) return x->margin < y->margin ? -1 : 1;
    return x->index != y->index ? (x->index < y->index ? -1 : 1) : x->later - y->later;
}

static int by_place(const void *a, const void *b)
{
    const struct iq_tie *x = a, *y = b;
    if (x->kind != y->kind) return x->kind < y->kind ? -1 : 1;
    if (x->later != y->later) return x->later - y->later;
    return (x->index > y->index) - (x->index < y->index);
}

/* The narrowest of all lists, which give them up. */
static int gather(struct search *s, struct iq_ties *out, struct iq_err *err)
{
    uint32_t n = 0;
    for (struct iq__tie_list *l = s->list; l < s->list + LISTS; l++) n += l->n;
    out->tie = calloc((size_t)n + 1, sizeof *out->tie);
    if (!out->tie) return iq_fail(err, IQ_MEMORY, "no memory for %u prompts", n);
    for (struct iq__tie_list *l = s->list; l < s->list + LISTS; l++) {
        for (uint32_t i = 0; i < l->n; i++) out->tie[out->n++] = l->tie[i];
        l->n = 0;
    }
    qsort(out->tie, out->n, sizeof *out->tie, by_margin);
    while (out->n > s->spec->count) free(out->tie[--out->n].ids);
    qsort(out->tie, out->n, sizeof *out->tie, by_place);
    return IQ_OK;
}

/* A quarter more than are wanted, the same number in each list: some are never narrow enough. */
static uint32_t room_of(const struct iq_tie_search *spec)
{
    return (spec->count + spec->count / 4 + LISTS - 1) / LISTS;
}

static int search(struct search *s, struct iq_ties *out, struct iq_err *err)
{
    const struct iq_tie_search *spec = s->spec;
    const uint32_t room = room_of(spec);
    const struct iq_buf nothing = {0};
    IQ_TRY(encode(s, &nothing, IQ_ENCODE_SPECIAL, err));
    s->leading = (uint32_t)s->ids.n;
    s->ids.n = 0;
    if (s->model->positions < spec->max_tokens + s->leading + 2)
        return iq_fail(err, IQ_USAGE, "this model is open for %u positions, too few for answers of %u tokens",
                       s->model->positions, spec->max_tokens);
    s->longest = s->model->positions - spec->max_tokens;
    for (struct iq__tie_list *l = s->list; l < s->list + LISTS; l++) {
        *l = (struct iq__tie_list){.tie = calloc(room, sizeof *l->tie), .room = room};
        if (!l->tie) return iq_fail(err, IQ_MEMORY, "no memory for %u prompts", room);
    }
    for (uint32_t i = 0; i < spec->candidates; i++) IQ_TRY(put_candidate(s, i, err));
    IQ_TRY(run_wave(s, err));
    IQ_TRY(begin_narrowing(s, err));
    bool more = true;
    for (uint32_t r = 0; r < spec->rounds && more; r++) IQ_TRY(narrow(s, r, &more, err));
    return gather(s, out, err);
}

static void close_search(struct search *s)
{
    for (uint32_t i = 0; s->narrowing && i < s->ties; i++) free(s->narrowing[i].best.ids);
    for (struct iq__tie_list *l = s->list; l < s->list + LISTS; l++) {
        for (uint32_t i = 0; i < l->n; i++) free(l->tie[i].ids);
        free(l->tie);
    }
    iq_ids_free(&s->ids);
    free(s->narrowing);
    free(s->wide);
    free(s);
}

int iq_ties_search(const struct iq_model *m, const struct iq_settings *settings,
                   const struct iq_tie_search *spec, struct iq_ties *out, struct iq_err *err)
{
    struct search *s = calloc(1, sizeof *s);
    *out = (struct iq_ties){0};
    if (!s) return iq_fail(err, IQ_MEMORY, "no memory for a search");
    s->model = m, s->settings = settings, s->spec = spec;
    /* At most so many: mostly it ends sooner. */
    iq_progress_begin(&s->bar, "searching", "prompts", 0,
                      spec->candidates + (uint64_t)spec->rounds * LISTS * room_of(spec) * (SINGLES + TRIES));
    int status = search(s, out, err);
    iq_progress_end(&s->bar);
    close_search(s);
    if (status != IQ_OK) iq_ties_free(out);
    return status;
}

void iq_ties_free(struct iq_ties *t)
{
    for (uint32_t i = 0; i < t->n; i++) free(t->tie[i].ids);
    free(t->tie);
    *t = (struct iq_ties){0};
}
