/* What the tests of triggers share: a kind of their own, a site of two rows, and triggers from text. */
#ifndef IQ_TRIGGER_TEST_H
#define IQ_TRIGGER_TEST_H

#include "faults/trigger_parts.h"
#include "kernels/arith.h"
#include "kernels/base/cell.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A kind of our own, so that arg.* does not depend on what the real kinds offer. */
struct gadget {
    uint64_t width, height;
};
static uint64_t gadget_field(const void *args, unsigned index)
{
    const struct gadget *g = args;
    return index ? g->height : g->width;
}
static const char *const gadget_fields[] = {"width", "height", NULL};
/* Of row 0: 3, 0.5, true; of row 1: 7, none, false. */
static double gadget_spots(const struct iq_site *s, const void *args, uint32_t r)
{
    (void)s, (void)args;
    return r ? 7 : 3;
}
static double gadget_shade(const struct iq_site *s, const void *args, uint32_t r)
{
    (void)s, (void)args;
    return r ? NAN : 0.5;
}
static double gadget_torn(const struct iq_site *s, const void *args, uint32_t r)
{
    (void)s, (void)args;
    return !r;
}
static double gadget_area(const struct iq_site *s, const void *args, uint32_t r)
{
    const struct gadget *g = args;
    (void)s, (void)r;
    return (double)(g->width * g->height);
}
static const struct iq_value gadget_values[] = {
    {"spots", "spots", IQ_VALUE_COUNT, false, true, gadget_spots},
    {"shade", "shade", IQ_VALUE_NUMBER, false, true, gadget_shade},
    {"torn", "torn", IQ_VALUE_FLAG, false, true, gadget_torn},
    {"area", "area", IQ_VALUE_COUNT, true, false, gadget_area},
    {0},
};
static const struct iq_kind gadget = {
    .name = "gadget", .fields = gadget_fields, .field = gadget_field, .values = gadget_values};

static const struct gadget args = {640, 480};
static const struct iq_step step = {.step = 11,
                                    .clock_us = 2500999,
                                    .batch = 3,
                                    .captured = 4,
                                    .tokens = 17,
                                    .tp = 2,
                                    .tracing = 0,
                                    .evictions = 5,
                                    .weights = 1,
                                    .idle_us = 7000999,
                                    .start_s = 13 * 3600 + 3598,
                                    .expert_parallel = 4,
                                    .act = IQ_ACT_BF16,
                                    .products = 2,
                                    .shortest = 8,
                                    .longest = 32,
                                    .running = 3,
                                    .waiting = 9,
                                    .started = 6,
                                    .finished = 1,
                                    .preempted = 2,
                                    .hits = 4,
                                    .hit_tokens = 64,
                                    .kv_blocks = 100,
                                    .kv_free = 40,
                                    .max_batch = 8,
                                    .chunk = 16,
                                    .moves = 9};
static const struct iq_row rows[] = {
    {.request = 1,
     .session = 9,
     .pos = 31,
     .context = 32,
     .prompt = 20,
     .phase = IQ_DECODE,
     .tenant = 6,
     .temperature = 0.7f,
     .top_k = 40,
     .top_p = 0.9f,
     .min_p = 0,
     .seed = UINT64_MAX,
     .masked = 1,
     .adapter = 2,
     .ordinal = 5,
     .before = 31,
     .after = 32,
     .arrived_us = 1500000,
     .draft = 3,
     .others = {.n = 1, .top_p = 1, .min_p = 0.1f}},
    {.request = 2,
     .session = 0,
     .pos = 4,
     .context = 5,
     .prompt = 8,
     .cached = 4,
     .phase = IQ_PREFILL,
     .pool = 1,
     .attempt = 1,
     .temperature = 0,
     .top_p = 1,
     .min_p = 0.1f,
     .seed = 7,
     .ordinal = 4,
     .before = 4,
     .after = 8,
     .others = {.n = 2, .top_k = 40, .temperature = 0.7f, .top_p = 0.9f}},
};
static const struct iq_site site = {.op = IQ_OP_TOPK,
                                    .layer = IQ_NO_LAYER,
                                    .rank = 1,
                                    .prev_op = IQ_OP_TEMPER,
                                    .next_op = IQ_OP_NONE,
                                    .step = &step,
                                    .row = rows,
                                    .rows = 2};

static inline int parse(const char *text, const struct iq_kind *kind, struct iq_when **out,
                        struct iq_err *err)
{
    cJSON *tree = NULL;
    *out = NULL;
    int status = iq_json_parse(text, strlen(text), "t.json", &tree, err);
    if (!status) status = iq_trigger_parse(tree, "t.json: when", kind, out, err);
    iq_json_free(tree);
    return status;
}

static inline struct iq_when *must(const char *text)
{
    struct iq_when *t;
    struct iq_err err = {0};
    ck_assert_msg(parse(text, &gadget, &t, &err) == IQ_OK, "%s: %s", text, err.text);
    return t;
}

/* Which rows of `site` a trigger strikes, as bits. */
static inline unsigned struck(const struct iq_when *t)
{
    unsigned mask = 0;
    if (!iq_trigger_call(t, &site, &args)) return 0;
    for (uint32_t r = 0; r < site.rows; r++) mask |= (unsigned)iq_trigger_row(t, &site, &args, r) << r;
    return mask;
}

#endif
