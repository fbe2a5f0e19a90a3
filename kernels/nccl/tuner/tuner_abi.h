/* NCCL's interface to a tuner, versions 3 to 5, as far as this tuner uses it.
 *
 * NCCL loads the library that NCCL_TUNER_PLUGIN names and takes the newest table that it knows by its symbol: 2.22.3 brought
 * version 3, 2.28.9 knows 2 to 5, 2.30.7 also 6 (which adds the size of chunks). For each communicator it calls init, before
 * each collective get_info, at the end finish. get_info may change the table of costs: the combination with the lowest cost
 * that is not negative is taken, the first of equal ones; a negative one is not to be had, be it for the hardware or for
 * NCCL_ALGO and NCCL_PROTO. Whatever a function answers but 0 fails the communicator in init, and in get_info means NCCL's
 * own choice.
 *
 * Source: github.com/NVIDIA/nccl, src/include/plugin/tuner/tuner_v3.h, tuner_v4.h, tuner_v5.h; src/plugin/tuner.cc. */
#ifndef IQ_NCCL_TUNER_ABI_H
#define IQ_NCCL_TUNER_ABI_H

#include <stddef.h>
#include <stdint.h>

enum { TUNER_LOG_WARN = 2, TUNER_LOG_INFO = 3 };
enum { TUNER_LOG_INIT = 1, TUNER_LOG_TUNING = 64 };

typedef void tuner_log_fn(int level, unsigned long subsystems, const char *file, int line, const char *fmt,
                          ...);
typedef int tuner_init_fn(size_t ranks, size_t nodes, tuner_log_fn *, void **context);
typedef int tuner_finish_fn(void *context);
/* costs: in truth float[algorithms][protocols]. */
typedef int tuner_info_v4_fn(void *context, int collective, size_t bytes, int pipelined, float **costs,
                             int algorithms, int protocols, int registered, int *channels);

struct tuner_v3 {
    const char *name;
    tuner_init_fn *init;
    int (*get_info)(void *context, int collective, size_t bytes, int pipelined, float **costs, int algorithms,
                    int protocols, int *channels);
    tuner_finish_fn *finish;
};

struct tuner_v4 {
    const char *name;
    tuner_init_fn *init;
    tuner_info_v4_fn *get_info;
    tuner_finish_fn *finish;
};

struct tuner_v5 {
    const char *name;
    int (*init)(void **context, uint64_t communicator, size_t ranks, size_t nodes, tuner_log_fn *,
                void *domains, void *constants);
    tuner_info_v4_fn *get_info;
    tuner_finish_fn *finish;
};

#endif
