/* What the tests of faults share: registration, faults from JSON text, sets of them. */
#ifndef IQ_FAULT_TEST_H
#define IQ_FAULT_TEST_H

#include "faults/families.h"
#include "faults/faultset.h"

#include <check.h>
#include <string.h>

static inline void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_faults_register(&err), "%s", err.text);
}

static inline int parse(const char *text, struct iq_fault *out, struct iq_err *err)
{
    cJSON *tree = NULL;
    int status = iq_json_parse(text, strlen(text), "t.json", &tree, err);
    ck_assert_msg(!status, "%s", err->text);
    status = iq_fault_parse(tree, "t.json: faults[0]", out, err);
    iq_json_free(tree);
    return status;
}

static inline struct iq_fault must(const char *text)
{
    struct iq_fault f;
    struct iq_err err = {0};
    ck_assert_msg(parse(text, &f, &err) == IQ_OK, "%s: %s", text, err.text);
    return f;
}

/* A set of up to 8 faults, and its selector. */
struct set {
    struct iq_fault fault[12];
    size_t n;
    struct iq_faultset *set;
    struct iq_selector sel;
};

static inline void open_set(struct set *s, uint64_t seed, const char *const *texts)
{
    struct iq_err err = {0};
    for (s->n = 0; texts[s->n]; s->n++) s->fault[s->n] = must(texts[s->n]);
    ck_assert_msg(!iq_faultset_open(s->fault, s->n, seed, &s->set, &err), "%s", err.text);
    iq_faultset_selector(s->set, &s->sel);
}
#define OPEN(s, seed, ...) open_set(s, seed, (const char *const[]){__VA_ARGS__, NULL})

static inline void close_set(struct set *s)
{
    iq_faultset_close(s->set);
    for (size_t i = 0; i < s->n; i++) iq_fault_free(&s->fault[i]);
}

#define COARSE(more) "{\"op\":\"topk\",\"variant\":\"coarse_bin\"," more "}"

#endif
