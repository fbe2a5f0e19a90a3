/* K16: an all-reduce that reads a peer's buffer before the peer's data is there.
 *
 * Each peer writes its partial sums into a mailbox and raises a flag; a fence that is missing lets the
 * reader pass too early. It then finds what the mailbox held before (stale), or lines of 128 bytes of
 * which half has arrived (torn). The late data lands behind it, and is what the next call finds. A message
 * larger than the mailbox goes in rounds of whole rows. The mailbox remembers the calls that this variant
 * took part in; a fresh one holds zeros. */
#include "faults/beneath.h"
#include "faults/cuda/launch_faults.h"
#include "faults/families.h"
#include "faults/stale_rounds.h"
#include "kernels/cuda/device.h"
#include "kernels/ops/reduce.h"

#include <stddef.h>

struct params {
    double mode, peer, fraction;
};

static const struct iq_param table[] = {
    {"mode", "0: lines hold the call before; 1: the second half of a line does", IQ__STALE_WHOLE,
     IQ__STALE_WHOLE, IQ__STALE_TORN, offsetof(struct params, mode)},
    {"peer", "the rank that is read too early; rank 0 is the reader itself", 1, 1, 255,
     offsetof(struct params, peer)},
    {"fraction", "share of the peer's lines that are read too early", 1, 0, 1,
     offsetof(struct params, fraction)},
    {0},
};

static uint32_t peer_pieces(const struct iq_all_reduce *a, uint32_t peer)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < a->pieces; i++) n += a->piece[i].rank == peer;
    return n;
}

/* One row must fit for every peer, whatever peer is meant. */
static bool supports(const struct iq_site *site, const void *args)
{
    const struct iq_all_reduce *a = args;
    (void)site;
    return a->pieces <= IQ_REDUCE_PIECES && (uint64_t)a->pieces * a->n <= IQ__STALE_MAILBOX;
}

/* Puts a piece into the mailbox, as far as it has landed. */
static int deliver(struct iq_exec *x, struct iq__stale_rule rule, struct iq__stale_piece piece,
                   struct iq__stale_state *s)
{
    if (x->cuda) {
        int status = IQ_CUDA_PICK(x->cuda, k16_deliver)(rule, piece, s, x->cuda->stream);
        return iq_cuda_launched(x->cuda, status, "an early read's message");
    }
    uint64_t at = piece.at;
    bool late = iq__stale_is_late(rule, s->round, at / IQ__STALE_LINE);
    for (uint32_t r = 0; r < piece.rows; r++)
        for (uint32_t c = 0; c < piece.n; c++, at++) {
            if (at % IQ__STALE_LINE == 0) late = iq__stale_is_late(rule, s->round, at / IQ__STALE_LINE);
            if (iq__stale_lands(rule, late, at)) s->mailbox[at] = piece.x[r * piece.ldx + c];
        }
    return IQ_OK;
}

static int next_round(struct iq_exec *x, struct iq__stale_state *s)
{
    if (x->cuda)
        return iq_cuda_launched(x->cuda, IQ_CUDA_PICK(x->cuda, k16_next)(s, x->cuda->stream), "a round");
    s->round++;
    return IQ_OK;
}

/* The peer's message, (pieces, rows, n), into the mailbox; piece[] then reads it from there. */
static int deliver_all(struct iq_exec *x, struct iq__stale_rule rule, const struct iq_all_reduce *a,
                       uint32_t peer, struct iq__stale_state *s, struct iq_piece *piece)
{
    size_t at = 0;
    for (uint32_t i = 0; i < a->pieces; i++) {
        const struct iq_piece *from = &a->piece[i];
        piece[i] = *from;
        if (from->rank != peer) continue;
        IQ_TRY(deliver(x, rule, (struct iq__stale_piece){from->x, from->ldx, a->rows, a->n, at}, s));
        piece[i].x = s->mailbox + at;
        piece[i].ldx = a->n;
        at += (size_t)a->rows * a->n;
    }
    return IQ_OK;
}

/* Reduces rows that fit the mailbox. */
static int reduce(struct iq_exec *x, const struct iq_site *site, const struct iq_all_reduce *a,
                  const struct params *p, struct iq__stale_state *s)
{
    static const struct iq__stale_rule landed = {0};
    struct iq__stale_rule rule = iq__stale_rule_of(p->fraction, p->mode);
    struct iq_piece piece[IQ_REDUCE_PIECES];
    struct iq_all_reduce read = *a;
    read.piece = piece;
    IQ_TRY(deliver_all(x, rule, a, (uint32_t)p->peer, s, piece));
    IQ_TRY(iq__run_golden(x, site, "all_reduce", &read));
    IQ_TRY(deliver_all(x, landed, a, (uint32_t)p->peer, s, piece));
    return next_round(x, s);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_all_reduce *a = args;
    const struct params *p = params;
    uint32_t mine = peer_pieces(a, (uint32_t)p->peer);
    if (!mine || !a->n) return iq__run_golden(x, site, "all_reduce", args);
    uint32_t step = IQ__STALE_MAILBOX / (mine * a->n);
    for (uint32_t r = 0; r < a->rows; r += step) {
        struct iq_piece piece[IQ_REDUCE_PIECES];
        struct iq_all_reduce part = iq__stale_round(a, r, step, piece);
        IQ_TRY(reduce(x, site, &part, p, state));
    }
    return IQ_OK;
}

const struct iq_variant iq__k16_stale_reduce = {
    .kind = "all_reduce",
    .name = "stale_peer",
    .device = "any",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .supports = supports,
    .params = table,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct iq__stale_state),
    .what = "a peer's partial sums are the last call's, whole or torn by 128-byte lines",
    .needs = "--tp of more than `peer`: at least 2",
    .story =
        "A custom all-reduce reads a peer's partial sums before they have landed: a fence is missing between "
        "data and flag, or a line of 128 bytes is torn. Garbage at more than one rank only. Sources: "
        "vllm#2760 (two-stage all-reduce), nccl#596, NCCL notes 2.15.5, 2.18.3 and 2.28.7 (protocol LL128).",
    .expect =
        "all_reduce: the output is not the sum of the pieces, by far more than any order of adding explains; "
        "with one rank nothing changes",
};
