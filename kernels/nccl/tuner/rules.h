/* Rules of the tuner: which algorithm and protocol a collective of so many bytes gets.
 *
 * Text, a rule a line (or between semicolons); # begins a comment:
 *
 *     COLLECTIVE BYTES ALGORITHM/PROTOCOL [channels=N] [ranks=A-B]
 *
 *     allreduce  0-64K     tree/ll
 *     allreduce  64K-4M    ring/ll128   channels=8
 *     allreduce  4M-       ring/simple  ranks=2-8
 *     any        all       ring/simple
 *
 *   COLLECTIVE  broadcast reduce allgather reducescatter allreduce, or any
 *   BYTES       A-B: A bytes and more, but fewer than B; A-: A and more; all. K, M and G are powers of 1024
 *   ALGORITHM   tree ring collnetdirect collnetchain nvls nvlstree pat
 *   PROTOCOL    ll ll128 simple
 *   channels    1 to 64; without it NCCL decides
 *   ranks       a number, or A-B with both ends
 *
 * The first rule that fits a call wins; a call that none fits is NCCL's. Words are in any case. Text that is not understood
 * makes no rules at all: half a table would be a table that nobody wrote. */
#ifndef IQ_NCCL_RULES_H
#define IQ_NCCL_RULES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { IQ_TUNER_RULES = 256, IQ_TUNER_BYTES = 64 << 10 }; /* most rules; longest text */
enum { IQ_TUNER_ANY = -1 };

struct iq_tuner_rule {
    int collective;       /* ncclFunc_t, or IQ_TUNER_ANY */
    uint64_t from, below; /* bytes */
    uint64_t ranks_lo, ranks_hi;
    int algorithm, protocol; /* NCCL's numbers */
    int channels;            /* 0: NCCL's choice */
};

struct iq_tuner_rules {
    size_t n;
    struct iq_tuner_rule rule[IQ_TUNER_RULES];
};

/* Reads `bytes` of text (it needs no end mark). False: why has one sentence with the line; there are no rules then. */
bool iq_tuner_parse(const char *text, size_t bytes, struct iq_tuner_rules *out, char *why, size_t why_size);

/* The rule for a call, or NULL. */
const struct iq_tuner_rule *iq_tuner_find(const struct iq_tuner_rules *, int collective, uint64_t bytes,
                                          uint64_t ranks);

/* "ring", "ll128" ...; "?" past the end. */
const char *iq_tuner_algorithm(int);
const char *iq_tuner_protocol(int);

#endif
