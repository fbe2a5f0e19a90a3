/* The race detector. Kernels compiled with -fsanitize=thread call what is here before every load and store; nothing of
 * the sanitizer's own library is linked.
 *
 * Two accesses to a byte conflict when one writes, not both are atomic, and nothing orders them: they come from two blocks
 * of one launch, or from two threads of a block without a __syncthreads, or a __syncwarp of both, in between.
 * Each thread counts its epochs, which end where it syncs. An access is remembered by one number, its stamp:
 * block's first stamp + epoch * threads + thread. What a thread knows to be before its next step is, of every thread, the
 * epochs up to the last barrier, and of its warp's lanes those up to the last common __syncwarp (also by way of others).
 * Of the readers of a byte two are remembered, so a third reader's race with a later write can be missed.
 *
 * Besides: each address must lie in the block's shared arrays, live device memory, the program's own constants or the
 * thread's locals, and be aligned; and shared memory must not be read before it is written. */
#include "kernels/cuda/shim/state.h"

#include <stdio.h>
#include <unordered_map>
#include <unordered_set>
#include <vector>

int iq__race_on;

extern "C" char __executable_start, end; /* the program's image, by the linker */

static const uint32_t ATOMIC = 1u << 31; /* flag of a stamp */

struct cell { /* of one byte: stamps, 0 none */
    uint32_t write, reads[2];
};
static std::unordered_map<uintptr_t, cell *> shadow; /* by page */
static struct {
    uintptr_t page;
    cell *cells;
} recent[64];
static std::unordered_set<const void *> told; /* one finding a place in the code */

static uint32_t threads, launch_first = 1, block_first = 1, top = 1; /* top: above all stamps so far */
static std::vector<uint32_t> block_firsts;                           /* of this launch */
static uint32_t epoch[IQ__THREADS], at_barrier[IQ__THREADS], lanes_known[IQ__THREADS][32];

/* For `addr2line -e PROGRAM`. */
static size_t code_offset(const void *pc)
{
    return (size_t)(static_cast<const char *>(pc) - &__executable_start);
}

static cell *page_cells(uintptr_t page)
{
    auto &slot = recent[page % 64];
    if (slot.page != page || !slot.cells) {
        cell *&cells = shadow[page];
        if (!cells) cells = new cell[IQ__PAGE]();
        slot = {page, cells};
    }
    return slot.cells;
}

void iq__race_launch(void)
{
    if (top > ATOMIC / 2) { /* stamps run out: forget all */
        for (auto &item : shadow) delete[] item.second;
        shadow.clear();
        memset(recent, 0, sizeof recent);
        top = 1;
    }
    launch_first = top;
    block_firsts.clear();
    told.clear();
}

void iq__race_block(unsigned n)
{
    threads = n;
    block_first = top;
    block_firsts.push_back(top);
    top += n;
    memset(epoch, 0, sizeof epoch);
    memset(at_barrier, 0, sizeof at_barrier);
    memset(lanes_known, 0, sizeof lanes_known);
}

static void epoch_end(unsigned t)
{
    epoch[t]++;
    uint64_t above = block_first + (epoch[t] + 1ull) * threads;
    if (above >= ATOMIC)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED, "the race detector has no stamps left: use a smaller grid");
    if (above > top) top = (uint32_t)above;
}

void iq__race_barrier(void)
{
    for (unsigned t = 0; t < threads; t++) {
        at_barrier[t] = epoch[t] + 1;
        epoch_end(t);
    }
}

void iq__race_warp(unsigned warp, unsigned mask)
{
    uint32_t known[32] = {0};
    unsigned base = warp * 32;
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        for (unsigned q = 0; q < 32; q++)
            if (lanes_known[base + lane][q] > known[q]) known[q] = lanes_known[base + lane][q];
    }
    for (unsigned rest = mask; rest; rest &= rest - 1) {
        unsigned lane = (unsigned)__builtin_ctz(rest);
        known[lane] = epoch[base + lane] + 1;
        epoch_end(base + lane);
    }
    for (unsigned rest = mask; rest; rest &= rest - 1)
        memcpy(lanes_known[base + __builtin_ctz(rest)], known, sizeof known);
}

/* Whether the access with this stamp may run at the same time as one of the running thread. */
static bool unordered(uint32_t stamp, bool atomic)
{
    uint32_t s = stamp & ~ATOMIC;
    if (s < launch_first || (atomic && stamp & ATOMIC)) return false;
    if (s < block_first) return true;
    uint32_t t = (s - block_first) % threads, e = (s - block_first) / threads,
             self = iq__running->thread.linear;
    if (t == self || e < at_barrier[t]) return false;
    return t / 32 != self / 32 || e >= lanes_known[self][t % 32];
}

static void stamp_say(uint32_t stamp, char *text, size_t bytes)
{
    uint32_t s = stamp & ~ATOMIC;
    size_t b = block_firsts.size() - 1;
    while (b && block_firsts[b] > s) b--;
    snprintf(text, bytes, "thread %u of %s", (s - block_firsts[b]) % threads,
             s >= block_first ? "this block" : "another block");
}

static void race(uint32_t stamp, const char *kind, const void *address, const void *pc)
{
    if (!told.insert(pc).second) return;
    char who[64], where[200];
    stamp_say(stamp, who, sizeof who);
    uintptr_t a = reinterpret_cast<uintptr_t>(address);
    int shared = iq__shared_locate(a, 1, where, sizeof where);
    iq__find("race, %s after %s, in %s memory, code at %#zx", kind, who, shared ? "shared" : "device",
             code_offset(pc));
}

enum kind { UNTRACKED, SHARED, DEVICE };

/* Ends the launch where the address is nobody's. */
static enum kind address_check(uintptr_t address, size_t bytes, const void *pc)
{
    int guard = 0, owner = iq__stack_locate(address, &guard);
    if (owner == (int)iq__running->thread.linear && !guard) return UNTRACKED;
    const char *p = reinterpret_cast<const char *>(address);
    if (p >= &__executable_start && p < &end) return UNTRACKED;
    char text[200];
    int where = owner >= 0 ? 0 : iq__shared_locate(address, bytes, text, sizeof text);
    if (where > 0) return SHARED;
    if (!where && owner < 0 && (where = iq__heap_locate(address, bytes, text, sizeof text)) > 0)
        return DEVICE;
    if (owner >= 0)
        snprintf(text, sizeof text, "thread %d's local memory", owner);
    else if (!where)
        snprintf(text, sizeof text, "address %#zx, which is no device memory", (size_t)address);
    iq__find_and_stop(IQ_CUDA_ILLEGAL_ADDRESS, "out of bounds: %s, code at %#zx", text, code_offset(pc));
}

void iq__race_access(const void *address, size_t bytes, int writes, int atomic, const void *pc)
{
    if (!iq__running) return;
    uintptr_t a = reinterpret_cast<uintptr_t>(address);
    enum kind kind = address_check(a, bytes, pc);
    if (kind == UNTRACKED) return;
    uint32_t self = iq__running->thread.linear;
    uint32_t stamp = (block_first + epoch[self] * threads + self) | (atomic ? ATOMIC : 0);
    for (size_t i = 0; i < bytes; i++) {
        cell *c = &page_cells((a + i) / IQ__PAGE)[(a + i) % IQ__PAGE];
        if (kind == SHARED && (c->write & ~ATOMIC) < block_first) {
            *c = cell{0, {0, 0}}; /* what was there belongs to another block */
            if ((!writes || atomic) && told.insert(pc).second)
                iq__find("read shared memory that no thread of the block has written, code at %#zx",
                         code_offset(pc));
        }
        if (unordered(c->write, atomic)) race(c->write, writes ? "write" : "read", address, pc);
        if (writes) {
            for (uint32_t r : c->reads)
                if (unordered(r, atomic)) race(r, "write (it read)", address, pc);
            c->write = stamp;
        } else {
            c->reads[c->reads[0] && unordered(c->reads[0], false)] = stamp;
        }
    }
}

void iq__race_misaligned(const void *address, size_t bytes, const void *pc)
{
    if (iq__running && told.insert(pc).second)
        iq__find("misaligned access of %zu bytes at %p, code at %#zx", bytes, address, code_offset(pc));
}
