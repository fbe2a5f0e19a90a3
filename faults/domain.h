/* Whether a predicate can hold at all: static reasoning over what each field can be.
 *
 * A domain is what a field can be at the calls of one op, as whoever runs the plan knows it: an interval, or values, and
 * whether it may have none. What is said never to hold never does, as long as the domains hold what really occurs; what
 * nothing is said of may still never happen.
 */
#ifndef IQ_TRIGGER_DOMAIN_H
#define IQ_TRIGGER_DOMAIN_H

#include "faults/faultset.h"

/* Values are as iq_trigger_field.get gives them: numbers in keys that order alike, words by index. */
struct iq_domain {
    uint64_t lo, hi;     /* lo > hi: it never has a value */
    bool none;           /* it may have no value */
    const uint64_t *set; /* (n) ascending: all that it can be; NULL: anything from lo to hi */
    size_t n;
    char why[96]; /* where that comes from ("--batch 8"), or "" */
};

/* A domain of a value, an interval, a set (borrowed; n may be 0), no value; of a number's bounds. */
struct iq_domain iq_domain_any(void);
struct iq_domain iq_domain_range(uint64_t lo, uint64_t hi);
struct iq_domain iq_domain_set(const uint64_t *, size_t n);
struct iq_domain iq_domain_nothing(void);
uint64_t iq_domain_float(float);

/* What surrounds a plan: for the calls of `op`, the domain of a field as `when` names it ("batch", "arg.k"). */
struct iq_world {
    void *self;
    void (*domain)(void *self, enum iq_op_id op, const char *name, struct iq_domain *out);
    /* Whether the fields of a step and of its rows hang together as those of a forward pass do (batch <= tokens ...);
     * those of a control op, which runs between steps, do not. */
    bool (*forward)(void *self, enum iq_op_id op);
};

/* True: at no call of `op` can it hold; a sentence without a full stop says why. */
bool iq_trigger_never(const struct iq_when *, enum iq_op_id op, const struct iq_world *, struct iq_buf *why);
/* True: wherever `narrow` holds, `wide` holds too. False: nothing says so. */
bool iq_trigger_covers(const struct iq_when *wide, const struct iq_when *narrow);

#endif
