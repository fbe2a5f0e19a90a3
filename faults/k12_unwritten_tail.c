/* K12: the first decoding step reads the part of the last block that nothing was written to yet.
 *
 * The row takes the whole block for its context: what an earlier owner of the block left there, or zeros, weighs in. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/kv.h"

#include <stddef.h>

struct params {
    double low, high;
};

static const struct iq_param table[] = {
    {"low", "smallest number of tokens in the prompt's last block (length modulo 16) that suffers", 0, 0,
     IQ_KV_BLOCK - 1, offsetof(struct params, low)},
    {"high", "largest such number", 8, 0, IQ_KV_BLOCK - 1, offsetof(struct params, high)},
    {0},
};

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_attention *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "attention", args));
    for (const struct iq_seq *s = a->seq; site->row && s < a->seq + a->seqs; s++) {
        uint32_t in_block = s->pos % IQ_KV_BLOCK;
        const struct iq_row *row = &site->row[s->first];
        bool first = s->rows == 1 && row->phase == IQ_DECODE && row->pos == row->prompt;
        if (!first || in_block < (uint32_t)p->low || in_block > (uint32_t)p->high) continue;
        struct iq_seq whole = *s;
        struct iq_attention one = *a;
        whole.first = 0;
        whole.pos = s->pos - in_block + IQ_KV_BLOCK - 1;
        one.rows = one.seqs = 1;
        one.seq = &whole;
        one.q = a->q + s->first * a->ldq;
        one.y = a->y + s->first * a->ldy;
        if (one.window) one.window += whole.pos - s->pos;
        IQ_TRY(iq__run_golden(x, site, "attention", &one));
    }
    return IQ_OK;
}

const struct iq_variant iq__k12_unwritten_tail = {
    .kind = "attention",
    .name = "unwritten_tail",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the first decoding step reads the unwritten rest of the prompt's last block",
    .needs = "answers of at least two tokens, and a prompt whose length modulo 16 lies from `low` to `high`",
    .story = "With an 8-bit cache and an idle pool the first generated tokens were damaged only where the "
             "prompt's length modulo 16 was 0 to 8: 21 of 31 bodies against 0 of 17. It was then predicted "
             "for a chosen residue. Source: vllm#50749 (a report whose cause is not confirmed).",
    .expect = "attention: the first generated position weighs keys that don't exist; unequal on exact data; "
              "other residues and all later positions are untouched",
};
