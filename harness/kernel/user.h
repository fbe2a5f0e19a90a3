/* Users' kernels as variants: libraries that a plan names, or programs, whose kernels a fault can put in place of an op.
 *
 * An entry of a plan's "libraries" is
 *     "./mine.so"                                    a shared library (kernels/abi/kernel.h), relative to the plan
 *     {"file": "./mine.so", "timeout_s": 10, "memory_mb": 2048}
 *     {"process": ["python3", "mine.py"], ...}       a program (harness/kernel/wire.h), run in the plan's folder
 * Reading one starts it once to take its listing: its code never runs in the process that reads. Where its variants run they
 * start it again, beside that process. A library is known for as long as the process lives, and so are its variants. */
#ifndef IQ_HARNESS_KERNEL_USER_H
#define IQ_HARNESS_KERNEL_USER_H

#include "harness/kernel/process.h"
#include "kernels/base/json.h"

struct iq_user_library;

struct iq_user_use {
    struct iq_user_library *library;
    struct iq_kernel_limits limits;
};

/* dir: the plan's folder; NULL: here. Kinds and their references must be registered. IQ_FORMAT: the entry or the listing is
 * malformed; IQ_NOT_FOUND; IQ_ABI: the library was refused; IQ_MISMATCH: it is not the one that "sha256" names, or no longer the
 * one that was read; IQ_EXISTS: a variant's name is taken; IQ_LIMIT. Then no variant of it is registered. */
int iq_user_read(const cJSON *entry, const char *dir, const char *where, struct iq_user_use *out,
                 struct iq_err *err);
/* A shared library alone, with the limits that are usual. */
int iq_user_file(const char *path, struct iq_user_use *out, struct iq_err *err);
void iq_user_write(const struct iq_user_use *, struct iq_jw *);
/* What its loading did to the floating-point mode of its process ("flushes subnormals to zero"), or NULL. */
const char *iq_user_float_mode(const struct iq_user_use *);
const char *iq_user_name(const struct iq_user_use *);
const char *iq_user_sha256(const struct iq_user_use *); /* of its file; "": it has none */
/* The library's file of a variant that is one of its kernels; NULL: it is none, or a program's. */
struct iq_variant;
const char *iq_user_file_of(const struct iq_variant *);

/* Starts it for this process, which else happens at the first call: before there are threads. IQ_ABI. */
int iq_user_start(const struct iq_user_use *, struct iq_err *err);
void iq_user_stop(void); /* all of this process */
/* The sentence about the call that failed last ("" if none did): kernel, library, how, where. */
const char *iq_user_failure(void);
/* Puts that sentence in the place of an engine's, where it is a kernel's crash that ended a step. Returns `status`. */
int iq_user_explain(int status, struct iq_err *err);

#endif
