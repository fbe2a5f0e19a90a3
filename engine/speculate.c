/* Speculation: what becomes of a step's drafts, and those of the next one, by the ops of kernels/ops/speculate.h. */
#include "engine/engine_state.h"

#include "kernels/ops/speculate.h"

enum { LOOKED_UP = 3 }; /* tokens: fewer agree by chance, more are seldom found */

/* Drafts of the rows of q against what these rows chose: which rows stay. */
static int judge(struct iq_engine *e, struct iq_seat *seat, const struct iq_seq *q, const uint32_t *chosen,
                 struct iq_err *err)
{
    const struct iq_row *row = &e->row[q->first];
    uint32_t n = seat->n_draft, valid = 0;
    const struct iq_accept accept = {.request = seat->index,
                                     .drafts = n,
                                     .draft = seat->draft,
                                     .chosen = chosen,
                                     .accepted = &seat->accepted};
    IQ_TRY(iq_control_run(&e->control, IQ_OP_ACCEPT, row, &accept, err));
    if (seat->accepted > n)
        return iq_fail(err, IQ_INTERNAL, "request %s: accept took %u drafts of %u", seat->request->id,
                       seat->accepted, n);
    const struct iq_rollback rollback = {
        .request = seat->index, .drafts = n, .accepted = seat->accepted, .first = q->pos, .valid = &valid};
    IQ_TRY(iq_control_run(&e->control, IQ_OP_ROLLBACK, row, &rollback, err));
    if (valid <= q->pos || valid > q->pos + q->rows)
        return iq_fail(err, IQ_INTERNAL, "request %s: rollback left %u positions of %u to %u",
                       seat->request->id, valid, q->pos + 1, q->pos + q->rows);
    seat->kept = valid - q->pos;
    return IQ_OK;
}

/* The tokens that the kept rows add: accepted drafts, then what a row chose. Rows behind the one that ends the answer go too. */
static void choose(const struct iq_engine *e, struct iq_seat *seat, const uint32_t *chosen)
{
    uint32_t made = seat->n_ids - seat->request->n_prompt;
    for (uint32_t i = 0; i < seat->kept; i++) {
        seat->chosen[i] = i < seat->accepted ? seat->draft[i] : chosen[i];
        if (seat->chosen[i] >= e->model->config.vocab ||
            iq__engine_ends(e, seat->request, seat->chosen[i], made + i + 1))
            seat->kept = i + 1;
    }
}

int iq__engine_verify(struct iq_engine *e, const struct iq_batch *b, struct iq_err *err)
{
    uint32_t next = 0;
    for (uint32_t i = 0; i < b->seqs; i++) {
        const struct iq_seq *q = &b->seq[i];
        struct iq_seat *seat = e->of_row[q->first];
        uint32_t begin = next, end = q->first + q->rows;
        while (next < b->predicts && b->predict[next] < end) next++;
        seat->kept = q->rows;
        seat->accepted = 0;
        if (!seat->n_draft) {
            if (next > begin) seat->chosen[0] = e->forward.got.token[next - 1];
            continue;
        }
        const uint32_t *chosen = e->forward.got.token + begin; /* every row predicts */
        IQ_TRY(judge(e, seat, q, chosen, err));
        choose(e, seat, chosen);
        uint32_t gained = seat->accepted < seat->kept ? seat->accepted : seat->kept;
        seat->all_drafted += seat->n_draft;
        seat->all_accepted += gained;
        e->stats.drafted += seat->n_draft;
        e->stats.accepted += gained;
    }
    return IQ_OK;
}

/* A seat's drafts; guess: what a draft model says, or NULL. */
static int propose(struct iq_engine *e, struct iq_seat *seat, uint32_t wanted, const struct iq_guess *guess,
                   struct iq_err *err)
{
    uint32_t vocab = e->model->config.vocab, found = 0;
    const struct iq_row row = iq_seat_row(seat, seat->n_ids - 1, 0);
    const struct iq_draft draft = {.request = seat->index,
                                   .vocab = vocab,
                                   .tokens = seat->n_ids,
                                   .wanted = wanted,
                                   .longest = LOOKED_UP,
                                   .ids = seat->ids,
                                   .guess = guess ? guess->id : NULL,
                                   .guesses = guess ? guess->made : 0,
                                   .drafts = &found,
                                   .draft = seat->draft};
    IQ_TRY(iq_control_run(&e->control, IQ_OP_DRAFT, &row, &draft, err));
    if (found > wanted)
        return iq_fail(err, IQ_INTERNAL, "request %s: draft made %u tokens of %u", seat->request->id, found,
                       wanted);
    for (uint32_t i = 0; i < found; i++)
        if (seat->draft[i] >= vocab)
            return iq_fail(err, IQ_INTERNAL, "request %s: draft %u is token %u; the vocabulary has %u",
                           seat->request->id, i, seat->draft[i], vocab);
    seat->n_draft = found;
    return IQ_OK;
}

/* Drafts that a request may have: its last token is chosen by the model, whatever was guessed before it. */
static uint32_t wanted(const struct iq_engine *e, const struct iq_seat *seat)
{
    const struct iq_request *r = seat->request;
    if (seat->state != IQ_RUNNING || seat->computed + 1 != seat->n_ids || seat->n_ids <= r->n_prompt)
        return 0;
    uint32_t left = r->max_tokens - (seat->n_ids - r->n_prompt), cancel = r->cancel_after;
    if (cancel && cancel < seat->n_ids + left) left = cancel > seat->n_ids ? cancel - seat->n_ids + 1 : 1;
    return left - 1 < e->config.speculate ? left - 1 : e->config.speculate;
}

/* The draft model's word on n requests; requests that run no more leave its cache. */
static int ask_model(struct iq_engine *e, uint32_t n, struct iq_err *err)
{
    for (uint32_t i = 0; i < e->n; i++)
        if (e->schedule.seat[i].state != IQ_RUNNING) iq_drafter_forget(&e->drafter, &e->schedule.seat[i]);
    for (uint32_t i = 0; i < n; i++) e->guess[i].id = e->guessed + (size_t)i * e->config.speculate;
    return iq_drafter_guess(&e->drafter, e->guess, n, err);
}

int iq__engine_draft(struct iq_engine *e, const struct iq_batch *b, struct iq_err *err)
{
    uint32_t asked = 0;
    if (!e->config.speculate) return IQ_OK;
    for (uint32_t i = 0; i < b->seqs; i++) {
        struct iq_seat *seat = e->of_row[b->seq[i].first];
        if (seat->n_draft && seat->state == IQ_RUNNING) IQ_TRY(iq_schedule_trim(&e->schedule, seat, err));
        seat->n_draft = 0;
        uint32_t n = wanted(e, seat);
        if (n) e->guess[asked++] = (struct iq_guess){.seat = seat, .asked = n};
    }
    if (e->config.draft) IQ_TRY(ask_model(e, asked, err));
    for (uint32_t i = 0; i < asked; i++)
        IQ_TRY(propose(e, e->guess[i].seat, e->guess[i].asked, e->config.draft ? &e->guess[i] : NULL, err));
    return IQ_OK;
}
