#include "kernels/cuda/shim/state.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

static const struct {
    const char *name;
    enum iq__order order;
} orders[] = {
    {"forward", IQ__FORWARD},           {"reverse", IQ__REVERSE}, {"warp-forward", IQ__WARP_FORWARD},
    {"warp-reverse", IQ__WARP_REVERSE}, {"random:", IQ__RANDOM},
};

struct iq__schedule iq__schedule = {IQ__FORWARD, "forward", 1};

/* splitmix64: any seed will do, also 0. */
uint64_t iq__random(uint64_t below)
{
    uint64_t z = iq__schedule.random += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return (z ^ z >> 31) % below;
}

static int seed_read(const char *text, uint64_t *seed)
{
    char *end;
    errno = 0;
    *seed = strtoull(text, &end, 10);
    return *text >= '0' && *text <= '9' && !*end && !errno;
}

int iq_shim_schedule(const char *text, struct iq_err *err)
{
    for (const auto &o : orders) {
        uint64_t seed = 0;
        if (o.order == IQ__RANDOM) {
            size_t n = strlen(o.name);
            if (strncmp(text, o.name, n) || !seed_read(text + n, &seed)) continue;
        } else if (strcmp(text, o.name)) {
            continue;
        }
        iq__schedule.order = o.order;
        iq__schedule.random = seed;
        snprintf(iq__schedule.text, sizeof iq__schedule.text, "%s", text);
        return IQ_OK;
    }
    return iq_fail(
        err, IQ_USAGE,
        "shim schedule '%.60s': expected forward, reverse, warp-forward, warp-reverse or random:SEED", text);
}
