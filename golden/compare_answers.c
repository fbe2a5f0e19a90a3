/* Rung 5, answers: exact matches of `expect`, in all and by batch. */
#include "golden/answer.h"
#include "golden/compare_state.h"
#include "kernels/base/grow.h"

#include <stdlib.h>
#include <string.h>

static void add(struct iq_answers *a, bool golden, bool subject)
{
    a->asked++;
    a->golden_right += golden;
    a->subject_right += subject;
    a->lost += golden && !subject;
    a->gained += !golden && subject;
}

/* Buckets ascend by batch. */
static int add_in_batch(struct iq__compare *c, uint32_t batch, bool golden, bool subject)
{
    struct iq_finding *f = c->f;
    size_t i = 0;
    while (i < f->n_batches && f->batch[i].batch < batch) i++;
    if (i == f->n_batches || f->batch[i].batch != batch) {
        IQ_TRY(iq_grow(&f->batch, &c->cap_batches, f->n_batches + 1, sizeof *f->batch, c->err));
        memmove(&f->batch[i + 1], &f->batch[i], (f->n_batches++ - i) * sizeof *f->batch);
        f->batch[i] = (struct iq_answers){.batch = batch};
    }
    add(&f->batch[i], golden, subject);
    return IQ_OK;
}

int iq__answers_request(struct iq__compare *c, const struct iq_request_end *g, const struct iq_request_end *s,
                        const struct iq_position *position, size_t n)
{
    cJSON *params;
    if (!strstr(s->params, "\"expect\"")) return IQ_OK;
    IQ_TRY(iq_json_parse(s->params, strlen(s->params), "params", &params, c->err));
    const char *expect = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(params, "expect"));
    int status = IQ_OK;
    if (expect) {
        bool golden = iq_answer_right(g->text, strlen(g->text), expect);
        bool subject = iq_answer_right(s->text, strlen(s->text), expect);
        add(&c->f->answers, golden, subject);
        if (s->n_prompt && s->n_prompt <= n)
            status = add_in_batch(c, position[s->n_prompt - 1].batch, golden, subject);
    }
    iq_json_free(params);
    return status;
}
