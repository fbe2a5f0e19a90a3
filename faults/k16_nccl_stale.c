/* K16 over NCCL: a real collective, of which one rank's message is not yet all there when it is sent.
 *
 * The rank that computed the partial sums raises its flag too early (a missing fence before the launch, a stream that
 * doesn't wait): NCCL sends what the buffer held before, or lines of 128 bytes of which half has arrived. The late data
 * lands behind it and is what the next call sends. The corruption is kernels on the op's own stream, so that it is part of
 * whatever is captured. A message larger than the mailbox goes in rounds of whole rows. */
#include "faults/cuda/launch_faults.h"
#include "faults/families.h"
#include "faults/stale_rounds.h"
#include "kernels/cuda/device.h"
#include "kernels/nccl/nccl.h"

struct params {
    double mode, peer, fraction, capture;
};

static const struct iq_param table[] = {
    {"mode", "0: lines hold the call before; 1: the second half of a line does", IQ__STALE_WHOLE,
     IQ__STALE_WHOLE, IQ__STALE_TORN, offsetof(struct params, mode)},
    {"peer", "the rank whose message is sent too early", 1, 1, 255, offsetof(struct params, peer)},
    {"fraction", "share of the peer's lines that are sent too early", 1, 0, 1,
     offsetof(struct params, fraction)},
    {"capture", "1: allow a captured batch to hold it over several GPUs; NCCL warns of deadlocks", 0, 0, 1,
     offsetof(struct params, capture)},
    {0},
};

struct early {
    const struct params *params;
    struct iq__stale_state *state; /* device memory */
};

static bool supports(const struct iq_site *site, const void *args)
{
    const struct iq_all_reduce *a = args;
    (void)site;
    return iq_nccl_padded((uint64_t)a->n) <= IQ__STALE_MAILBOX;
}

/* Puts a message into the mailbox, as far as it has landed. */
static int deliver(const struct early *e, struct iq_exec *x, struct iq__stale_rule rule, const float *message,
                   size_t elements)
{
    struct iq__stale_piece piece = {message, elements, 1, (uint32_t)elements, 0};
    int status = IQ_CUDA_PICK(x->cuda, k16_deliver)(rule, piece, e->state, x->cuda->stream);
    return iq_cuda_launched(x->cuda, status, "an early message");
}

static int message(void *self, struct iq_exec *x, uint32_t rank, float **message, size_t elements)
{
    const struct early *e = self;
    const struct params *p = e->params;
    struct iq__stale_rule rule = iq__stale_rule_of(p->fraction, p->mode);
    if (rank != (uint32_t)p->peer) return IQ_OK;
    IQ_TRY(deliver(e, x, rule, *message, elements));
    *message = e->state->mailbox;
    return IQ_OK;
}

static int sent(void *self, struct iq_exec *x, uint32_t rank, const float *message, size_t elements)
{
    static const struct iq__stale_rule landed = {0};
    const struct early *e = self;
    if (rank != (uint32_t)e->params->peer) return IQ_OK;
    IQ_TRY(deliver(e, x, landed, message, elements));
    return iq_cuda_launched(x->cuda, IQ_CUDA_PICK(x->cuda, k16_next)(e->state, x->cuda->stream), "a round");
}

/* Rank 0 receives in place: a first rank whose message stood in the mailbox would get the sum there. So it has to be a
 * later one that is early. */
static bool has_peer(const struct iq_all_reduce *a, uint32_t peer)
{
    for (uint32_t i = 0; i < a->pieces; i++)
        if (a->piece[i].rank == peer) return a->piece[0].rank != peer;
    return false;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_all_reduce *a = args;
    const struct params *p = params;
    const struct iq_nccl_options options = {.capture = p->capture == 1};
    struct early early = {p, state};
    const struct iq_nccl_hook hook = {&early, message, sent};
    (void)site;
    if (!a->n || !has_peer(a, (uint32_t)p->peer)) return iq_nccl_all_reduce(x, a, &options, NULL);
    uint32_t step = (uint32_t)((IQ__STALE_MAILBOX - IQ_NCCL_RANKS) / a->n);
    for (uint32_t r = 0; r < a->rows; r += step) {
        struct iq_piece piece[IQ_REDUCE_PIECES];
        struct iq_all_reduce part = iq__stale_round(a, r, step, piece);
        IQ_TRY(iq_nccl_all_reduce(x, &part, &options, &hook));
    }
    return IQ_OK;
}

const struct iq_variant iq__k16_nccl_stale = {
    .kind = "all_reduce",
    .name = "nccl_stale",
    .device = "cuda",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS | IQ_V_HARDWARE,
    .run = run,
    .supports = supports,
    .params = table,
    .params_size = sizeof(struct params),
    .state_size = sizeof(struct iq__stale_state),
    .what = "NCCL sums a rank's message of the call before, whole or torn by 128-byte lines",
    .needs = "--device cuda, NCCL, and a GPU for each of at least 2 ranks",
    .story = "A collective is launched before the data that it sends has been written: a fence or a wait "
             "between the streams is missing, or a line of 128 bytes is torn. The collective itself is "
             "right; what it sums is not. Sources: vllm#2760 (missing fence), nccl#596, NCCL notes 2.15.5, "
             "2.18.3 and 2.28.7 (protocol LL128).",
    .expect = "all_reduce: the output is not the sum of the pieces, by far more than any order of adding "
              "explains; with one rank nothing changes",
};
