/* A block's threads as fibers: who runs next, barriers, warp operations. All of it runs on the stack of the thread that
 * stops; a switch goes from thread to thread, and back to the grid's loop only at the block's end. */
#include "kernels/cuda/shim/state.h"

#include <stdio.h>

struct iq__fiber iq__fibers[IQ__THREADS];
struct iq__fiber *iq__running;
struct iq_shim_thread *iq_shim_thread;
struct iq_shim_block iq_shim_block;
struct iq_shim_counts iq__counts;

enum {
    WORDS = IQ__THREADS / 64,
    SPINS =
        1
        << 24 /* atomics of a block without a barrier, a warp operation or a thread's end: it waits for what can't come */
};

static struct {
    unsigned threads, arrived, exited, last; /* last: who ran last, for the orders that take turns */
    unsigned spins;                          /* atomics since the last progress */
    uint64_t ready[WORDS], at_barrier[WORDS];
    const char *barrier_file;
    int barrier_line, one_warp; /* random: this block keeps to a warp while it can */
    struct {
        unsigned alive, waiting; /* lanes */
    } warps[IQ__WARPS];
    int code;
    struct iq__context grid; /* the loop over blocks */
} block;

static void bit_set(uint64_t *words, unsigned i) { words[i / 64] |= 1ull << i % 64; }
static void bit_clear(uint64_t *words, unsigned i) { words[i / 64] &= ~(1ull << i % 64); }

/* The first ready thread at or above `from`, going round; -1: none. */
static int ready_up(unsigned from)
{
    unsigned words = (block.threads + 63) / 64, w = from / 64;
    uint64_t bits = block.ready[w] & ~0ull << from % 64;
    for (unsigned i = 0; i <= words; i++) {
        if (bits) return (int)(w * 64) + __builtin_ctzll(bits);
        w = w + 1 < words ? w + 1 : 0;
        bits = block.ready[w];
    }
    return -1;
}

/* The first at or below `from`, going round. */
static int ready_down(unsigned from)
{
    unsigned words = (block.threads + 63) / 64, w = from / 64;
    uint64_t bits = block.ready[w] & ~0ull >> (63 - from % 64);
    for (unsigned i = 0; i <= words; i++) {
        if (bits) return (int)(w * 64) + 63 - __builtin_clzll(bits);
        w = w ? w - 1 : words - 1;
        bits = block.ready[w];
    }
    return -1;
}

static int ready_random(void)
{
    if (block.one_warp) {
        unsigned warp = block.last / 32, bits = (unsigned)(block.ready[warp / 2] >> warp % 2 * 32);
        if (bits) {
            unsigned turn = (unsigned)iq__random(32);
            bits = turn ? bits >> turn | bits << (32 - turn) : bits;
            return (int)(warp * 32 + (turn + (unsigned)__builtin_ctz(bits)) % 32);
        }
    }
    return ready_up((unsigned)iq__random(block.threads));
}

static int ready_next(void)
{
    unsigned top = block.threads - 1;
    switch (iq__schedule.order) {
    case IQ__FORWARD:
        return ready_up(block.last < top ? block.last + 1 : 0);
    case IQ__REVERSE:
        return ready_down(block.last ? block.last - 1 : top);
    case IQ__WARP_FORWARD:
        return ready_up(0);
    case IQ__WARP_REVERSE:
        return ready_down(top);
    default:
        return ready_random();
    }
}

static void deadlock(void)
{
    static const char *const where[] = {"ready", "at __syncthreads", "in a warp operation", "gone"};
    char text[512];
    size_t used = 0;
    unsigned shown = 0;
    for (unsigned i = 0; i < block.threads && shown < 4; i++) {
        const struct iq__fiber *f = &iq__fibers[i];
        /* Of each kind of waiting the first thread is told. */
        if (f->wait == IQ__EXITED ||
            (i && f->wait == f[-1].wait && f->line == f[-1].line && f->mask == f[-1].mask))
            continue;
        int n = snprintf(text + used, sizeof text - used, "%sthread %u %s at %s:%d", shown ? ", " : "", i,
                         where[f->wait], iq__file_name(f->file), f->line);
        if (n > 0 && f->wait == IQ__IN_WARP)
            n += snprintf(text + used + n, sizeof text - used - (size_t)n, " (mask %08x)", f->mask);
        used += (size_t)n;
        shown++;
    }
    iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED, "deadlock, no thread can go on: %s", text);
}

/* Lets the next thread run; comes back when this one is chosen again (never, where it has exited). */
static void give_way(void)
{
    int next = ready_next();
    struct iq__fiber *self = iq__running;
    if (next < 0) {
        if (block.exited < block.threads) deadlock();
        iq__running = NULL;
        iq__context_switch(&self->context, &block.grid);
    }
    bit_clear(block.ready, (unsigned)next);
    block.last = (unsigned)next;
    iq__running = &iq__fibers[next];
    iq_shim_thread = &iq__running->thread;
    if (iq__running != self) iq__context_switch(&self->context, &iq__running->context);
}

void iq__kernel_stop(int code)
{
    struct iq__context dropped;
    block.code = code;
    iq__running = NULL;
    iq__context_switch(&dropped, &block.grid);
    __builtin_unreachable();
}

/* ---- barrier ---- */

void iq_shim_barrier(const char *file, int line)
{
    struct iq__fiber *self = iq__running;
    iq__counts.barriers++;
    if (block.exited) {
        self->file = file;
        self->line = line;
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "__syncthreads at %s:%d, but %u threads of the block have returned",
                          iq__file_name(file), line, block.exited);
    }
    if (!block.arrived) {
        block.barrier_file = file;
        block.barrier_line = line;
    } else if (line != block.barrier_line || file != block.barrier_file) {
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "divergent barrier: __syncthreads at %s:%d, while %u threads wait at %s:%d",
                          iq__file_name(file), line, block.arrived, iq__file_name(block.barrier_file),
                          block.barrier_line);
    }
    self->wait = IQ__AT_BARRIER;
    self->file = file;
    self->line = line;
    bit_set(block.at_barrier, self->thread.linear);
    if (++block.arrived == block.threads) {
        block.arrived = 0;
        block.spins = 0;
        memcpy(block.ready, block.at_barrier, sizeof block.ready);
        memset(block.at_barrier, 0, sizeof block.at_barrier);
        if (iq__race_on) iq__race_barrier();
    }
    give_way();
    self->wait = IQ__READY;
}

/* ---- warp operations ---- */

/* All lanes of the mask are in a warp operation: the same one, or it's a finding. */
static void warp_complete(struct iq__fiber *self)
{
    struct iq__fiber *lanes = self - self->thread.lane;
    uint64_t folded = 0;
    int first = 1;
    for (unsigned rest = self->mask; rest; rest &= rest - 1) {
        struct iq__fiber *f = &lanes[__builtin_ctz(rest)];
        if (f->mask != self->mask)
            iq__find_and_stop(
                IQ_CUDA_LAUNCH_FAILED,
                "wrong mask: warp operation at %s:%d with mask %08x meets lane %u at %s:%d with mask %08x",
                iq__file_name(self->file), self->line, self->mask, f->thread.lane, iq__file_name(f->file),
                f->line, f->mask);
        if (f->line != self->line || f->file != self->file || f->fold != self->fold)
            iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                              "divergent warp: operation at %s:%d meets lane %u of its mask at %s:%d",
                              iq__file_name(self->file), self->line, f->thread.lane, iq__file_name(f->file),
                              f->line);
        if (self->fold) folded = first ? f->value : self->fold(folded, f->value);
        first = 0;
    }
    block.warps[self->thread.warp].waiting &= ~self->mask;
    block.spins = 0;
    for (unsigned rest = self->mask; rest; rest &= rest - 1) {
        struct iq__fiber *f = &lanes[__builtin_ctz(rest)];
        f->result = folded;
        if (f->source >= 0) {
            if (!(self->mask >> f->source & 1))
                iq__find_and_stop(
                    IQ_CUDA_LAUNCH_FAILED,
                    "wrong mask: shuffle at %s:%d reads lane %d for lane %u, which mask %08x lacks",
                    iq__file_name(f->file), f->line, f->source, f->thread.lane, self->mask);
            f->result = lanes[f->source].value;
        }
        bit_set(block.ready, f->thread.linear);
    }
    if (iq__race_on && !self->fold && self->source < 0) iq__race_warp(self->thread.warp, self->mask);
}

uint64_t iq_shim_collective(unsigned mask, uint64_t value, int source, iq_shim_fold *fold, const char *file,
                            int line)
{
    struct iq__fiber *self = iq__running;
    unsigned warp = self->thread.warp;
    iq__counts.collectives++;
    if (!(mask >> self->thread.lane & 1))
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "wrong mask: warp operation at %s:%d, mask %08x lacks the caller, lane %u",
                          iq__file_name(file), line, mask, self->thread.lane);
    if (mask & ~block.warps[warp].alive)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "wrong mask: warp operation at %s:%d, mask %08x names lanes %08x, which have "
                          "returned or never were",
                          iq__file_name(file), line, mask, mask & ~block.warps[warp].alive);
    self->wait = IQ__IN_WARP;
    self->file = file;
    self->line = line;
    self->mask = mask;
    self->value = value;
    self->source = source;
    self->fold = fold;
    block.warps[warp].waiting |= 1u << self->thread.lane;
    if ((block.warps[warp].waiting & mask) == mask) warp_complete(self);
    give_way();
    self->wait = IQ__READY;
    return self->result;
}

void iq_shim_atomic(const void *address, size_t bytes)
{
    if (iq__race_on) iq__race_access(address, bytes, 1, 1, __builtin_return_address(0));
    if (++block.spins == SPINS)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "spins: %d atomics, and no thread of the block got any further", SPINS);
    if (iq__schedule.order != IQ__RANDOM) return;
    bit_set(block.ready, iq__running->thread.linear);
    give_way();
}

/* ---- life of a block ---- */

static void thread_main(void)
{
    iq__call->invoke(iq__call->kernel, iq__call->args);
    struct iq__fiber *self = iq__running;
    self->wait = IQ__EXITED;
    if (block.arrived)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "returned while %u threads of the block wait in __syncthreads at %s:%d",
                          block.arrived, iq__file_name(block.barrier_file), block.barrier_line);
    for (unsigned rest = block.warps[self->thread.warp].waiting; rest; rest &= rest - 1) {
        const struct iq__fiber *f = self - self->thread.lane + __builtin_ctz(rest);
        if (f->mask >> self->thread.lane & 1)
            iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                              "wrong mask: returned, while lane %u waits for it at %s:%d (mask %08x)",
                              f->thread.lane, iq__file_name(f->file), f->line, f->mask);
    }
    block.exited++;
    block.spins = 0;
    block.warps[self->thread.warp].alive &= ~(1u << self->thread.lane);
    give_way();
}

static void threads_make(dim3 shape)
{
    memset(block.ready, 0, sizeof block.ready);
    memset(block.at_barrier, 0, sizeof block.at_barrier);
    memset(block.warps, 0, sizeof block.warps);
    for (unsigned i = 0; i < block.threads; i++) {
        struct iq__fiber *f = &iq__fibers[i];
        f->thread.index = {i % shape.x, i / shape.x % shape.y, i / shape.x / shape.y};
        f->thread.linear = i;
        f->thread.warp = i / 32;
        f->thread.lane = i % 32;
        f->wait = IQ__READY;
        f->file = NULL;
        f->line = 0;
        f->mask = 0;
        iq__context_make(&f->context, iq__stack_of(i), IQ__STACK_BYTES, thread_main);
        bit_set(block.ready, i);
        block.warps[i / 32].alive |= 1u << i % 32;
    }
}

int iq__block_run(void)
{
    block.threads = iq_shim_block.block.x * iq_shim_block.block.y * iq_shim_block.block.z;
    block.arrived = block.exited = block.spins = 0;
    block.code = 0;
    block.one_warp = iq__schedule.order == IQ__RANDOM && iq__random(2);
    block.last = iq__schedule.order == IQ__REVERSE ? 0 : block.threads - 1;
    threads_make(iq_shim_block.block);
    if (iq__race_on) iq__race_block(block.threads);
    int first = ready_next();
    bit_clear(block.ready, (unsigned)first);
    block.last = (unsigned)first;
    iq__running = &iq__fibers[first];
    iq_shim_thread = &iq__running->thread;
    iq__context_switch(&block.grid, &iq__running->context);
    return block.code;
}
