/* A device of the shim with several GPUs beside it, the fake NCCL, and calls of all_reduce with pieces as tensor-parallel
 * ranks hold them. */
#ifndef IQ_TESTS_NCCL_RIG_H
#define IQ_TESTS_NCCL_RIG_H

#include "kernels/arith.h"
#include "kernels/cuda/device.h"
#include "kernels/nccl/nccl.h"
#include "kernels/shard.h"
#include "tests/cuda/device_case.h"
#include "tests/nccl/fake_nccl.h"

static struct iq_cuda *cuda;
static struct iq_exec exec;

static inline void rig_devices(int devices)
{
    struct iq_err err = {0};
    device_open();
    iq_shim_reset();
    iq_shim_devices(devices);
    fake_forget();
    iq_nccl_use(&fake_nccl);
    unsetenv("NCCL_ALGO");
    unsetenv("NCCL_PROTO");
    ck_assert_msg(!iq_kernels_register(&err), "%s", err.text);
    ck_assert_msg(!iq_cuda_open(true, 0, &cuda, &err), "%s", err.text);
    exec = (struct iq_exec){.cuda = cuda};
}

/* Nothing may be left: no communicator, no finding. */
static inline void rig_close(void)
{
    iq_nccl_close(cuda);
    ck_assert_int_eq(fake_facts().open, 0);
    ck_assert_msg(!iq_shim_findings(), "%s", iq_shim_report());
    device_release();
    iq_cuda_close(cuda);
    iq_nccl_use(NULL);
}

enum { CALL_PIECES = 64 };

/* One call: on the device, and what golden's reference gives on the host. */
struct call {
    struct iq_all_reduce a, host;
    struct iq_piece piece[CALL_PIECES], host_piece[CALL_PIECES];
    size_t bytes; /* of y, gaps included */
    float *want;  /* (rows, n), row stride ldy */
};

/* small: integers that any order of adding gives exactly, also in bf16 (sums stay below 256). */
static inline struct call *call_open(uint64_t *seed, uint32_t ranks, uint32_t act, bool small)
{
    struct call *c = calloc(1, sizeof *c);
    struct iq_shard shard[IQ_SHARD_RANKS];
    struct iq_err err = {0};
    uint32_t units = ranks + dice(seed, 3 * ranks), rows = 1 + dice(seed, 5), n = 1 + dice(seed, 90);
    ck_assert_msg(!iq_shard_plan(units, ranks, "units", shard, &err), "%s", err.text);
    c->host = (struct iq_all_reduce){rows, n, units, 0, act, c->host_piece, NULL, n + dice(seed, 3)};
    for (uint32_t r = 0; r < ranks; r++)
        for (uint32_t k = 0; k < shard[r].nodes; k++) {
            size_t ld = n + dice(seed, 4), count = rows * ld;
            float *x = new_floats(seed, count, !small && dice(seed, 4) == 0);
            for (size_t i = 0; small && i < count; i++) x[i] = (float)dice(seed, 9) - 4.0f;
            struct iq_piece p = {shard[r].node[k].unit, shard[r].node[k].units, r, x, ld};
            c->host_piece[c->host.pieces] = c->piece[c->host.pieces] = p;
            c->piece[c->host.pieces++].x = to_device(x, count * sizeof *x);
        }
    c->bytes = rows * c->host.ldy * sizeof(float);
    c->host.y = c->want = malloc(c->bytes);
    memset(c->want, 0x5a, c->bytes);
    ck_assert_int_eq(reference("all_reduce", &c->host), IQ_OK);
    c->a = c->host;
    c->a.piece = c->piece;
    c->a.y = NULL;
    return c;
}

static inline void call_close(struct call *c)
{
    for (uint32_t p = 0; p < c->host.pieces; p++) free((float *)c->host_piece[p].x);
    free(c->want);
    free(c);
}

/* A fresh output, with the gaps that the reference left alone. */
static inline void call_output(struct call *c)
{
    void *before = malloc(c->bytes);
    memset(before, 0x5a, c->bytes);
    c->a.y = to_device(before, c->bytes);
    free(before);
}

/* What the device wrote; free it. */
static inline float *call_result(struct call *c)
{
    float *y = malloc(c->bytes);
    ck_assert_msg(!iq_cuda_done(cuda, cuda->api->stream_sync(cuda->stream), "running"), "%s", cuda->err.text);
    from_device(y, c->a.y, c->bytes);
    return y;
}

static inline void call_expect_golden(struct call *c, uint64_t seed, const char *what)
{
    float *y = call_result(c);
    ck_assert_msg(!memcmp(y, c->want, c->bytes), "seed %#llx: %s: other bits than golden's",
                  (unsigned long long)seed, what);
    free(y);
}

#define OK(call)                                                                                             \
    do {                                                                                                     \
        int status_ = (call);                                                                                \
        ck_assert_msg(status_ == IQ_OK, "%s: %s\n%s", #call, cuda->err.text, iq_shim_report());              \
    } while (0)

#endif
