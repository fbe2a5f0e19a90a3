/* What run and record share: flags of a run, and prompts from the command line. */
#ifndef IQ_HARNESS_RUN_COMMON_H
#define IQ_HARNESS_RUN_COMMON_H

#include "golden/store.h"
#include "harness/kernel/user.h"
#include "harness/plan/prompts.h"
#include "harness/plan/settings.h"

#define IQ_MODEL_FLAG                                                                                        \
    {                                                                                                        \
        .name = "model", .type = IQ_FLAG_STRING, .meta = "FILE",                                             \
        .help = "a .gguf file, a Hugging Face folder, or a name that `model fetch` knows",                   \
        .fallback = "canary"                                                                                 \
    }

#define IQ_DRAFT_FLAG                                                                                        \
    {                                                                                                        \
        .name = "draft", .type = IQ_FLAG_STRING, .meta = "FILE",                                             \
        .help = "with --speculate: a smaller model of the same vocabulary that guesses the tokens"           \
    }

#define IQ_ADAPTER_FLAG                                                                                      \
    {                                                                                                        \
        .name = "adapter", .type = IQ_FLAG_LIST, .meta = "NAME=DIR",                                         \
        .help = "a low-rank adapter as PEFT writes it, which prompts ask for by this name"                   \
    }

#define IQ_KERNELS_FLAG                                                                                      \
    {                                                                                                        \
        .name = "kernels", .type = IQ_FLAG_LIST, .meta = "FILE",                                             \
        .help = "a shared library of your own kernels (inquest/kernel.h), as more variants; may be repeated" \
    }

#define IQ_PROMPT_FLAGS                                                                                      \
    {.name = "prompt",                                                                                       \
     .type = IQ_FLAG_STRING,                                                                                 \
     .meta = "TEXT",                                                                                         \
     .help = "one question, put through the model's chat template"},                                         \
        {.name = "prompts",                                                                                  \
         .type = IQ_FLAG_STRING,                                                                             \
         .meta = "FILE",                                                                                     \
         .help = "prompts as JSON lines: id, messages (or prompt, or ids), and options"},                    \
        {.name = "raw", .type = IQ_FLAG_SWITCH, .help = "--prompt is raw text: no chat template"},           \
        {.name = "max-tokens",                                                                               \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 1048576,                                                                                      \
         .fallback = "64",                                                                                   \
         .help = "most tokens to generate, where a prompt does not say"},                                    \
        {.name = "temperature",                                                                              \
         .type = IQ_FLAG_FLOAT,                                                                              \
         .meta = "X",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 100,                                                                                          \
         .fallback = "0",                                                                                    \
         .help = "0 is greedy"},                                                                             \
        {.name = "top-k",                                                                                    \
         .type = IQ_FLAG_INT,                                                                                \
         .meta = "N",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 4194304,                                                                                      \
         .fallback = "0",                                                                                    \
         .help = "sample among the N best; 0: all"},                                                         \
        {.name = "top-p",                                                                                    \
         .type = IQ_FLAG_FLOAT,                                                                              \
         .meta = "X",                                                                                        \
         .lo = 1e-6,                                                                                         \
         .hi = 1,                                                                                            \
         .fallback = "1",                                                                                    \
         .help = "sample among the best that make up X"},                                                    \
        {.name = "min-p",                                                                                    \
         .type = IQ_FLAG_FLOAT,                                                                              \
         .meta = "X",                                                                                        \
         .lo = 0,                                                                                            \
         .hi = 1,                                                                                            \
         .fallback = "0",                                                                                    \
         .help = "drop what is less likely than X times the best"},                                          \
    {                                                                                                        \
        .name = "seed", .type = IQ_FLAG_INT, .meta = "N", .lo = 0, .hi = 9007199254740992.0,                 \
        .fallback = "0", .help = "of each request's draws"                                                   \
    }

/* The prompts that the flags name; IQ_USAGE when there are none, or both kinds. */
int iq_run_prompts(const struct iq_call *, struct iq_prompts *, struct iq_err *err);
/* What --adapter names, into the prompts. */
int iq_run_adapters(const struct iq_call *, struct iq_prompts *, struct iq_err *err);
/* The libraries that --kernels names; their variants are registered. */
enum { IQ_USER_FILES = 16 };
int iq_run_kernels(const struct iq_call *, struct iq_user_use out[IQ_USER_FILES], size_t *n,
                   struct iq_err *err);
/* --trajectory FILE, or NULL; the caller frees it. */
int iq_run_trajectory(const struct iq_call *, cJSON **out, struct iq_err *err);

/* IQ_USAGE, with a sentence that says what to do, for a run of the store that is still being recorded; `role` is what it
 * was to be ("golden", "run"). */
int iq_run_finished(struct iq_store *, const char *run, const char *role, struct iq_err *err);

#endif
