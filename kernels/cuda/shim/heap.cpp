/* Device memory: each allocation a mapping of its own between pages that fault, poisoned, with its end at the upper guard
 * (or, under the orders that run backwards, its beginning at the lower one). What is left of its pages holds a pattern that
 * is looked at when streams are waited for and when it's freed. Freed mappings stay for a while, untouchable. */
#include "kernels/cuda/shim/state.h"

#include <deque>
#include <map>
#include <stdio.h>
#include <sys/mman.h>

enum { ALIGN = 16, KEPT = 64, STRIP = 256 };
static const unsigned char strip_byte = 0x5a;

struct allocation {
    char *map; /* with both guards */
    size_t map_bytes;
    char *memory;
    size_t bytes;
    int device;
    bool live;
};
static std::map<uintptr_t, allocation> allocations; /* by address of the mapping */
static std::deque<uintptr_t> freed;
static uint64_t used, limit;
static bool lock_on;
static int unlocked; /* depth */

void iq_shim_memory(uint64_t bytes) { limit = bytes; }

uint64_t iq__heap_used(void) { return used; }
uint64_t iq__heap_limit(void) { return limit; }

static allocation *last_found; /* the race detector asks for the same again and again */

static allocation *find(uintptr_t address)
{
    const allocation *last = last_found;
    if (last && address - reinterpret_cast<uintptr_t>(last->map) < last->map_bytes) return last_found;
    auto above = allocations.upper_bound(address);
    if (above == allocations.begin()) return NULL;
    allocation *a = &std::prev(above)->second;
    return address < reinterpret_cast<uintptr_t>(a->map) + a->map_bytes ? last_found = a : NULL;
}

static size_t pages(size_t bytes) { return (bytes + IQ__PAGE - 1) / IQ__PAGE * IQ__PAGE; }

static void protect(const allocation &a, int how)
{
    (void)mprotect(a.map + IQ__PAGE, a.map_bytes - 2 * (size_t)IQ__PAGE, how);
}

/* The bytes of the mapping beside the allocation. */
static void strips(const allocation &a, char *memory[2], size_t bytes[2])
{
    char *low = a.map + IQ__PAGE, *high = a.map + a.map_bytes - IQ__PAGE, *end = a.memory + a.bytes;
    size_t below = (size_t)(a.memory - low), above = (size_t)(high - end);
    bytes[0] = below < STRIP ? below : (size_t)STRIP;
    bytes[1] = above < STRIP ? above : (size_t)STRIP;
    memory[0] = a.memory - bytes[0];
    memory[1] = end;
}

int iq__heap_allocate(void **out, size_t bytes)
{
    *out = NULL;
    if (!bytes) return IQ_CUDA_INVALID_VALUE;
    if (bytes > SIZE_MAX / 2 || (limit && (bytes > limit || used > limit - bytes))) return IQ_CUDA_NO_MEMORY;
    size_t map_bytes = pages(bytes) + 2 * (size_t)IQ__PAGE;
    void *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return IQ_CUDA_NO_MEMORY;
    char *low = static_cast<char *>(map), *high = low + map_bytes - IQ__PAGE;
    if (mprotect(low, IQ__PAGE, PROT_NONE) || mprotect(high, IQ__PAGE, PROT_NONE)) {
        munmap(map, map_bytes);
        return IQ_CUDA_NO_MEMORY;
    }
    bool backwards = iq__schedule.order == IQ__REVERSE || iq__schedule.order == IQ__WARP_REVERSE;
    char *memory = backwards ? low + IQ__PAGE : high - (bytes + ALIGN - 1) / ALIGN * ALIGN;
    allocation a = {low, map_bytes, memory, bytes, iq__device, true};
    iq__poison_fill(memory, bytes);
    char *strip[2];
    size_t n[2];
    strips(a, strip, n);
    for (int i = 0; i < 2; i++) memset(strip[i], strip_byte, n[i]);
    if (lock_on && !unlocked) protect(a, PROT_NONE);
    allocations[reinterpret_cast<uintptr_t>(map)] = a;
    used += bytes;
    *out = memory;
    return IQ_CUDA_OK;
}

static int check(const allocation &a)
{
    char *strip[2];
    size_t n[2];
    int bad = 0;
    strips(a, strip, n);
    for (int i = 0; i < 2; i++) {
        for (size_t k = 0; k < n[i]; k++) {
            if (static_cast<unsigned char>(strip[i][k]) == strip_byte) continue;
            iq__find("device memory: something wrote at byte %ld of an allocation of %zu bytes",
                     (long)(strip[i] + k - a.memory), a.bytes);
            memset(strip[i], strip_byte, n[i]);
            bad++;
            break;
        }
    }
    return bad;
}

int iq__heap_check(void)
{
    int bad = 0;
    for (const auto &item : allocations)
        if (item.second.live) bad += check(item.second);
    return bad;
}

int iq__heap_free(void *memory)
{
    allocation *a = find(reinterpret_cast<uintptr_t>(memory));
    if (!a || !a->live || a->memory != memory) return IQ_CUDA_INVALID_VALUE;
    if (lock_on && !unlocked) protect(*a, PROT_READ | PROT_WRITE);
    int bad = check(*a);
    a->live = false;
    used -= a->bytes;
    protect(*a, PROT_NONE);
    (void)madvise(a->map + IQ__PAGE, a->map_bytes - 2 * (size_t)IQ__PAGE, MADV_DONTNEED);
    freed.push_back(reinterpret_cast<uintptr_t>(a->map));
    if (freed.size() > KEPT) {
        last_found = NULL;
        auto oldest = allocations.find(freed.front());
        munmap(oldest->second.map, oldest->second.map_bytes);
        allocations.erase(oldest);
        freed.pop_front();
    }
    return bad ? IQ_CUDA_LAUNCH_FAILED : IQ_CUDA_OK;
}

int iq__heap_locate(uintptr_t address, size_t bytes, char *text, size_t text_bytes)
{
    const allocation *a = find(address);
    if (!a) return 0;
    long at = (long)(address - reinterpret_cast<uintptr_t>(a->memory));
    if (a->live && at >= 0 && (size_t)at <= a->bytes && bytes <= a->bytes - (size_t)at) return 1;
    snprintf(text, text_bytes, "byte %ld of %s of %zu bytes of device memory", at,
             a->live ? "an allocation" : "a freed allocation", a->bytes);
    return -1;
}

int iq__heap_device(uintptr_t address)
{
    const allocation *a = find(address);
    return a && a->live ? a->device : -1;
}

/* ---- the lock: device memory is out of the host's reach ---- */

static void protect_all(int how)
{
    for (const auto &item : allocations)
        if (item.second.live) protect(item.second, how);
}

void iq_shim_lock(int on)
{
    if (lock_on == (on != 0)) return;
    protect_all(on ? PROT_NONE : PROT_READ | PROT_WRITE);
    lock_on = on != 0;
    unlocked = 0;
}

void iq__heap_unlock(void)
{
    if (lock_on && !unlocked++) protect_all(PROT_READ | PROT_WRITE);
}

void iq__heap_lock(void)
{
    if (lock_on && !--unlocked) protect_all(PROT_NONE);
}
