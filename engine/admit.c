/* A request on its way into the batch: it arrives (its prompt is assembled, a pool serves it, its KV gets an identity), is
 * admitted (its prefix is looked up and attached), and what it computed is published. */
#include "engine/engine_state.h"
#include "kernels/ops/requests.h"

#include <stdlib.h>
#include <string.h>

/* ---- arrival ---- */

static int assemble(struct iq_engine *e, struct iq_seat *seat, const struct iq_row *row, struct iq_err *err)
{
    const struct iq_request *asked = seat->asked;
    struct iq_request *own = &seat->own;
    struct iq_sampling sampling = {0};
    const struct iq_assemble args = {
        .request = seat->index,
        .n = asked->n_prompt,
        .special = asked->special,
        .prompt = asked->prompt,
        .part = asked->part,
        .parts = asked->parts,
        .truncate = asked->truncate,
        .asked = {asked->seed, asked->temperature, asked->top_p, asked->min_p, asked->top_k},
        .ids = seat->ids,
        .n_ids = &own->n_prompt,
        .sampling = &sampling};
    uint32_t most = iq__engine_prompt(asked);
    IQ_TRY(iq_control_run(&e->control, IQ_OP_ASSEMBLE, row, &args, err));
    if (own->n_prompt < 1 || own->n_prompt > most)
        return iq_fail(err, IQ_CRASHED, "request %s: assemble made a prompt of %u tokens, expected 1 to %u",
                       asked->id, own->n_prompt, most);
    for (uint32_t i = 0; i < own->n_prompt; i++)
        if (seat->ids[i] >= e->model->config.vocab)
            return iq_fail(err, IQ_CRASHED,
                           "request %s: assemble put token %u into its prompt; the vocabulary has %u",
                           asked->id, seat->ids[i], e->model->config.vocab);
    seat->n_ids = own->n_prompt;
    own->seed = sampling.seed;
    own->temperature = sampling.temperature;
    own->top_p = sampling.top_p;
    own->min_p = sampling.min_p;
    own->top_k = sampling.top_k;
    return IQ_OK;
}

static int place(struct iq_engine *e, struct iq_seat *seat, const struct iq_row *row, struct iq_err *err)
{
    const struct iq_request *r = &seat->own;
    const struct iq_place args = {.request = seat->index,
                                  .session = r->session,
                                  .tokens = r->n_prompt + r->max_tokens,
                                  .pools = e->model->tables,
                                  .limit = e->config.long_from,
                                  .pool = &seat->pool};
    IQ_TRY(iq_control_run(&e->control, IQ_OP_PLACE, row, &args, err));
    if (seat->pool < e->model->tables) return IQ_OK;
    return iq_fail(err, IQ_CRASHED, "request %s: place chose pool %u of %u", r->id, seat->pool,
                   e->model->tables);
}

static int identify(struct iq_engine *e, struct iq_seat *seat, const struct iq_row *row, struct iq_err *err)
{
    struct iq_identity args = {.request = seat->index, .root = &seat->root};
    args.part[IQ_IDENTITY_WEIGHTS] = e->loaded->packed_digest;
    args.part[IQ_IDENTITY_CONTRACT] = e->contract;
    args.part[IQ_IDENTITY_POSITIONS] = seat->pool ? e->model->long_digest : e->model->rotary_digest;
    if (seat->own.adapter) args.part[IQ_IDENTITY_ADAPTER] = seat->own.adapter->digest;
    args.part[IQ_IDENTITY_TENANT].lo = seat->own.tenant;
    seat->whose = iq_digest_list(args.part, IQ_IDENTITY_PARTS);
    return iq_control_run(&e->control, IQ_OP_IDENTITY, row, &args, err);
}

int iq__engine_arrive(void *ctx, struct iq_seat *seat, struct iq_err *err)
{
    struct iq_engine *e = ctx;
    struct iq_row row = iq_seat_row(seat, 0, 0);
    row.context = seat->n_ids;
    IQ_TRY(assemble(e, seat, &row, err));
    if (e->model->tables > 1) IQ_TRY(place(e, seat, &row, err));
    row.pool = seat->pool;
    IQ_TRY(identify(e, seat, &row, err));
    seat->arrived = true;
    return IQ_OK;
}

/* ---- prefix ---- */

/* Keys of all whole blocks of the seat's ids. */
static void extend_keys(struct iq_seat *seat)
{
    for (; (seat->n_keys + 1) * IQ_KV_BLOCK <= seat->n_ids; seat->n_keys++)
        seat->key[seat->n_keys] = iq_kv_key(seat->n_keys ? seat->key[seat->n_keys - 1] : seat->root,
                                            seat->ids + (size_t)seat->n_keys * IQ_KV_BLOCK);
}

static int look_up(struct iq_engine *e, struct iq_seat *seat, uint32_t *hits, struct iq_err *err)
{
    const struct iq_request *r = seat->request;
    uint32_t wanted = (iq_seat_end(seat) - 1) / IQ_KV_BLOCK;
    struct iq_prefix args = {.request = seat->index,
                             .tokens = seat->n_ids,
                             .wanted = wanted,
                             .key = seat->key,
                             .entry = e->kv.entry,
                             .capacity = e->kv.capacity,
                             .hits = hits,
                             .blocks = seat->blocks};
    struct iq_row row = iq_seat_row(seat, 0, 0);
    row.context = row.after = seat->n_ids;
    struct iq_site site = {.op = IQ_OP_PREFIX,
                           .layer = IQ_NO_LAYER,
                           .prev_op = IQ_OP_NONE,
                           .next_op = IQ_OP_EMBED,
                           .step = &e->step,
                           .row = &row,
                           .rows = 1,
                           .slot = iq_slots_at(e->slots, IQ_OP_PREFIX, IQ_NO_LAYER, 0)};
    int status = iq_dispatch(&e->forward.exec, &site, &args);
    if (status != IQ_OK)
        return iq_fail(err, status, "request %s: prefix lookup failed: %s", r->id, iq_status_text(status));
    if (*hits > wanted)
        return iq_fail(err, IQ_INTERNAL, "request %s: prefix op found %u blocks of %u", r->id, *hits, wanted);
    for (uint32_t i = 0; i < *hits; i++)
        if (seat->blocks[i] >= e->kv.blocks)
            return iq_fail(err, IQ_INTERNAL, "request %s: prefix op handed out block %u of %u", r->id,
                           seat->blocks[i], e->kv.blocks);
    return IQ_OK;
}

/* The hit's blocks are elsewhere: each lands in a block of the request's own, as many as there is room for. */
static int land(struct iq_engine *e, struct iq_seat *seat, uint32_t *hits, struct iq_err *err)
{
    struct iq_row row = iq_seat_row(seat, 0, 0);
    uint32_t landed = 0, n = 0, own;
    const struct iq_kv_land args = {.request = seat->index,
                                    .blocks = *hits,
                                    .layers = e->kv.layers,
                                    .flying = ++e->kv.flying,
                                    .landed = &landed};
    IQ_TRY(iq_control_run(&e->control, IQ_OP_KV_LAND, &row, &args, err));
    for (; n < *hits; n++) {
        IQ_TRY(iq_kv_take(&e->kv, &row, n, &own, err));
        if (own == UINT32_MAX) break;
        IQ_TRY(iq_kv_land(&e->kv, &row, seat->blocks[n], own, landed, err));
        seat->blocks[n] = own;
    }
    for (uint32_t i = n; i < *hits; i++) IQ_TRY(iq_kv_drop(&e->kv, &row, seat->blocks[i], false, err));
    *hits = n;
    seat->landed = true;
    return IQ_OK;
}

int iq__engine_admit(void *ctx, struct iq_seat *seat, struct iq_err *err)
{
    struct iq_engine *e = ctx;
    uint32_t hits = 0;
    seat->cached = 0;
    seat->landed = false;
    if (!seat->attempt) seat->ordinal = e->step.started++;
    if (!e->config.prefix_cache || seat->request->score || seat->n_ids <= e->config.prefix_min) return IQ_OK;
    extend_keys(seat);
    e->step.batch = e->schedule.n_running;
    iq__engine_note(e);
    IQ_TRY(look_up(e, seat, &hits, err));
    if (hits * IQ_KV_BLOCK < e->config.prefix_min) hits = 0;
    for (uint32_t i = 0; i < hits; i++) iq_kv_hold(&e->kv, seat->blocks[i]);
    if (e->config.remote_kv && hits) IQ_TRY(land(e, seat, &hits, err));
    seat->n_blocks = hits;
    seat->computed = seat->cached = hits * IQ_KV_BLOCK;
    e->stats.hits += seat->cached;
    e->step.hits += hits != 0;
    return iq_recorder_attached(&e->recorder, seat, &e->step, err);
}

void iq__engine_publish(struct iq_engine *e, struct iq_seat *seat, uint32_t before)
{
    if (!e->config.prefix_cache) return;
    extend_keys(seat);
    for (uint32_t b = before / IQ_KV_BLOCK; (b + 1) * IQ_KV_BLOCK <= seat->computed; b++)
        iq_kv_publish(&e->kv, seat->blocks[b], seat->key[b], seat->whose);
}
