/* Shared memory of the running block: a fixed row of windows between pages that fault, an array in each.
 *
 * An array ends where its window ends, so that the first byte past it faults; under the orders that run backwards it begins
 * where the window begins, so that the last byte before it faults. On the other side lies a strip whose bytes are looked
 * at when the block ends. Every block finds its arrays poisoned anew. */
#include "kernels/cuda/shim/state.h"

#include <stdio.h>
#include <sys/mman.h>

enum {
    ARRAYS = 16,
    STATIC_BYTES = 48 << 10, /* all arrays of a kernel: what ptxas allows */
    DYNAMIC_BYTES = 228 << 10,
    WINDOW = STATIC_BYTES + IQ__PAGE,
    WINDOWS_BYTES = ARRAYS * WINDOW + DYNAMIC_BYTES + 2 * IQ__PAGE,
    STRIP = 256
};

static char *windows; /* each window is followed by its guard; the last is the dynamic one */
static struct array {
    const void *key;
    const char *name;
    char *memory;
    size_t bytes;
} arrays[ARRAYS + 1]; /* the last: dynamic */
struct span {
    char *memory;
    size_t bytes;
};
static unsigned arrays_n;
static int at_start;
static size_t static_bytes;

uint32_t iq__poison = IQ_SHIM_POISON_NAN;
static const unsigned char strip_byte = 0x5a;

void iq__poison_fill(void *memory, size_t bytes)
{
    char *to = static_cast<char *>(memory);
    size_t skew = reinterpret_cast<uintptr_t>(to) % 4;
    uint32_t word = skew ? iq__poison >> skew * 8 | iq__poison << (32 - skew * 8) : iq__poison;
    size_t done = bytes < sizeof word ? bytes : sizeof word;
    memcpy(to, &word, done);
    for (; done < bytes; done *= 2) memcpy(to + done, to, done < bytes - done ? done : bytes - done);
}

static char *window(unsigned i) { return windows + IQ__PAGE + (size_t)i * WINDOW; }

static size_t window_bytes(unsigned i) { return i < ARRAYS ? (size_t)STATIC_BYTES : (size_t)DYNAMIC_BYTES; }

/* The bytes beside an array, below and above it, as far as its window and STRIP reach. */
static void strips(unsigned i, struct span out[2])
{
    const struct array *a = &arrays[i];
    char *low = window(i), *high = low + window_bytes(i), *end = a->memory + a->bytes;
    size_t below = (size_t)(a->memory - low), above = (size_t)(high - end);
    if (below > STRIP) below = STRIP;
    if (above > STRIP) above = STRIP;
    out[0] = {a->memory - below, below};
    out[1] = {end, above};
}

static void place(unsigned i, const void *key, const char *name, size_t bytes, size_t align)
{
    struct array *a = &arrays[i];
    char *high = window(i) + window_bytes(i);
    a->key = key;
    a->name = name;
    a->bytes = bytes;
    a->memory = at_start ? window(i) : high - (bytes + align - 1) / align * align;
    iq__poison_fill(a->memory, bytes);
    struct span beside[2];
    strips(i, beside);
    for (const struct span &s : beside) memset(s.memory, strip_byte, s.bytes);
}

int iq__shared_map(void)
{
    if (windows) return IQ_CUDA_OK;
    void *all = mmap(NULL, WINDOWS_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (all == MAP_FAILED) return IQ_CUDA_NO_MEMORY;
    char *low = static_cast<char *>(all) + IQ__PAGE;
    for (unsigned i = 0; i <= ARRAYS; i++)
        if (mprotect(low + (size_t)i * WINDOW, window_bytes(i), PROT_READ | PROT_WRITE))
            return IQ_CUDA_NO_MEMORY;
    windows = static_cast<char *>(all);
    return IQ_CUDA_OK;
}

void iq__shared_open(size_t dynamic_bytes)
{
    enum iq__order order = iq__schedule.order;
    at_start = order == IQ__REVERSE || order == IQ__WARP_REVERSE || (order == IQ__RANDOM && iq__random(2));
    arrays_n = 0;
    static_bytes = 0;
    arrays[ARRAYS].memory = NULL;
    if (dynamic_bytes) place(ARRAYS, NULL, "dynamic shared memory", dynamic_bytes, 16);
}

void *iq_shim_shared(const void *key, const char *name, size_t bytes, size_t align)
{
    for (unsigned i = 0; i < arrays_n; i++)
        if (arrays[i].key == key) return arrays[i].memory;
    static_bytes += (bytes + align - 1) / align * align;
    if (arrays_n == ARRAYS)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "array %s is the block's %uth in shared memory, the shim keeps %u", name,
                          ARRAYS + 1u, (unsigned)ARRAYS);
    if (static_bytes > STATIC_BYTES)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED, "%zu bytes of shared memory with array %s, nvcc allows %u",
                          static_bytes, name, (unsigned)STATIC_BYTES);
    place(arrays_n, key, name, bytes, align);
    return arrays[arrays_n++].memory;
}

void *iq_shim_shared_dynamic(void)
{
    if (!arrays[ARRAYS].memory)
        iq__find_and_stop(IQ_CUDA_LAUNCH_FAILED,
                          "dynamic shared memory, but the launch asks for 0 bytes of it");
    return arrays[ARRAYS].memory;
}

static void strips_check(unsigned i)
{
    struct span beside[2];
    strips(i, beside);
    for (const struct span &s : beside) {
        for (size_t k = 0; k < s.bytes; k++) {
            if (static_cast<unsigned char>(s.memory[k]) == strip_byte) continue;
            uint3 b = iq_shim_block.index;
            iq__find("block (%u, %u, %u): wrote at byte %ld of %s, which has %zu bytes", b.x, b.y, b.z,
                     (long)(s.memory + k - arrays[i].memory), arrays[i].name, arrays[i].bytes);
            break;
        }
    }
}

void iq__shared_check(void)
{
    for (unsigned i = 0; i < arrays_n; i++) strips_check(i);
    if (arrays[ARRAYS].memory) strips_check(ARRAYS);
}

int iq__shared_locate(uintptr_t address, size_t bytes, char *text, size_t text_bytes)
{
    uintptr_t low = reinterpret_cast<uintptr_t>(windows);
    if (!windows || address < low || address >= low + WINDOWS_BYTES) return 0;
    const struct array *near = NULL;
    uintptr_t nearest = UINTPTR_MAX;
    for (unsigned i = 0; i <= ARRAYS; i++) {
        const struct array *a = &arrays[i];
        if (i < ARRAYS ? i >= arrays_n : !a->memory) continue;
        uintptr_t begin = reinterpret_cast<uintptr_t>(a->memory), end = begin + a->bytes;
        if (address >= begin && address + bytes <= end) return 1;
        uintptr_t away = address < begin ? begin - address : address - end;
        if (address >= begin && address < end) away = 0; /* the access sticks out */
        if (away >= nearest) continue;
        nearest = away;
        near = a;
    }
    if (near)
        snprintf(text, text_bytes, "byte %ld of %s, which has %zu bytes",
                 (long)(address - reinterpret_cast<uintptr_t>(near->memory)), near->name, near->bytes);
    else
        snprintf(text, text_bytes, "shared memory that the block doesn't have");
    return -1;
}
