/* What the shim's files share. One launch runs at a time, under the table's lock (shim_runtime.cpp), so all of this is
 * plain global state; it lies in the program's image, which the race detector skips. */
#ifndef IQ_CUDA_SHIM_STATE_H
#define IQ_CUDA_SHIM_STATE_H

#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/context.h"
#include "kernels/cuda/shim/control.h"
#include "kernels/cuda/shim/shim.h"

enum { IQ__THREADS = 1024, IQ__WARPS = 32, IQ__STACK_BYTES = 64 << 10, IQ__PAGE = 4096 };

/* ---- schedules (schedule.cpp) ---- */

enum iq__order { IQ__FORWARD, IQ__REVERSE, IQ__WARP_FORWARD, IQ__WARP_REVERSE, IQ__RANDOM };
struct iq__schedule {
    enum iq__order order;
    char text[40];
    uint64_t random; /* state of the generator */
};
extern struct iq__schedule iq__schedule;
uint64_t iq__random(uint64_t below);

/* ---- the running block (block.cpp) ---- */

enum iq__wait { IQ__READY, IQ__AT_BARRIER, IQ__IN_WARP, IQ__EXITED };
struct iq__fiber {
    struct iq_shim_thread thread; /* first: iq_shim_thread points here */
    struct iq__context context;
    enum iq__wait wait;
    const char *file; /* where it waits, or waited last; NULL before */
    int line;
    unsigned mask; /* of its warp operation */
    int source;
    iq_shim_fold *fold;
    uint64_t value, result;
};
extern struct iq__fiber iq__fibers[IQ__THREADS];
extern struct iq__fiber *iq__running; /* NULL outside a kernel */
extern const struct iq_shim_call *iq__call;
extern struct iq_shim_counts iq__counts;

/* One of the grid, whose shape is in iq_shim_block: 0, or the code of the finding that stopped it. */
int iq__block_run(void);

/* Leaves the kernel for good: the block's fibers are dropped where they are. */
[[noreturn]] void iq__kernel_stop(int code);

/* ---- launches (grid.cpp) ---- */

/* 0, or the error that a GPU's driver would give at once. */
int iq__grid_check(const struct iq_shim_call *call);
/* Runs all blocks: 0 or a sticky code, after a finding of any kind. */
int iq__grid_run(const struct iq_shim_call *call);

/* ---- findings (findings.cpp) ---- */

/* Records that the running thread (or the launch) did something wrong. */
void iq__find(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* As iq__find, and stops the launch. */
[[noreturn]] void iq__find_and_stop(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void iq__findings_forget(void);
const char *iq__file_name(const char *path);

/* ---- memory (shared.cpp, heap.cpp, stacks.cpp) ---- */

int iq__shared_map(void);                   /* once: 0 or IQ_CUDA_NO_MEMORY */
void iq__shared_open(size_t dynamic_bytes); /* once a block */
void iq__shared_check(void);                /* writes beside arrays, at the block's end */
/* What an address in the shared window is: 0 no shared memory at all, 1 inside an array, -1 outside any (text says). */
int iq__shared_locate(uintptr_t address, size_t bytes, char *text, size_t text_bytes);
extern uint32_t iq__poison;
void iq__poison_fill(void *memory, size_t bytes);

int iq__heap_allocate(void **out, size_t bytes);
int iq__heap_free(void *memory);
int iq__heap_check(void); /* writes beside allocations: how many */
uint64_t iq__heap_used(void);
uint64_t iq__heap_limit(void); /* 0: none */
/* Whether all of it is inside one live allocation; else -1 and text says, or 0: not device memory at all. */
int iq__heap_locate(uintptr_t address, size_t bytes, char *text, size_t text_bytes);
/* The device that a live allocation at this address belongs to; -1: it's no device memory. */
int iq__heap_device(uintptr_t address);
extern thread_local int iq__device; /* the one in use */
void iq__heap_unlock(void);
void iq__heap_lock(void); /* where iq_shim_lock is on */

int iq__stacks_open(void); /* once: 0 or IQ_CUDA_NO_MEMORY */
void *iq__stack_of(unsigned thread);
/* The thread whose stack it is, -1 none; *guard: whether below its end. */
int iq__stack_locate(uintptr_t address, int *guard);

/* ---- faults in kernels (fault.cpp): between these two a fault of the processor is a finding ---- */

void iq__fault_open(void);
void iq__fault_close(void);

/* ---- race detector (race.cpp) ---- */

extern int iq__race_on; /* kernels are instrumented */
void iq__race_launch(void);
void iq__race_block(unsigned threads);
void iq__race_barrier(void);
void iq__race_warp(unsigned warp, unsigned mask);
void iq__race_access(const void *address, size_t bytes, int writes, int atomic, const void *pc);
void iq__race_misaligned(const void *address, size_t bytes, const void *pc);

#endif
