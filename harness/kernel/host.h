/* Inside the process of a user's shared library: loads it, lists it, runs its kernels. */
#ifndef IQ_HARNESS_KERNEL_HOST_H
#define IQ_HARNESS_KERNEL_HOST_H

/* `file` has a slash. Descriptors are as wire.h says. Returns the process's exit status when the socket has ended. */
int iq__kernel_host(const char *file);

#endif
