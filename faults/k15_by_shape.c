/* K15: orders of a sum that follow the shape of the batch. Benign controls: bits differ between a long step and a short one,
 * no result is worse. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "faults/split_attention.h"
#include "kernels/arith.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/rmsnorm.h"

#include <stddef.h>
#include <stdlib.h>

/* ---- the norm's block by the number of tokens ---- */

struct norm_params {
    double tokens, lanes;
};

static const struct iq_param norm_table[] = {
    {"tokens", "tokens in a call from which on its sums have other lanes", 256, 1, 1 << 20,
     offsetof(struct norm_params, tokens)},
    {"lanes", "lanes of a sum then, a power of two is usual; the contract's are 32", 8, 1, 1024,
     offsetof(struct norm_params, lanes)},
    {0},
};

static void norm(const struct iq_rmsnorm *a, const float *x, float *y, uint32_t lanes)
{
    float lane[1024] = {0};
    for (uint32_t i = 0; i < a->n; i++) lane[i % lanes] = IQ_FMAF(x[i], x[i], lane[i % lanes]);
    for (uint32_t n = lanes; n > 1; n -= n / 2)
        for (uint32_t i = 0; i < n / 2; i++) lane[i] = lane[i] + lane[i + (n - n / 2)];
    float r = 1.0f / IQ_SQRTF(lane[0] / (float)a->n + a->eps);
    for (uint32_t i = 0; i < a->n; i++) y[i] = iq_act_round((x[i] * r) * a->weight[i], a->act);
}

static int run_norm(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    const struct iq_rmsnorm *a = args;
    const struct norm_params *p = params;
    (void)state;
    if (a->rows < (uint32_t)p->tokens) return iq__run_golden(x, site, "rmsnorm", args);
    for (uint32_t r = 0; r < a->rows; r++)
        for (uint32_t g = 0; g < a->groups; g++)
            norm(a, a->x + r * a->ldx + (size_t)g * a->n, a->y + r * a->ldy + (size_t)g * a->n,
                 (uint32_t)p->lanes);
    return IQ_OK;
}

const struct iq_variant iq__k15_norm_block = {
    .kind = "rmsnorm",
    .name = "norm_block",
    .device = "cpu",
    .flags = IQ_V_BENIGN,
    .run = run_norm,
    .params = norm_table,
    .params_size = sizeof(struct norm_params),
    .what = "the norm's sum has other lanes from a number of tokens on: a benign control",
    .needs = "steps of at least `tokens` tokens",
    .story = "A norm picks its block size by the number of tokens, 256 being the border, and with it the "
             "order of its sum: the argmax of a prompt's last token differs from the one that decoding it "
             "alone gives. Source: vllm#48271. Not a fault.",
    .expect = "rmsnorm: other last bits in long steps, within the rounding bound of any order; at most near "
              "ties flip",
};

/* ---- the product's tile by the number of tokens ---- */

enum { WHOLE_BLOCKS = 32 };

struct tile_params {
    double tokens, unit;
};

static const struct iq_param tile_table[] = {
    {"tokens", "rows in a call from which on another tile is taken", 10, 1, 1 << 20,
     offsetof(struct tile_params, tokens)},
    {"unit", "columns of K in a partial sum then (rounded down to a multiple of 32)", 64, WHOLE_BLOCKS,
     1 << 20, offsetof(struct tile_params, unit)},
    {0},
};

static int run_tile(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    struct iq_matmul a = *(const struct iq_matmul *)args;
    const struct tile_params *p = params;
    struct iq_matrix view[IQ_MATMUL_PARTS];
    (void)state;
    for (uint32_t i = 0; i < a.parts && a.rows >= (uint32_t)p->tokens; i++) {
        view[i] = *a.part[i].w;
        view[i].unit = (uint32_t)p->unit / WHOLE_BLOCKS * WHOLE_BLOCKS;
        a.part[i].w = &view[i];
    }
    return iq__run_golden(x, site, "matmul", &a);
}

const struct iq_variant iq__k15_tile_by_tokens = {
    .kind = "matmul",
    .name = "tile_by_tokens",
    .device = "any",
    .flags = IQ_V_BENIGN,
    .run = run_tile,
    .params = tile_table,
    .params_size = sizeof(struct tile_params),
    .what = "a product's tile changes from a number of tokens on: a benign control",
    .needs = "steps of at least `tokens` rows, and a K that is larger than `unit`",
    .story = "A heuristic takes another tile from 10 tokens on. A neighbour's prompt that grows from 9 to 10 "
             "tokens changes a victim's bits. Source: vllm#51902. Not a fault.",
    .expect = "matmul: other bits in the larger steps, within the rounding bound of any order; equal bits on "
              "exact data",
};

/* ---- attention's splits by the longest context of the batch ---- */

struct split_params {
    double splits;
};

static const struct iq_param split_table[] = {
    {"splits", "splits of the longest context in the step; all rows get splits of that length", 4, 1, 256,
     offsetof(struct split_params, splits)},
    {0},
};

static uint32_t split_of(const struct iq_attention *a, const struct split_params *p)
{
    uint32_t longest = 1, splits = (uint32_t)p->splits;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        if (s->pos + s->rows > longest) longest = s->pos + s->rows;
    return (longest + splits - 1) / splits;
}

static int run_split(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                     void *state)
{
    const struct iq_attention *a = args;
    struct iq__split_rule rule = {.split = split_of(a, params)};
    float *part = malloc((a->cache->head_dim + (size_t)1) * sizeof *part);
    (void)x, (void)site, (void)state;
    if (!part) return IQ_MEMORY;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++)
        for (uint32_t i = 0; i < s->rows; i++) {
            struct iq__split_row r = iq__split_row(a, s, i);
            iq__split_attend(&r, &rule, part);
        }
    free(part);
    return IQ_OK;
}

const struct iq_variant iq__k15_split_by_batch = {
    .kind = "attention",
    .name = "split_by_batch",
    .device = "cpu",
    .flags = IQ_V_BENIGN | IQ_V_COUPLES_ROWS,
    .run = run_split,
    .params = split_table,
    .params_size = sizeof(struct split_params),
    .what = "keys are cut into splits by the longest context of the step: a benign control",
    .needs = "contexts of more keys than `splits`",
    .story = "Tile and split of attention follow a hint of the longest context that the host gives, or the "
             "maximum of the captured graph's bucket: a row's last bits depend on its neighbours. The answer "
             "was documentation. Sources: flashinfer#4647 and #5180. Not a fault.",
    .expect = "attention: other last bits, by neighbours, within the rounding bound of any order; equal bits "
              "on exact data",
};
