/* What tests and drills say to the shim, for C: schedules, poison, findings, failures.
 *
 * Schedules decide who runs next in a block, and the order of blocks:
 *   forward        threads in turn, ascending; blocks ascending
 *   reverse        threads in turn, descending; blocks descending
 *   warp-forward   always the lowest thread that can run, so that a warp goes as far as it can
 *   warp-reverse   always the highest
 *   random:SEED    any; blocks shuffled; streams interleave; threads also change at atomics
 * A finding is a sentence that names kernel, block, thread, schedule and, where there is one, the source line. A launch
 * with a finding fails with a sticky error, as a crash on a GPU does; iq_shim_reset forgets it, as a new process would.
 *
 * Environment, read once before the first call, with the same meaning: IQ_SHIM_SCHEDULE, IQ_SHIM_POISON (hex word),
 * IQ_SHIM_MEMORY (bytes), IQ_SHIM_LOCK (1), IQ_SHIM_DEVICES (1 to 64), IQ_SHIM_FAIL (CALL:NTH:CODE, separated by commas).
 *
 * What it can't show: what a missing memory fence does, blocks that wait for each other (a finding here), cooperative grids, asynchronous copies
 * and tensor memory, limits of registers, what ptxas gets wrong, the order that atomics hand data from block to block
 * (the race detector takes such a hand-over for a race). compute-sanitizer on a GPU is the complement.
 */
#ifndef IQ_CUDA_SHIM_CONTROL_H
#define IQ_CUDA_SHIM_CONTROL_H

#include <stddef.h>
#include <stdint.h>

#include "kernels/base/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* IQ_USAGE lists the choices. */
int iq_shim_schedule(const char *text, struct iq_err *err);

/* What fresh shared and device memory holds, word by word: as float32, bf16, fp16 and double a NaN (the default), a large
 * number, a large negative one. A kernel whose results differ between poisons has read what nobody wrote; it takes all
 * three, as a maximum hides NaNs and small numbers, a minimum large ones. */
#define IQ_SHIM_POISON_NAN  0xffc5ffc5u
#define IQ_SHIM_POISON_HIGH 0x7b5a7b5au
#define IQ_SHIM_POISON_LOW  0xfb5afb5au
void iq_shim_poison(uint32_t word);

/* Device memory from here on; more is IQ_CUDA_NO_MEMORY. 0: as much as the host has. */
void iq_shim_memory(uint64_t bytes);

/* How many devices there are from here on; 1 if nothing is said. They share the memory's limit. A kernel that is launched
 * on another device's stream is refused, and one that is handed another device's memory is a finding. */
void iq_shim_devices(int n);

/* Device memory cannot be touched by the host but through the table: a stray access dies at once. Costs two system calls
 * an allocation and synchronization. */
void iq_shim_lock(int on);

/* The nth call (1 is the next) of a function of the table (iq_cuda_api's field name) returns `code` and does nothing.
 * IQ_USAGE: no such function. Up to 16 plans; iq_shim_reset forgets them. */
int iq_shim_fail(const char *call, uint64_t nth, int code, struct iq_err *err);

/* Findings since the last reset: how many, and a line for each of the first. Never NULL. */
uint64_t iq_shim_findings(void);
const char *iq_shim_report(void);

/* As a new process: no findings, no sticky error, no plans to fail. Streams and memory stay. */
void iq_shim_reset(void);

/* Since the program started: for measurements. */
struct iq_shim_counts {
    uint64_t launches, blocks, barriers, collectives; /* the last two: arrivals of threads */
};
struct iq_shim_counts iq_shim_counts(void);

/* Whether kernels of this program were compiled for the race detector. */
int iq_shim_has_race_detector(void);

#ifdef __cplusplus
}
#endif

#endif
