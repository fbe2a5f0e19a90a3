#include "kernels/base/digest.h"

#include <stdio.h>
#include <string.h>
/* On x86 the library chooses the instruction set at run time; elsewhere the compiler's is right. Same digests. */
#if defined __x86_64__ && __has_include(<xxh_x86dispatch.h>)
#define XXH_STATIC_LINKING_ONLY
#include <xxh_x86dispatch.h>
#else
#define XXH_INLINE_ALL
#include <xxhash.h>
#endif

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "digests are defined over little-endian bytes");

static struct iq_digest of(XXH128_hash_t h) { return (struct iq_digest){h.high64, h.low64}; }

struct iq_digest iq_digest_bytes(const void *bytes, size_t n) { return of(XXH3_128bits(bytes, n)); }

struct iq_digest iq_digest_list(const struct iq_digest *d, size_t n)
{
    return of(XXH3_128bits(d, n * sizeof *d));
}

struct iq_digest iq_digest_row(const void *row, size_t n, size_t elem)
{
    enum { BATCH = 64 };
    const size_t segment = IQ_DIGEST_SEGMENT * elem, bytes = n * elem;
    const char *p = row;
    struct iq_digest seg[BATCH];
    if (bytes <= BATCH * segment) { /* the common row: one pass without a streaming state */
        size_t count = 0;
        for (size_t at = 0; at < bytes; at += segment)
            seg[count++] = of(XXH3_128bits(p + at, bytes - at < segment ? bytes - at : segment));
        return iq_digest_list(seg, count);
    }
    XXH3_state_t state;
    XXH3_128bits_reset(&state);
    for (size_t at = 0; at < bytes;) {
        size_t count = 0;
        for (; count < BATCH && at < bytes; at += segment)
            seg[count++] = of(XXH3_128bits(p + at, bytes - at < segment ? bytes - at : segment));
        XXH3_128bits_update(&state, seg, count * sizeof *seg);
    }
    return of(XXH3_128bits_digest(&state));
}

struct iq_digest iq_digest_chain(struct iq_digest before, uint32_t token, struct iq_digest d)
{
    struct {
        struct iq_digest before, d;
        uint64_t token;
    } link = {before, d, token};
    _Static_assert(sizeof link == 40, "the chain is a format");
    return of(XXH3_128bits(&link, sizeof link));
}

void iq_digest_hex(struct iq_digest d, char out[IQ_DIGEST_HEX])
{
    snprintf(out, IQ_DIGEST_HEX, "%016llx%016llx", (unsigned long long)d.hi, (unsigned long long)d.lo);
}

bool iq_digest_parse(const char *hex, struct iq_digest *out)
{
    uint64_t v[2] = {0, 0};
    if (strlen(hex) != 32) return false;
    for (int i = 0; i < 32; i++) {
        char c = hex[i];
        int d = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (d < 0) return false;
        v[i / 16] = v[i / 16] << 4 | (uint64_t)d;
    }
    *out = (struct iq_digest){v[0], v[1]};
    return true;
}
