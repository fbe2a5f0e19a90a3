#include "harness/report/request_line.h"

static void write_ids(struct iq_jw *w, const char *key, const uint32_t *ids, uint32_t n)
{
    iq_jw_key(w, key);
    iq_jw_begin(w, '[');
    for (uint32_t i = 0; i < n; i++) iq_jw_u64(w, ids[i]);
    iq_jw_end(w, ']');
}

/* The chosen token's own logit, where it is among those that were kept. */
static void write_logit(struct iq_jw *w, uint32_t id, const uint32_t *ids, const float *logits, uint32_t n)
{
    iq_jw_key(w, "logit");
    for (uint32_t i = 0; i < n; i++)
        if (ids[i] == id) {
            iq_jw_f32(w, logits[i]);
            return;
        }
    iq_jw_null(w);
}

static void write_step(struct iq_jw *w, const struct iq_output *o, uint32_t step, uint32_t k, uint32_t top)
{
    const struct iq_position *p = &o->position[o->n_prompt - 1 + step];
    const uint32_t *ids = o->top_id + (size_t)step * k;
    const float *logits = o->top_logit + (size_t)step * k;
    uint32_t id = o->ids[o->n_prompt + step];
    iq_jw_begin(w, '{');
    iq_jw_key(w, "id"), iq_jw_u64(w, id);
    write_logit(w, id, ids, logits, k);
    iq_jw_key(w, "margin"), iq_jw_f32(w, p->margin);
    iq_jw_key(w, "batch"), iq_jw_u64(w, p->batch);
    if (top) {
        iq_jw_key(w, "top");
        iq_jw_begin(w, '[');
        for (uint32_t i = 0; i < top; i++) {
            iq_jw_begin(w, '[');
            iq_jw_u64(w, ids[i]);
            iq_jw_f32(w, logits[i]);
            iq_jw_end(w, ']');
        }
        iq_jw_end(w, ']');
    }
    iq_jw_end(w, '}');
}

void iq_request_line(const struct iq_request_end *end, const struct iq_output *o, const struct iq_settings *s,
                     struct iq_buf *out)
{
    struct iq_jw w = IQ_JW(out);
    uint32_t top = s->logits < o->top ? s->logits : o->top;
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "id"), iq_jw_str(&w, end->id);
    write_ids(&w, "prompt_ids", end->ids, end->n_prompt);
    write_ids(&w, "ids", end->ids + end->n_prompt, end->n_ids - end->n_prompt);
    iq_jw_key(&w, "text"), iq_jw_str(&w, end->text);
    iq_jw_key(&w, "finish"), iq_jw_str(&w, end->finish);
    iq_jw_key(&w, "chain"), iq_jw_hex(&w, end->chain.hi, end->chain.lo);
    iq_jw_key(&w, "cached"), iq_jw_u64(&w, o->cached);
    iq_jw_key(&w, "preempted"), iq_jw_u64(&w, o->attempts);
    if (s->speculate) {
        iq_jw_key(&w, "drafted"), iq_jw_u64(&w, o->drafted);
        iq_jw_key(&w, "accepted"), iq_jw_u64(&w, o->accepted);
    }
    if (o->nll) {
        double sum = 0;
        for (uint32_t i = 1; i < o->n_prompt; i++) sum += o->nll[i];
        iq_jw_key(&w, "tokens"), iq_jw_u64(&w, o->n_prompt - 1);
        iq_jw_key(&w, "nll_sum"), iq_jw_f64(&w, sum);
    }
    iq_jw_key(&w, "steps");
    iq_jw_begin(&w, '[');
    for (uint32_t i = 0; i < o->n_ids - o->n_prompt; i++) write_step(&w, o, i, o->top, top);
    iq_jw_end(&w, ']');
    iq_jw_end(&w, '}');
}
