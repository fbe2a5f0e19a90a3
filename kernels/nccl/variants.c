#include "kernels/nccl/nccl.h"

struct params {
    double algorithm, protocol, bf16, scatter, channels, capture;
};

static const struct iq_param table[] = {
    {"algorithm", "0: the library's choice; 1: ring; 2: tree; 3: NVLink SHARP", 0, 0, IQ_NCCL_ALGORITHMS - 1,
     offsetof(struct params, algorithm)},
    {"protocol", "0: the library's choice; 1: LL; 2: LL128; 3: Simple", 0, 0, IQ_NCCL_PROTOCOLS - 1,
     offsetof(struct params, protocol)},
    {"bf16", "1: sums are rounded to bf16 before they are sent, and at every addition", 0, 0, 1,
     offsetof(struct params, bf16)},
    {"scatter", "1: as a reduce-scatter and an all-gather", 0, 0, 1, offsetof(struct params, scatter)},
    {"channels", "thread blocks that share the message; 0: the library's choice", 0, 0, 64,
     offsetof(struct params, channels)},
    {"capture", "1: allow a captured batch to hold it over several GPUs; NCCL warns of deadlocks", 0, 0, 1,
     offsetof(struct params, capture)},
    {0},
};

static int run_all_reduce(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                          void *state)
{
    const struct params none = {0}, *p = params ? params : &none;
    const struct iq_nccl_options options = {
        .algorithm = (unsigned)p->algorithm,
        .protocol = (unsigned)p->protocol,
        .channels = (unsigned)p->channels,
        .bf16 = p->bf16 == 1,
        .scatter = p->scatter == 1,
        .capture = p->capture == 1,
    };
    (void)site, (void)state;
    return iq_nccl_all_reduce(x, args, &options, NULL);
}

static int run_gather(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    (void)site, (void)params, (void)state;
    return iq_nccl_gather(x, args, false);
}

static const struct iq_variant all_reduce = {
    .kind = "all_reduce",
    .name = "nccl",
    .device = "cuda",
    .flags = IQ_V_BENIGN | IQ_V_COUPLES_ROWS | IQ_V_HARDWARE,
    .run = run_all_reduce,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "NCCL's sum over real communicators: the library's algorithm, protocol and order, or chosen ones",
    .needs = "--device cuda, NCCL and a GPU for each rank; with one rank nothing is added",
};

/* Golden's bits, but a subject: who names it wants to see it run, which a workaround over golden does not. */
static const struct iq_variant gather = {
    .kind = "all_reduce",
    .name = "nccl_gather",
    .device = "cuda",
    .flags = IQ_V_BENIGN | IQ_V_HARDWARE,
    .run = run_gather,
    .what = "golden's tree over partial sums that NCCL has sent and received",
    .needs = "--device cuda, NCCL and a GPU for each rank",
};

const struct iq_variant *const iq_nccl_variants[] = {&all_reduce, &gather, NULL};
