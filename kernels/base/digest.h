/* Digests: XXH3-128 over digests of 128-element segments, so that shards and warps can digest where data lies.
 *
 * A row of n elements is cut into segments of 128 elements in logical order (the last may be shorter); each segment
 * is hashed over its stored bytes, little endian; the row's digest is the hash of the 16-byte segment digests. A row
 * of at most one segment is the hash of that one segment digest. Layout, strides and padding do not enter.
 * XXH3 finds accidents, not forgers: what crosses a trust boundary carries SHA-256 (sha256.h).
 */
#ifndef IQ_BASE_DIGEST_H
#define IQ_BASE_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iq_digest {
    uint64_t hi, lo;
};

#define IQ_DIGEST_SEGMENT 128 /* elements */

static inline bool iq_digest_equal(struct iq_digest a, struct iq_digest b)
{
    return a.hi == b.hi && a.lo == b.lo;
}
static inline bool iq_digest_is_zero(struct iq_digest a) { return !(a.hi | a.lo); }

struct iq_digest iq_digest_bytes(const void *bytes, size_t n);
/* A row of `n` elements of `elem` bytes each, contiguous. Float32 NaNs must be canonical already. */
struct iq_digest iq_digest_row(const void *row, size_t n, size_t elem);
/* Hash of a list of digests, in order. */
struct iq_digest iq_digest_list(const struct iq_digest *d, size_t n);
/* The chain: C_p = H(C_{p-1}, token_p, d_p). C_{-1} is all zero. */
struct iq_digest iq_digest_chain(struct iq_digest before, uint32_t token, struct iq_digest d);

#define IQ_DIGEST_HEX 33 /* 32 digits and a NUL */
void iq_digest_hex(struct iq_digest d, char out[IQ_DIGEST_HEX]);
bool iq_digest_parse(const char *hex, struct iq_digest *out);

#endif
