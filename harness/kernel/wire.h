/* Between a trial and the process of a user's kernel.
 *
 * Descriptors in that process: 3 is a SOCK_SEQPACKET socket; 4, 5 and 6 are files in memory to be mapped: 4 inputs of the call
 * (read only), 5 weights that stay the same between calls (read only), 6 outputs (read and write). Each message is one
 * packet, numbers little-endian. Lockstep:
 *   <- hello    JSON. {"abi": 1, "kinds": {KIND: {"in": [NAME...], "out": [...], "scalars": [...]}}}
 *   -> listing  JSON. {"abi": 1, "kernels": [{"kind", "name", "what", "flags", "params": [{"name", "help", "default", "min",
 *               "max"}]}], "float_mode": WORDS} or {"error": SENTENCE}
 *   <- call     struct iq_abi_call: kernel is an index of the listing. Areas may have grown: map them anew then
 *   -> answer   struct iq_abi_answer
 * and so on; the end of the socket is the end. An output's bytes lie in area 6 at operand.at, elements at its strides.
 * Before a process dies by a signal it may leave the address in struct iq_abi_last_words, at the start of area 6.
 * harness/kernel/inquest_kernel.py is the other side for Python, harness/kernel/host.c for shared libraries. */
#ifndef IQ_HARNESS_KERNEL_WIRE_H
#define IQ_HARNESS_KERNEL_WIRE_H

#include "kernels/abi/laid.h"

#define IQ_ABI_MAGIC 0x6b6e7169u /* "iqnk" */

enum { IQ_ABI_FD_SOCKET = 3, IQ_ABI_FD_AREAS = 4, IQ_ABI_FD_END = IQ_ABI_FD_AREAS + IQ_ABI_AREAS };
enum { IQ_ABI_HELLO = 1 << 16 }; /* longest hello and listing */

struct iq_abi_call {
    uint32_t magic, kernel, n_in, n_out, n_scalars, n_params;
    uint32_t layer, rank, batch, rows, act, reserved;
    uint64_t step, area_bytes[IQ_ABI_AREAS];
    char op[32];
    double scalar[IQ_ABI_SCALARS], param[INQUEST_PARAMS_MAX];
    struct iq_abi_operand in[IQ_ABI_INS], out[IQ_ABI_OUTS];
};
_Static_assert(sizeof(struct iq_abi_call) == 48 + 32 + 32 + 16 + 128 + 6 * 88, "wire format");

enum { IQ_ABI_ANSWERED, IQ_ABI_DECLINED, IQ_ABI_FAILED };

struct iq_abi_answer {
    uint32_t magic, status; /* IQ_ABI_ANSWERED ... */
    char why[504];          /* failed: how; NUL-terminated */
};
_Static_assert(sizeof(struct iq_abi_answer) == 512, "wire format");

struct iq_abi_last_words {
    uint64_t address, base[IQ_ABI_AREAS]; /* that it died at; where it has the areas mapped. 0: unknown */
};

#endif
