/* The rotary table: cosines and sines of every position, made once on the host by a pinned algorithm. Its digest is part
 * of the contract id.
 *
 * Pair i of `rotary` dimensions turns by pos * f_i, f_i = base^(-2i / rotary), changed by the kind of scaling as in
 * transformers' ROPE_INIT_FUNCTIONS. Precision: transformers keeps f_i and the angle in float32 (an error of up to
 * pos * 2^-24), llama.cpp multiplies up in float32. Here f_i is a double (computed with twice the digits, rounded
 * once), the angle is exact in two doubles and reduced in two doubles; cosine and sine, times the attention factor,
 * are rounded to float32 once. Nothing here calls the C library's mathematics beyond fma.
 *
 * One table serves all lengths, as a server does that fixes them at its start: where transformers looks at the longest
 * sequence so far (dynamic, longrope), `length` decides. Otherwise a request's bits would depend on its neighbours.
 *
 * Sources: arXiv 2104.09864 (rotary), 2306.15595 (linear), 2309.00071 (yarn, dynamic NTK), 2402.13753 (longrope);
 * transformers/modeling_rope_utils.py (llama3 too); ggml's rope_freqs (freq_factors).
 */
#ifndef IQ_ROTARY_H
#define IQ_ROTARY_H

#include "kernels/base/digest.h"
#include "kernels/base/status.h"

#include <stdint.h>

#define IQ_ROTARY_KIND_MAP(X)                                                                                \
    X(NONE, "none")                                                                                          \
    X(LINEAR, "linear")                                                                                      \
    X(DYNAMIC, "dynamic")                                                                                    \
    X(YARN, "yarn")                                                                                          \
    X(LLAMA3, "llama3")                                                                                      \
    X(LONGROPE, "longrope")

enum iq_rotary_kind {
#define X(id, name) IQ_ROTARY_##id,
    IQ_ROTARY_KIND_MAP(X)
#undef X
        IQ_ROTARY_KINDS
};

enum { IQ_ROTARY_DIMS_MAX = 1024, IQ_ROTARY_POSITIONS_MAX = 1 << 24 };

/* Zero means "not named by the file" where a default is given. The arrays are borrowed. */
struct iq_rotary_spec {
    uint32_t kind;             /* enum iq_rotary_kind */
    uint32_t rotary;           /* rotated dimensions of a head: even */
    double base;               /* rope_theta */
    double factor;             /* all kinds but default. yarn, longrope: 0 is context / original_context */
    uint32_t context;          /* max_position_embeddings: dynamic; yarn and longrope without a factor */
    uint32_t original_context; /* yarn, llama3, longrope: original_max_position_embeddings */
    uint32_t length; /* dynamic, longrope: sequence length to be ready for; 0: positions of the table */
    double low_freq_factor, high_freq_factor; /* llama3 */
    double beta_fast, beta_slow;              /* yarn; 32 and 1 */
    double mscale, mscale_all_dim;            /* yarn: both or neither enter the attention factor */
    uint32_t no_truncate;                     /* yarn: correction range not rounded to whole dimensions */
    double attention_factor;                  /* yarn, longrope: 0 is the kind's own rule */
    const double *short_factor, *long_factor; /* longrope: (rotary / 2) */
    /* Any kind: (rotary / 2) divisors of f_i (GGUF's rope_freqs.weight), or NULL. */
    const double *freq_factors;
};

const char *iq_rotary_kind_name(uint32_t kind); /* "?" if unknown */

/* inv_freq: (rotary / 2), radians a position; *attention multiplies cosine and sine. `positions` stands in for a
 * length of 0. IQ_FORMAT: a field is missing, out of range or not finite. */
int iq_rotary_frequencies(const struct iq_rotary_spec *, uint32_t positions, double *inv_freq,
                          double *attention, struct iq_err *err);

/* table: (positions, rotary / 2, 2) float32: cosine, sine; the caller's. digest (may be NULL): of its bytes. */
int iq_rotary_table(const struct iq_rotary_spec *, uint32_t positions, float *table, struct iq_digest *digest,
                    struct iq_err *err);

#endif
