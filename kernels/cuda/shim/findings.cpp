#include "kernels/cuda/shim/state.h"

#include <stdarg.h>
#include <stdio.h>

static char report[16384];
static size_t report_used;
static uint64_t findings;

const char *iq__file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? slash + 1 : path;
}

static void append(const char *fmt, va_list ap)
{
    size_t room = sizeof report - report_used;
    int n = vsnprintf(report + report_used, room, fmt, ap);
    if (n > 0) report_used += (size_t)n < room ? (size_t)n : room - 1;
}

static void __attribute__((format(printf, 1, 2))) say(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    append(fmt, ap);
    va_end(ap);
}

static void find(const char *fmt, va_list ap)
{
    findings++;
    if (iq__call) say("%s: ", iq__call->name);
    if (iq__running) {
        const uint3 b = iq_shim_block.index, t = iq__running->thread.index;
        say("block (%u, %u, %u) thread (%u, %u, %u): ", b.x, b.y, b.z, t.x, t.y, t.z);
    }
    append(fmt, ap);
    if (iq__running && iq__running->file)
        say("; last met others at %s:%d", iq__file_name(iq__running->file), iq__running->line);
    say(" [schedule %s, poison %08x]\n", iq__schedule.text, iq__poison);
}

void iq__find(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    find(fmt, ap);
    va_end(ap);
}

void iq__find_and_stop(int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    find(fmt, ap);
    va_end(ap);
    iq__kernel_stop(code);
}

uint64_t iq_shim_findings(void) { return findings; }
const char *iq_shim_report(void) { return report; }

void iq__findings_forget(void)
{
    findings = 0;
    report_used = 0;
    report[0] = 0;
}
