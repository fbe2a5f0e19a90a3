/* UTF-8, one character at a time. Strict: no overlong forms, no surrogates, nothing above U+10FFFF. */
#ifndef IQ_BASE_UTF8_H
#define IQ_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* Decodes the character at `s` (n >= 1 bytes are there). Returns its length, 1 to 4, and sets *cp. Where no character
 * starts, returns minus the length of the part to be replaced by one U+FFFD (the maximal subpart of Unicode 3.9) and
 * sets *cp to U+FFFD. */
static inline int iq_utf8_next(const void *s, size_t n, uint32_t *cp)
{
    const unsigned char *p = s;
    unsigned lead = p[0], lo = 0x80, hi = 0xbf;
    int more = lead < 0x80 ? 0 : lead < 0xc2 ? -1 : lead < 0xe0 ? 1 : lead < 0xf0 ? 2 : lead < 0xf5 ? 3 : -1;
    if (more == 0) return *cp = lead, 1;
    uint32_t c = more == 1 ? lead & 0x1f : more == 2 ? lead & 0x0f : lead & 0x07;
    *cp = 0xfffd;
    if (more < 0) return -1;
    if (lead == 0xe0) lo = 0xa0; /* the second byte alone decides overlong, surrogate and too large */
    if (lead == 0xed) hi = 0x9f;
    if (lead == 0xf0) lo = 0x90;
    if (lead == 0xf4) hi = 0x8f;
    for (int i = 1; i <= more; i++, lo = 0x80, hi = 0xbf) {
        if ((size_t)i >= n || p[i] < lo || p[i] > hi) return -i;
        c = c << 6 | (p[i] & 0x3f);
    }
    return *cp = c, more + 1;
}

/* Writes cp (a Unicode scalar value) to `out` and returns its length, 1 to 4. */
static inline int iq_utf8_put(uint32_t cp, char out[4])
{
    if (cp < 0x80) return out[0] = (char)cp, 1;
    int more = cp < 0x800 ? 1 : cp < 0x10000 ? 2 : 3;
    for (int i = more; i > 0; i--, cp >>= 6) out[i] = (char)(0x80 | (cp & 0x3f));
    out[0] = (char)((more == 1 ? 0xc0 : more == 2 ? 0xe0 : 0xf0) | cp);
    return more + 1;
}

#endif
