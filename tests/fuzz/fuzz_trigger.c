/* Any bytes as a fault's JSON: refused, or a fault whose canonical text reads back as itself. */
#include "faults/families.h"
#include "faults/faultset.h"

#include <stdlib.h>
#include <string.h>

static void canonical(const struct iq_fault *f, struct iq_buf *b)
{
    struct iq_jw w = IQ_JW(b);
    iq_fault_json(f, &w);
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
