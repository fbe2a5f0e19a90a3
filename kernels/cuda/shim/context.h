/* Switching stacks: the few instructions under a fiber. x86-64 has its own; elsewhere (or with IQ_SHIM_UCONTEXT) the C
 * library's, which is slower by two system calls a switch. */
#ifndef IQ_CUDA_SHIM_CONTEXT_H
#define IQ_CUDA_SHIM_CONTEXT_H

#include <stddef.h>

#if defined(__x86_64__) && !defined(IQ_SHIM_UCONTEXT)
struct iq__context {
    void *stack;
};
extern "C" void iq__context_switch(struct iq__context *from, struct iq__context *to);
#else
#include <ucontext.h>
struct iq__context {
    ucontext_t state;
};
void iq__context_switch(struct iq__context *from, struct iq__context *to);
#endif

/* `out` starts `entry`, which never returns, on the stack of `bytes` bytes that begins at `low`. */
void iq__context_make(struct iq__context *out, void *low, size_t bytes, void (*entry)(void));

#endif
