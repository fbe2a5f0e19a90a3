/* How an engine is run: one table names each setting for plans (JSON, "kv_blocks"), for the command line (--kv-blocks)
 * and for the manifest. */
#ifndef IQ_HARNESS_SETTINGS_H
#define IQ_HARNESS_SETTINGS_H

#include "engine/engine.h"
#include "harness/cli/cli.h"
#include "kernels/tensor_core/block.h"

struct iq_settings {
    uint32_t threads, tp, expert_parallel, batch, chunk, kv_blocks, prefix_min, logits, positions;
    /* Requests per 1,000 seconds of virtual time, as a seeded Poisson process; 0: all at once. */
    uint32_t arrivals;
    uint32_t defragment, long_factor, long_from;
    uint32_t seed;                                /* of the arrivals */
    uint32_t start_s;                             /* seconds of the day at clock 0 */
    uint32_t remote_kv;                           /* boolean */
    uint32_t prefix_cache, captured;              /* booleans */
    uint32_t device, isa, dtype, products, level; /* indices of words */
};

#define IQ_PRODUCTS_CHOICE(id, name, ...) "|" name

/* Rows for a command's table of flags: the settings of whatever computes with a model. */
#define IQ_COMPUTE_FLAGS                                                                                     \
    {.name = "threads",                                                                                      \
     .type = IQ_FLAG_INT,                                                                                    \
     .meta = "N",                                                                                            \
     .lo = 1,                                                                                                \
     .hi = 256,                                                                                              \
     .help = "worker threads (default: the cores that this process may use, at most 16)"},                   \
        {.name = "tp",                                                                                       \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 1,                                                                                            \
         .hi = 64,                                                                                           \
         .help = "tensor-parallel ranks, in this process (default 1)"},                                      \
        {.name = "expert-parallel",                                                                          \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 1,                                                                                            \
         .hi = 64,                                                                                           \
         .help = "ranks that share out a model's experts, in this process (default 1)"},                     \
        {.name = "chunk",                                                                                    \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 1048576,                                                                                      \
         .help = "most prompt tokens of a request in a step; 0: whole prompts (default 0)"},                 \
        {.name = "device",                                                                                   \
         .type = IQ_FLAG_CHOICE,                                                                             \
         .meta = "cpu|cuda|cuda-shim",                                                                       \
         .help = "where ops run: here, on the first GPU, or the GPU's kernels as fibers here, which is "     \
                 "slow; the bits are the same (default cpu)"},                                               \
        {.name = "isa",                                                                                      \
         .type = IQ_FLAG_CHOICE,                                                                             \
         .meta = "scalar|avx2|avx512",                                                                       \
         .help = "highest instruction set to use (default: the best here)"},                                 \
        {.name = "dtype",                                                                                    \
         .type = IQ_FLAG_CHOICE,                                                                             \
         .meta = "f32|bf16|f16",                                                                             \
         .help = "activations are rounded to this type (default f32)"},                                      \
        {.name = "products",                                                                                 \
         .type = IQ_FLAG_CHOICE,                                                                             \
         .meta = "ieee" IQ_TC_PRODUCTS_MAP(IQ_PRODUCTS_CHOICE),                                              \
         .help = "every matrix product as this GPU's tensor cores make it, in bf16 or, -f16, in half "       \
                 "precision: another arithmetic, so diff compares only tokens with runs of ieee (default "   \
                 "ieee)"},                                                                                   \
    {                                                                                                        \
        .name = "positions", .type = IQ_FLAG_INT, .meta = "N", .lo = 0, .hi = 16777216,                      \
        .help = "longest sequence; 0: the model's context, at most 8192 (default 0)"                         \
    }

/* Every setting but the level. */
#define IQ_SETTINGS_FLAGS                                                                                    \
    IQ_COMPUTE_FLAGS,                                                                                        \
        {.name = "batch",                                                                                    \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 1,                                                                                            \
         .hi = 4096,                                                                                         \
         .help = "most requests in a step (default 8)"},                                                     \
        {.name = "kv-blocks",                                                                                \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 16777216,                                                                                     \
         .help = "KV blocks of 16 positions; few of them force preemption; 0: enough (default 0)"},          \
        {.name = "prefix-min",                                                                               \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 1048576,                                                                                      \
         .help = "shortest prefix, in tokens, that is reused (default 16)"},                                 \
        {.name = "prefix-cache",                                                                             \
         .type = IQ_FLAG_SWITCH,                                                                             \
         .fallback = "on",                                                                                   \
         .help = "compute every prompt from its first token"},                                               \
        {.name = "remote-kv",                                                                                \
         .type = IQ_FLAG_SWITCH,                                                                             \
         .help = "prefixes come from a remote cache: they are copied into blocks of the request's own"},     \
        {.name = "defragment",                                                                               \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 1048576,                                                                                      \
         .help = "compact the KV blocks every N steps; 0: never (default 0)"},                               \
        {.name = "long-factor",                                                                              \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 64,                                                                                           \
         .help = "a second pool, set up for contexts N times as long: angles of positions are divided by N " \
                 "(longrope: its long factors); 0: there is one pool (default 0)"},                          \
        {.name = "long-from",                                                                                \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 16777216,                                                                                     \
         .help = "requests of more than N tokens, prompt and answer, go to that pool (default 0)"},          \
        {.name = "captured",                                                                                 \
         .type = IQ_FLAG_SWITCH,                                                                             \
         .help = "pad decode steps to captured batch sizes (1, 2, 4, 8, 16, ...)"},                          \
        {.name = "arrivals",                                                                                 \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 1000000000,                                                                                   \
         .help = "requests arrive at random, N in 1,000 s of virtual time; 0: all at once (default 0)"},     \
        {.name = "arrival-seed",                                                                             \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 4294967295.0,                                                                                 \
         .help = "seed of the arrivals (default 0)"},                                                        \
        {.name = "start-s",                                                                                  \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 86399,                                                                                        \
         .help = "time of day, in seconds, at which the virtual clock starts: plans may ask for the hour "   \
                 "(default 0)"},                                                                             \
    {                                                                                                        \
        .name = "logits", .type = IQ_FLAG_INT, .meta = "N", .lo = 0, .hi = 4194304,                          \
        .help = "print the N largest logits of each step (default 0)"                                        \
    }

void iq_settings_init(struct iq_settings *); /* the defaults */
/* Overrides what the object names; unknown fields are errors. */
int iq_settings_json(const cJSON *, const char *where, struct iq_settings *, struct iq_err *err);
/* Overrides what the command line gave; flags that the command does not have are left alone. */
void iq_settings_args(const struct iq_call *, struct iq_settings *);
void iq_settings_write(const struct iq_settings *, struct iq_jw *);
/* The engine's and the model's view. */
void iq_settings_engine(const struct iq_settings *, struct iq_engine_config *);
void iq_settings_model(const struct iq_settings *, struct iq_model_options *);
/* Arrival times by the seeded process, for requests that name none. */
void iq_settings_arrivals(const struct iq_settings *, struct iq_request *, uint32_t n);

#endif
