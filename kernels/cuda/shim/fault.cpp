/* A fault of the processor while a kernel runs is a finding, and the launch's end; outside kernels it's none of ours. Where
 * the processor's registers are known the handler returns, into kernel_leave on the emptied stack of the thread; elsewhere
 * it leaves by switching to the grid's loop (for that SA_NODEFER keeps the signal open). */
#include "kernels/cuda/shim/state.h"

#include <signal.h>
#include <stdio.h>
#include <ucontext.h>

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE};
enum { CAUGHT = sizeof caught / sizeof caught[0] };
static struct sigaction before[CAUGHT];
static stack_t stack_before;
static char handler_stack[64 << 10] __attribute__((aligned(16)));

static void describe(uintptr_t address, char *text, size_t bytes)
{
    int guard = 0, owner = iq__stack_locate(address, &guard);
    if (owner >= 0)
        snprintf(text, bytes,
                 guard ? "stack overflow: more than %d KiB of locals (thread %d's stack)"
                       : "%d KiB stack of thread %d",
                 IQ__STACK_BYTES >> 10, owner);
    else if (!iq__shared_locate(address, 1, text, bytes) && !iq__heap_locate(address, 1, text, bytes))
        snprintf(text, bytes, "address %#zx, which is no device memory", (size_t)address);
}

static int code;                   /* of the launch that ends */
static thread_local int launching; /* this thread is the one that runs kernels */

#if defined(__x86_64__)
static void kernel_leave(void) { iq__kernel_stop(code); }

static void leave(void *context)
{
    ucontext_t *u = static_cast<ucontext_t *>(context);
    char *top = static_cast<char *>(iq__stack_of(iq__running->thread.linear)) + IQ__STACK_BYTES;
    u->uc_mcontext.gregs[REG_RIP] = reinterpret_cast<greg_t>(kernel_leave);
    u->uc_mcontext.gregs[REG_RSP] = reinterpret_cast<greg_t>(top - 8); /* as after a call */
}
#else
static void leave(void *) { iq__kernel_stop(code); }
#endif

static void handler(int signal, siginfo_t *info, void *context)
{
    if (!launching || !iq__running) { /* the shim itself, its caller, another thread: as if we weren't here */
        for (int i = 0; i < CAUGHT; i++)
            if (caught[i] == signal) sigaction(signal, &before[i], NULL);
        return;
    }
    if (signal == SIGFPE) {
        code = IQ_CUDA_LAUNCH_FAILED;
        iq__find("integer division by zero (a GPU gives garbage instead)");
    } else {
        char text[200];
        code = IQ_CUDA_ILLEGAL_ADDRESS;
        describe(reinterpret_cast<uintptr_t>(info->si_addr), text, sizeof text);
        iq__find("out of bounds: %s", text);
    }
    leave(context);
}

void iq__fault_open(void)
{
    launching = 1;
    stack_t stack = {};
    stack.ss_sp = handler_stack;
    stack.ss_size = sizeof handler_stack;
    sigaltstack(&stack, &stack_before);
    struct sigaction act = {};
    act.sa_sigaction = handler;
    act.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &act, &before[i]);
}

void iq__fault_close(void)
{
    for (int i = 0; i < CAUGHT; i++) sigaction(caught[i], &before[i], NULL);
    sigaltstack(&stack_before, NULL);
    launching = 0;
}
