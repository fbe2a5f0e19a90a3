/* The canary's rows, questions and texts under any parameters: refused with a sentence, or whole. */
#include "golden/canary/canary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void need(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "%s\n", what);
    abort();
}

static void take(const uint8_t **data, size_t *n, void *out, size_t size)
{
    size_t some = *n < size ? *n : size;
    memset(out, 0, size);
    memcpy(out, *data, some);
    *data += some;
    *n -= some;
}

static void text(const char *bytes, size_t n)
{
    static uint32_t id[64], again[64];
    struct iq_buf spelled = IQ_BUF(1 << 20);
    size_t ids = iq_canary_encode(bytes, n, id, 64), some = ids < 64 ? ids : 64;
    need(ids >= 1 && ids <= n + 1, "more ids than bytes");
    need((unsigned)iq_canary_split_of(bytes, n) < IQ_CANARY_SPLITS, "no split");
    iq_canary_spell(id, some, &spelled);
    need(iq_canary_encode(spelled.data ? spelled.data : "", spelled.len, again, 64) == some &&
             !memcmp(id, again, some * sizeof *id),
         "other ids when spelled and read again");
    iq_buf_free(&spelled);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct iq_canary_row row;
    static struct iq_canary_prompt prompt;
    struct {
        uint64_t seed, index, steps;
        int32_t task, split;
        uint32_t level;
        uint8_t far, narrow;
        struct iq_canary_mix mix;
    } p;
    struct iq_canary_step step;
    struct iq_err err = {0};
    take(&data, &n, &p, sizeof p);
    p.mix.far = p.far & 1;
    if (p.narrow & 1) { /* in range more often */
        p.mix.length = IQ_CANARY_SHORTEST + p.mix.length % (IQ_CANARY_CONTEXT - IQ_CANARY_SHORTEST + 1);
        for (int t = 0; t < IQ_CANARY_TASKS; t++) p.mix.weight[t] %= 1000;
        p.mix.weight[IQ_CANARY_FAR] = 0;
        for (int l = 0; l < IQ_CANARY_LEVELS; l++) p.mix.level[l] %= 8;
        p.task &= 15, p.level &= 3, p.split &= 3;
    }
    int status = iq_canary_row(&p.mix, p.seed, p.index, (enum iq_canary_split)p.split, &row, &err);
    need(status == IQ_OK ? row.n_spans && row.used <= row.n : err.text[0] && !row.n, "half a row");
    status = iq_canary_draw((enum iq_canary_id)p.task, p.level, p.seed, p.index,
                            (enum iq_canary_split)p.split, &prompt, &err);
    need(status == IQ_OK ? prompt.text[0] && prompt.answer[0] : !prompt.text[0], "half a question");
    status = iq_canary_step(p.seed, p.index, p.steps, &step, &err);
    need(status != IQ_OK || step.rows * step.mix.length == 2048, "an odd step");
    text((const char *)data, n);
    return 0;
}
