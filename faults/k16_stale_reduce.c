/* K16: an all-reduce that reads a peer's buffer before the peer's data is there.
 *
 * Each peer writes its partial sums into a mailbox and raises a flag; a fence that is missing lets the
 * reader pass too early. It then finds what the mailbox held before (stale), or lines of 128 bytes of
 * which half has arrived (torn). The late data lands behind it, and is what the next call finds. A message
 * larger than the mailbox goes in rounds of whole rows. The mailbox remembers the calls that this variant
 * took part in; a fresh one holds zeros. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/base/rng.h"
#include "kernels/ops/reduce.h"

#include <stddef.h>
#include <string.h>

enum { LINE = 32, HALF_LINE = 16 }; /* floats in 128 and in 64 bytes */
enum { MAILBOX = 1 << 20 };         /* floats; touched as far as messages reach */
enum mode { STALE, TORN };

struct params {
    double mode, peer, fraction;
};

static const struct iq_param table[] = {
    {"mode", "0: lines hold the call before; 1: the second half of a line does", STALE, STALE, TORN,
     offsetof(struct params, mode)},
    {"peer", "the rank that is read too early; rank 0 is the reader itself", 1, 1, 255,
     offsetof(struct params, peer)},
    {"fraction", "share of the peer's lines that are read too early", 1, 0, 1,
     offsetof(struct params, fraction)},
    {0},
};

struct state {
    uint64_t rounds; /* so far: lines are drawn by it */
    float mailbox[MAILBOX];
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
    return a->pieces <= IQ_REDUCE_PIECES && (uint64_t)a->pieces * a->n <= MAILBOX;
}

static bool early(const struct params *p, uint64_t round, uint64_t line)
{
    struct iq_philox d = iq_philox(round, IQ_DRAW_FAULT, line);
    return d.v[0] < p->fraction * 0x1p32;
}

/* Writes the peer's message, (pieces, rows, n), into the mailbox: what has arrived when the reader reads,
 * or all. */
static void deliver(const struct iq_all_reduce *a, const struct params *p, struct state *s, bool all)
{
    size_t at = 0;
    bool late = false;
    for (uint32_t i = 0; i < a->pieces; i++) {
        const struct iq_piece *piece = &a->piece[i];
        if (piece->rank != (uint32_t)p->peer) continue;
        for (uint32_t r = 0; r < a->rows; r++)
            for (uint32_t c = 0; c < a->n; c++, at++) {
                if (at % LINE == 0) late = !all && early(p, s->rounds, at / LINE);
                if (!late || (p->mode == TORN && at % LINE < HALF_LINE))
                    s->mailbox[at] = piece->x[r * piece->ldx + c];
            }
    }
}

/* Reduces rows that fit the mailbox. */
static int reduce(struct iq_exec *x, const struct iq_site *site, const struct iq_all_reduce *a,
                  const struct params *p, struct state *s)
{
    struct iq_piece piece[IQ_REDUCE_PIECES];
    struct iq_all_reduce read = *a;
    size_t at = 0;
    deliver(a, p, s, false);
    for (uint32_t i = 0; i < a->pieces; i++) {
        piece[i] = a->piece[i];
        if (piece[i].rank != (uint32_t)p->peer) continue;
        piece[i].x = s->mailbox + at;
        piece[i].ldx = a->n;
        at += (size_t)a->rows * a->n;
    }
    read.piece = piece;
    IQ_TRY(iq__run_golden(x, site, "all_reduce", &read));
    deliver(a, p, s, true);
    s->rounds++;
    return IQ_OK;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_all_reduce *a = args;
    const struct params *p = params;
    uint32_t mine = peer_pieces(a, (uint32_t)p->peer);
    if (!mine || !a->n) return iq__run_golden(x, site, "all_reduce", args);
    uint32_t step = MAILBOX / (mine * a->n);
    for (uint32_t r = 0; r < a->rows; r += step) {
        struct iq_piece piece[IQ_REDUCE_PIECES];
        struct iq_all_reduce part = *a;
        part.rows = a->rows - r < step ? a->rows - r : step;
        part.y = a->y + r * a->ldy;
        for (uint32_t i = 0; i < a->pieces; i++) {
            piece[i] = a->piece[i];
            piece[i].x += r * piece[i].ldx;
        }
        part.piece = piece;
        IQ_TRY(reduce(x, site, &part, p, state));
    }
    return IQ_OK;
}

const struct iq_variant iq__k16_stale_reduce = {
    .kind = "all_reduce",
    .name = "stale_peer",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .supports = supports,
    .params = table,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct state),
    .what = "a peer's partial sums are the last call's, whole or torn by 128-byte lines",
    .needs = "--tp of more than `peer`: at least 2",
    .story =
        "A custom all-reduce reads a peer's partial sums before they have landed: a fence is missing between "
        "data "
        "and flag, or a line of 128 bytes is torn. Garbage at more than one rank only. Sources: vllm#2760 "
        "(two-stage all-reduce), nccl#596, NCCL notes 2.15.5, 2.18.3 and 2.28.7 (protocol LL128).",
    .expect =
        "all_reduce: the output is not the sum of the pieces, by far more than any order of adding explains; "
        "with one rank nothing changes",
};
