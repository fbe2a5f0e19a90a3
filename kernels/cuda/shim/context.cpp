#include "kernels/cuda/shim/context.h"

#if defined(__x86_64__) && !defined(IQ_SHIM_UCONTEXT)

/* The callee-saved registers and the stack pointer are all that a call may count on. */
asm(R"(
    .text
    .p2align 4
    .globl iq__context_switch
    .type iq__context_switch, @function
iq__context_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq (%rsi), %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size iq__context_switch, .-iq__context_switch
)");

void iq__context_make(struct iq__context *out, void *low, size_t bytes, void (*entry)(void))
{
    /* Seen from `entry` the stack is as after a call: 8 bytes below a multiple of 16, with a return address of 0. */
    void **top = reinterpret_cast<void **>(static_cast<char *>(low) + bytes) - 2;
    top[0] = reinterpret_cast<void *>(entry);
    top[1] = nullptr;
    for (int i = 1; i <= 6; i++) top[-i] = nullptr;
    out->stack = top - 6;
}

#else

void iq__context_make(struct iq__context *out, void *low, size_t bytes, void (*entry)(void))
{
    getcontext(&out->state);
    out->state.uc_stack.ss_sp = low;
    out->state.uc_stack.ss_size = bytes;
    out->state.uc_link = nullptr;
    makecontext(&out->state, entry, 0);
}

void iq__context_switch(struct iq__context *from, struct iq__context *to)
{
    swapcontext(&from->state, &to->state);
}

#endif
