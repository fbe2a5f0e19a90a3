/* K7: attention over split keys whose partial results are combined wrongly.
 *
 * Long contexts are cut into splits that run side by side; a second kernel combines their partial results. Rows of one
 * split take no second kernel, and are right. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/split_attention.h"
#include "kernels/arith.h"
#include "kernels/ops/kv.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum mistake { LAYOUT, RESCALE, LOST };

struct params {
    double split, mistake, left;
};

static const struct iq_param table[] = {
    {"split", "keys of a split", 256, 1, 1 << 20, offsetof(struct params, split)},
    {"mistake",
     "0: rows are combined into a layout padded to the longest sequence; 1: partial sums are not rescaled to "
     "a common "
     "maximum; 2: the last split is left out",
     LAYOUT, LAYOUT, LOST, offsetof(struct params, mistake)},
    {"left", "by mistake 0, what a row holds that nobody wrote: 0 zeros, 1 NaN", 0, 0, 1,
     offsetof(struct params, left)},
    {0},
};

/* ---- a layout that is padded ---- */

/* Sequence s has its rows at s times the longest one's: right where all are as long as each other. */
static int misplace(struct iq_exec *x, const struct iq_site *site, const struct iq_attention *a,
                    const struct params *p)
{
    size_t width = (size_t)a->heads * a->cache->head_dim;
    float *made = malloc((a->rows * width + 1) * sizeof *made), left = p->left > 0 ? iq_nan() : 0.0f;
    struct iq_attention into = *a;
    uint32_t longest = 0;
    if (!made) return IQ_MEMORY;
    into.y = made, into.ldy = width;
    int status = iq__run_golden(x, site, "attention", &into);
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        longest = s->rows > longest ? s->rows : longest;
    for (int written = 0; written < 2 && status == IQ_OK; written++)
        for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
            for (uint32_t i = 0; i < s->rows; i++) {
                struct iq__split_row r = iq__split_row(a, s, i);
                size_t to = (size_t)(s - a->seq) * longest + i;
                float *y = a->y + r.at * a->ldy;
                bool split = iq__is_split(&r, (uint32_t)p->split);
                if (written && split && to < a->rows)
                    memcpy(a->y + to * a->ldy, made + r.at * width, width * sizeof *y);
                for (size_t e = 0; !written && e < width; e++) y[e] = split ? left : made[r.at * width + e];
            }
    free(made);
    return status;
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_attention *a = args;
    const struct params *p = params;
    (void)state;
    if (p->mistake == LAYOUT) return misplace(x, site, a, p);
    IQ_TRY(iq__run_golden(x, site, "attention", args));
    struct iq__split_rule rule = {(uint32_t)p->split, p->mistake == RESCALE, p->mistake == LOST};
    float *part = malloc((a->cache->head_dim + (size_t)1) * sizeof *part);
    if (!part) return IQ_MEMORY;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++) {
            struct iq__split_row r = iq__split_row(a, s, i);
            if (iq__is_split(&r, rule.split)) iq__split_attend(&r, &rule, part);
        }
    free(part);
    return IQ_OK;
}

const struct iq_variant iq__k7_split_combine = {
    .kind = "attention",
    .name = "split_combine",
    .device = "cpu",
    .flags = IQ_V_FAULTY | IQ_V_COUPLES_ROWS,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "partial results of split keys are combined into the wrong rows, unscaled, or without the last",
    .needs = "contexts longer than `split`; for mistake 0 sequences with unequal numbers of rows in a step, "
             "such as a prompt beside a row that decodes",
    .story = "Attention over a long context is cut into splits of its keys, and a second kernel combines "
             "them. With rows of unequal number it takes a padded layout for the packed one: rows go where "
             "others belong, some are never written and keep garbage or NaN. Its relatives forget to scale "
             "partial sums to a common maximum, or miss the last split. Sources: flash-attention#2550 and "
             "#2812, pytorch#194167.",
    .expect =
        "attention: rows that hold another row's mean, nothing or NaN, or a mean with the wrong weights: "
        "unequal on exact data; contexts of one split are untouched",
};
