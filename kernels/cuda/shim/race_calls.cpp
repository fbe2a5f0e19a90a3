/* What -fsanitize=thread's instrumentation calls: the doors to race.cpp. A file of its own, so that a program whose kernels
 * aren't instrumented (or that is linked with the sanitizer's library) doesn't take it from the archive. */
#include "kernels/cuda/shim/state.h"

#define PC __builtin_return_address(0)

static void plain(const void *address, size_t bytes, int writes, const void *pc)
{
    if (reinterpret_cast<uintptr_t>(address) % bytes) iq__race_misaligned(address, bytes, pc);
    iq__race_access(address, bytes, writes, 0, pc);
}

extern "C" {
#define SIZED(n)                                                                                             \
    void __tsan_read##n(void *p) { plain(p, n, 0, PC); }                                                     \
    void __tsan_write##n(void *p) { plain(p, n, 1, PC); }                                                    \
    void __tsan_unaligned_read##n(void *p) { iq__race_access(p, n, 0, 0, PC); }                              \
    void __tsan_unaligned_write##n(void *p) { iq__race_access(p, n, 1, 0, PC); }                             \
    void __tsan_volatile_read##n(void *p) { plain(p, n, 0, PC); }                                            \
    void __tsan_volatile_write##n(void *p) { plain(p, n, 1, PC); }
SIZED(1)
SIZED(2)
SIZED(4)
SIZED(8)
SIZED(16)
void __tsan_read_range(void *p, long n) { iq__race_access(p, (size_t)n, 0, 0, PC); }
void __tsan_write_range(void *p, long n) { iq__race_access(p, (size_t)n, 1, 0, PC); }
void __tsan_func_entry(void *) {}
void __tsan_func_exit(void *) {}
void __tsan_vptr_update(void *, void *) {}
void __tsan_vptr_read(void **) {}
void __tsan_init(void) { iq__race_on = 1; }
}
