/* Status codes and error sentences.
 *
 * Every fallible function returns an enum iq_status (as int; IQ_OK is 0) and takes a `struct iq_err *` last.
 * On failure the err holds one sentence: what, where (file, offset or field), found, expected, what to do.
 * A result comes out of a pointer that is cleared first. err may be NULL where the caller wants only the code.
 */
#ifndef IQ_BASE_STATUS_H
#define IQ_BASE_STATUS_H

#include <stdarg.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

#define IQ_STATUS_MAP(X)                                                                                     \
    X(OK, "success")                                                                                         \
    X(USAGE, "wrong use")                                                                                    \
    X(IO, "input or output failed")                                                                          \
    X(FORMAT, "malformed input")                                                                             \
    X(UNSUPPORTED, "not supported")                                                                          \
    X(SHAPE, "shapes disagree")                                                                              \
    X(MEMORY, "out of memory")                                                                               \
    X(LIMIT, "a limit was exceeded")                                                                         \
    X(EXISTS, "already there")                                                                               \
    X(NOT_FOUND, "not found")                                                                                \
    X(MISMATCH, "contents disagree")                                                                         \
    X(FULL, "no space left")                                                                                 \
    X(ABI, "incompatible version")                                                                           \
    X(NO_REFERENCE, "a variant without a reference")                                                         \
    X(CRASHED, "the trial died")                                                                             \
    X(INTERNAL, "a bug in inquest")

enum iq_status {
#define X(name, text) IQ_##name,
    IQ_STATUS_MAP(X)
#undef X
};

struct iq_err {
    int status;
    char text[640];
};

/* The fixed name of a code ("malformed input"); never NULL. */
const char *iq_status_text(int status);

/* Records the sentence and returns `status`, so that `return iq_fail(err, IQ_FORMAT, ...)` is the idiom. */
int iq_fail(struct iq_err *err, int status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
int iq_vfail(struct iq_err *err, int status, const char *fmt, va_list ap);

/* Puts context in front of a sentence that is already there: "model.gguf: " + text. Returns err's status. */
int iq_err_prefix(struct iq_err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define IQ_TRY(call)                                                                                         \
    do {                                                                                                     \
        int iq_try_ = (call);                                                                                \
        if (iq_try_ != IQ_OK) return iq_try_;                                                                \
    } while (0)

#ifdef __cplusplus
}
#endif

#endif
