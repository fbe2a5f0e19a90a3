/* Any bytes as a fault's JSON: refused, or a fault whose canonical text reads back as itself. */
#include "faults/domain.h"
#include "faults/families.h"

#include <stdlib.h>
#include <string.h>

static void canonical(const struct iq_fault *f, struct iq_buf *b)
{
    struct iq_jw w = IQ_JW(b);
    iq_fault_json(f, &w);
}

/* Each field may be anything, or has one value, by its name. */
static void domain(void *self, enum iq_op_id op, const char *name, struct iq_domain *out)
{
    (void)self;
    if ((op + strlen(name)) % 3) *out = iq_domain_range(op, op + strlen(name) % 2 * 1000);
}
static bool forward(void *self, enum iq_op_id op)
{
    (void)self;
    return op % 2;
}

/* What never holds has a reason, and nothing else has; a trigger covers itself. */
static void reason(const struct iq_when *when)
{
    const struct iq_world world = {NULL, domain, forward};
    struct iq_buf why = IQ_BUF(1 << 26);
    if (!iq_trigger_covers(when, when)) abort();
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        if (iq_trigger_never(when, (enum iq_op_id)op, &world, &why) != (why.len > 0)) abort();
        iq_buf_free(&why);
        why = IQ_BUF(1 << 26);
    }
    struct iq_tally *tally = iq_tally_open(when);
    iq_trigger_say_tally(when, tally, &why);
    iq_buf_free(&why);
    free(tally);
}

static void exercise(const struct iq_fault *f)
{
    struct iq_buf words = IQ_BUF(1 << 26);
    struct iq_faultset *set;
    struct iq_selector sel;
    iq_fault_explain(f, &words);
    if (words.failed) abort();
    iq_buf_free(&words);
    if (iq_faultset_open(f, 1, 1, &set, NULL)) abort(); /* what was read is in range */
    iq_faultset_selector(set, &sel);
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) sel.may_strike(sel.self, (enum iq_op_id)op);
    reason(f->when);
    for (uint64_t at = 0; f->ramp && at < 100000000000; at += 7777777777) {
        double p = iq_ramp_at(f->ramp, at, 3600);
        if (!(p >= 0 && p <= 1)) abort();
    }
    iq_faultset_close(set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool registered;
    struct iq_err err;
    struct iq_fault f, again;
    cJSON *tree;
    if (!registered && (iq_kernels_register(&err) || iq_faults_register(&err))) abort();
    registered = true;
    if (iq_json_parse((const char *)data, size, "fuzz", &tree, &err)) return 0;
    int status = iq_fault_parse(tree, "fuzz", &f, &err);
    iq_json_free(tree);
    if (status) return 0;
    exercise(&f);
    struct iq_buf one = IQ_BUF(1 << 26), two = IQ_BUF(1 << 26);
    canonical(&f, &one);
    if (one.failed || iq_json_parse(one.data, one.len, "canonical", &tree, &err)) abort();
    if (iq_fault_parse(tree, "canonical", &again, &err)) abort();
    iq_json_free(tree);
    canonical(&again, &two);
    if (strcmp(one.data, two.data)) abort();
    iq_fault_free(&f);
    iq_fault_free(&again);
    iq_buf_free(&one);
    iq_buf_free(&two);
    return 0;
}
