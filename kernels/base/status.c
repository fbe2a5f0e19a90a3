#include "kernels/base/status.h"

#include <stdio.h>
#include <string.h>

const char *iq_status_text(int status)
{
    static const char *const text[] = {
#define X(name, text) text,
        IQ_STATUS_MAP(X)
#undef X
    };
    if (status < 0 || (size_t)status >= sizeof text / sizeof *text) return "unknown status";
    return text[status];
}

int iq_vfail(struct iq_err *err, int status, const char *fmt, va_list ap)
{
    if (!err) return status;
    err->status = status;
    vsnprintf(err->text, sizeof err->text, fmt, ap);
    return status;
}

/* In parentheses: clang-tidy sees a macro of this name (tests/house/tidy_hints.h). */
int(iq_fail)(struct iq_err *err, int status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    iq_vfail(err, status, fmt, ap);
    va_end(ap);
    return status;
}

int iq_err_prefix(struct iq_err *err, const char *fmt, ...)
{
    if (!err) return IQ_INTERNAL;
    char old[sizeof err->text];
    memcpy(old, err->text, sizeof old);
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(err->text, sizeof err->text, fmt, ap);
    va_end(ap);
    if (n >= 0 && (size_t)n < sizeof err->text)
        snprintf(err->text + n, sizeof err->text - (size_t)n, "%s", old);
    return err->status;
}
