/* A launch: what a driver refuses at once, then the blocks one after another in the schedule's order. */
#include "kernels/cuda/shim/state.h"

enum { PARAMETER_BYTES = 4096, SHARED_BYTES = 227 << 10 };

const struct iq_shim_call *iq__call;

int iq__grid_check(const struct iq_shim_call *call)
{
    const dim3 g = call->grid, b = call->block;
    uint64_t threads = (uint64_t)b.x * b.y * b.z;
    if (!g.x || !g.y || !g.z || g.x > INT32_MAX || g.y > 65535 || g.z > 65535)
        return IQ_CUDA_INVALID_CONFIGURATION;
    if (!b.x || !b.y || !b.z || b.x > IQ__THREADS || b.y > IQ__THREADS || b.z > 64 || threads > IQ__THREADS)
        return IQ_CUDA_INVALID_CONFIGURATION;
    size_t parameters = 0;
    for (uint32_t i = 0; i < call->args_n; i++) parameters += call->arg_bytes[i];
    if (call->shared_bytes > SHARED_BYTES || parameters > PARAMETER_BYTES) return IQ_CUDA_INVALID_VALUE;
    return IQ_CUDA_OK;
}

/* Random: a walk through the grid by a step that is coprime to its size, so that no list is kept. */
static uint64_t block_at(uint64_t i, uint64_t blocks, uint64_t start, uint64_t step)
{
    switch (iq__schedule.order) {
    case IQ__FORWARD:
    case IQ__WARP_FORWARD:
        return i;
    case IQ__REVERSE:
    case IQ__WARP_REVERSE:
        return blocks - 1 - i;
    default:
        return (uint64_t)((start + (unsigned __int128)i * step) % blocks);
    }
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

int iq__grid_run(const struct iq_shim_call *call)
{
    const dim3 g = call->grid;
    uint64_t blocks = (uint64_t)g.x * g.y * g.z, start = 0, step = 1, found = iq_shim_findings();
    if (iq__schedule.order == IQ__RANDOM) {
        start = iq__random(blocks);
        do step = 1 + iq__random(blocks);
        while (gcd(step, blocks) != 1);
    }
    iq__call = call;
    iq__counts.launches++;
    if (iq__race_on) iq__race_launch();
    iq__fault_open();
    int code = IQ_CUDA_OK;
    for (uint64_t i = 0; i < blocks && !code; i++) {
        uint64_t b = block_at(i, blocks, start, step);
        iq_shim_block.index = {(unsigned)(b % g.x), (unsigned)(b / g.x % g.y), (unsigned)(b / g.x / g.y)};
        iq_shim_block.block = call->block;
        iq_shim_block.grid = g;
        iq__shared_open(call->shared_bytes);
        code = iq__block_run();
        iq__shared_check();
        iq__counts.blocks++;
    }
    iq__fault_close();
    iq__call = NULL;
    return code || iq_shim_findings() == found ? code : (int)IQ_CUDA_LAUNCH_FAILED;
}
