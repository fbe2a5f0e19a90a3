#include "kernels/cuda/shim/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const char *const call_names[] = {
#define X(name, params) #name,
    IQ__CALL_MAP(X)
#undef X
};

enum { PLANS = 16 };
static struct plan {
    int call, code;
    uint64_t left; /* calls until it fails; 0: done */
} plans[PLANS];
static unsigned plans_n;

int iq_shim_fail(const char *call, uint64_t nth, int code, struct iq_err *err)
{
    for (int i = 0; i < IQ__CALLS; i++) {
        if (strcmp(call, call_names[i])) continue;
        if (!nth || !code || plans_n == PLANS)
            return iq_fail(
                err, IQ_USAGE,
                "failing call %.40s: expected a number from 1, a code that isn't 0 and at most %d plans",
                call, PLANS);
        plans[plans_n++] = {i, code, nth};
        return IQ_OK;
    }
    return iq_fail(err, IQ_USAGE,
                   "failing call '%.40s': the table has no such function (kernels/cuda/runtime.h)", call);
}

int iq__plan_due(enum iq__call_id call)
{
    for (struct plan &p : plans)
        if (p.left && p.call == (int)call && !--p.left) return p.code;
    return 0;
}

void iq__plans_forget(void)
{
    plans_n = 0;
    memset(plans, 0, sizeof plans);
}

/* ---- settings of the environment ---- */

static int setting_bad(const char *name, const char *text)
{
    iq__find("%s='%.60s' was not understood", name, text);
    return IQ_CUDA_INVALID_VALUE;
}

/* CALL:NTH:CODE, separated by commas. */
static int plans_read(const char *text)
{
    char call[40];
    unsigned long long nth;
    int code, used;
    for (const char *at = text;; at++) {
        if (sscanf(at, "%39[a-z_]:%llu:%d%n", call, &nth, &code, &used) != 3) return 0;
        if (iq_shim_fail(call, nth, code, NULL)) return 0;
        at += used;
        if (!*at) return 1;
        if (*at != ',') return 0;
    }
}

static int number_read(const char *text, int base, uint64_t most, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(text, &end, base);
    return *text && *text != '-' && !*end && !errno && *out <= most;
}

static int schedule_set(const char *text) { return iq_shim_schedule(text, NULL) == IQ_OK; }

static int poison_set(const char *text)
{
    uint64_t word;
    if (!number_read(text, 16, UINT32_MAX, &word)) return 0;
    iq_shim_poison((uint32_t)word);
    return 1;
}

static int memory_set(const char *text)
{
    uint64_t bytes;
    if (!number_read(text, 10, UINT64_MAX, &bytes)) return 0;
    iq_shim_memory(bytes);
    return 1;
}

static int devices_set(const char *text)
{
    uint64_t n;
    if (!number_read(text, 10, 64, &n) || !n) return 0;
    iq_shim_devices((int)n);
    return 1;
}

static int lock_set(const char *text)
{
    if (strcmp(text, "0") && strcmp(text, "1")) return 0;
    iq_shim_lock(*text == '1');
    return 1;
}

int iq__settings_read(void)
{
    static const struct {
        const char *name;
        int (*set)(const char *text);
    } settings[] = {{"IQ_SHIM_SCHEDULE", schedule_set}, {"IQ_SHIM_POISON", poison_set},
                    {"IQ_SHIM_MEMORY", memory_set},     {"IQ_SHIM_LOCK", lock_set},
                    {"IQ_SHIM_DEVICES", devices_set},   {"IQ_SHIM_FAIL", plans_read}};
    for (const auto &s : settings) {
        const char *text = getenv(s.name);
        if (text && !s.set(text)) return setting_bad(s.name, text);
    }
    return IQ_CUDA_OK;
}
