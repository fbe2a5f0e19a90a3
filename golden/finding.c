#include "golden/finding.h"

#include <stdlib.h>
#include <string.h>

void iq_finding_free(struct iq_finding *f)
{
    if (!f) return;
    for (size_t i = 0; i < f->n_guilty; i++) {
        free(f->guilty[i].layer);
        free(f->guilty[i].trigger.bucket);
    }
    free(f->guilty);
    free(f->batch);
    free(f->replay);
    free(f);
}

static void key_str(struct iq_jw *w, const char *key, const char *text)
{
    iq_jw_key(w, key);
    iq_jw_str(w, text && *text ? text : NULL);
}

static void key_u64(struct iq_jw *w, const char *key, uint64_t n)
{
    iq_jw_key(w, key);
    iq_jw_u64(w, n);
}

static void layer_value(struct iq_jw *w, uint16_t layer)
{
    if (layer == IQ_NO_LAYER)
        iq_jw_null(w);
    else
        iq_jw_u64(w, layer);
}

static void attr_value(struct iq_jw *w, enum iq_attr attr, uint32_t value)
{
    const char *word = iq_attr_word(attr, value);
    if (word)
        iq_jw_str(w, word);
    else
        iq_jw_u64(w, value);
}

static void buckets_json(const struct iq_trigger *t, struct iq_jw *w)
{
    iq_jw_key(w, "buckets");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < t->n_buckets; i++) {
        iq_jw_begin(w, '{');
        iq_jw_key(w, iq_attr_text(t->attr));
        attr_value(w, t->attr, t->bucket[i].value);
        key_u64(w, "evaluated", t->bucket[i].evaluated);
        key_u64(w, "guilty", t->bucket[i].guilty);
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
}

/* {"batch":[7],"rate":1,"chance":1e-9,"buckets":[...]} or null */
static void trigger_json(const struct iq_trigger *t, struct iq_jw *w)
{
    if (!t->found) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '{');
    iq_jw_key(w, iq_attr_text(t->attr));
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < t->n_buckets; i++)
        if (t->bucket[i].in) attr_value(w, t->attr, t->bucket[i].value);
    iq_jw_end(w, ']');
    iq_jw_key(w, "rate");
    iq_jw_f64(w, t->rate);
    iq_jw_key(w, "chance");
    iq_jw_f64(w, t->chance);
    buckets_json(t, w);
    iq_jw_end(w, '}');
}

static void vitro_json(const struct iq_guilty *g, struct iq_jw *w)
{
    iq_jw_key(w, "vitro");
    if (!g->judged && !*g->vitro.evidence) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '{');
    key_str(w, "numerics", g->judged ? iq_numerics_text(g->vitro.numerics) : NULL);
    key_str(w, "evidence", g->vitro.evidence);
    iq_jw_end(w, '}');
}

static void layers_json(const struct iq_guilty *g, struct iq_jw *w, const char *key, bool told)
{
    iq_jw_key(w, key);
    if (!told) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < g->n_layers; i++)
        if (g->layer[i] != IQ_NO_LAYER) iq_jw_u64(w, g->layer[i]);
    iq_jw_end(w, ']');
}

static void guilty_json(const struct iq_guilty *g, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    key_str(w, "op", g->op);
    key_str(w, "kind", g->kind);
    key_str(w, "variant", g->variant);
    iq_jw_key(w, "fault");
    if (g->fault < 0)
        iq_jw_null(w);
    else
        iq_jw_u64(w, (uint64_t)g->fault);
    layers_json(g, w, "layers", true);
    key_u64(w, "cells", g->cells);
    key_u64(w, "evaluated", g->evaluated);
    key_u64(w, "positions", g->positions);
    iq_jw_key(w, "first");
    iq_jw_begin(w, '{');
    iq_jw_key(w, "request");
    iq_jw_str(w, g->request_id);
    key_u64(w, "position", g->pos);
    iq_jw_key(w, "layer");
    layer_value(w, g->first_layer);
    key_u64(w, "step", g->step);
    key_u64(w, "batch", g->batch);
    key_u64(w, "tokens", g->tokens);
    iq_jw_end(w, '}');
    layers_json(g, w, "trigger_layers", g->layers_told);
    iq_jw_key(w, "trigger");
    trigger_json(&g->trigger, w);
    if (!g->trigger.found) {
        key_str(w, "trigger_reason", g->trigger.reason);
        buckets_json(&g->trigger, w);
    }
    vitro_json(g, w);
    iq_jw_end(w, '}');
}

static void first_json(const struct iq_finding *f, struct iq_jw *w)
{
    iq_jw_key(w, "first");
    if (!f->has_first) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '{');
    iq_jw_key(w, "request");
    iq_jw_str(w, f->first_request);
    key_u64(w, "position", f->first_pos);
    iq_jw_key(w, "layer");
    layer_value(w, f->first_layer);
    key_str(w, "op", f->first_op);
    iq_jw_end(w, '}');
}

static void rungs_json(const struct iq_finding *f, struct iq_jw *w)
{
    iq_jw_key(w, "prompts");
    iq_jw_begin(w, '{');
    key_str(w, "rung", f->same_prompts ? "same" : "differ");
    key_str(w, "note", f->prompts_note);
    iq_jw_end(w, '}');
    iq_jw_key(w, "weights");
    iq_jw_begin(w, '{');
    key_str(w, "rung", iq_weights_text(f->weights));
    key_str(w, "note", f->weights_note);
    iq_jw_end(w, '}');
    iq_jw_key(w, "contract");
    iq_jw_begin(w, '{');
    key_str(w, "rung", f->same_contract ? "same" : "differ");
    key_str(w, "note", f->contract_note);
    iq_jw_end(w, '}');
    iq_jw_key(w, "chains");
    iq_jw_begin(w, '{');
    key_u64(w, "positions", f->positions);
    key_u64(w, "differing", f->positions_differing);
    key_u64(w, "heals", f->healed);
    iq_jw_end(w, '}');
}

static void answers_json(const struct iq_answers *a, struct iq_jw *w)
{
    key_u64(w, "asked", a->asked);
    key_u64(w, "golden", a->golden_right);
    key_u64(w, "subject", a->subject_right);
    key_u64(w, "lost", a->lost);
    key_u64(w, "gained", a->gained);
}

static void accuracy_json(const struct iq_finding *f, struct iq_jw *w)
{
    if (!f->answers.asked) {
        iq_jw_null(w);
        return;
    }
    iq_jw_begin(w, '{');
    answers_json(&f->answers, w);
    iq_jw_key(w, "by_batch");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < f->n_batches; i++) {
        iq_jw_begin(w, '{');
        key_u64(w, "batch", f->batch[i].batch);
        answers_json(&f->batch[i], w);
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
    iq_jw_end(w, '}');
}

static void effect_json(const struct iq_finding *f, struct iq_jw *w)
{
    iq_jw_key(w, "tokens");
    iq_jw_begin(w, '{');
    key_u64(w, "changed", f->changed);
    iq_jw_key(w, "share");
    iq_jw_f64(w, f->requests ? (double)f->changed / (double)f->requests : 0);
    key_u64(w, "tie_flips", f->tie_flips);
    key_u64(w, "decisive_flips", f->decisive_flips);
    iq_jw_key(w, "largest_margin");
    iq_jw_f64(w, f->worst_margin);
    key_u64(w, "nan_positions", f->nans);
    key_u64(w, "invalid_tokens", f->invalid_tokens);
    iq_jw_end(w, '}');
    iq_jw_key(w, "accuracy");
    accuracy_json(f, w);
}

void iq_finding_json(const struct iq_finding *f, struct iq_jw *w)
{
    const struct iq_guilty *primary = f->n_guilty ? &f->guilty[0] : NULL;
    iq_jw_begin(w, '{');
    key_str(w, "label", iq_label_text(f->label));
    key_str(w, "field_term", iq_finding_term(f));
    key_str(w, "numerics", iq_numerics_text(f->numerics));
    key_str(w, "effect", iq_effect_text(f->effect));
    key_str(w, "reason", f->reason);
    key_str(w, "golden", f->golden);
    key_str(w, "subject", f->subject);
    iq_jw_key(w, "requests");
    iq_jw_begin(w, '{');
    key_u64(w, "total", f->requests);
    key_u64(w, "differing", f->differing);
    key_u64(w, "missing", f->missing);
    key_u64(w, "extra", f->extra);
    iq_jw_end(w, '}');
    first_json(f, w);
    iq_jw_key(w, "guilty");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < f->n_guilty; i++) guilty_json(&f->guilty[i], w);
    iq_jw_end(w, ']');
    key_str(w, "guilty_note", f->guilty_note);
    iq_jw_key(w, "trigger");
    if (primary)
        trigger_json(&primary->trigger, w);
    else
        iq_jw_null(w);
    key_str(w, "trigger_reason", primary && !primary->trigger.found ? primary->trigger.reason : NULL);
    rungs_json(f, w);
    effect_json(f, w);
    key_str(w, "crash", f->crash);
    if (f->show_fired) {
        iq_jw_key(w, "fired");
        iq_jw_begin(w, '{');
        key_u64(w, "records", f->fired);
        key_u64(w, "rows", f->fired_rows);
        key_u64(w, "rows_changed", f->fired_changed);
        iq_jw_end(w, '}');
    }
    key_str(w, "replay", f->replay);
    iq_jw_end(w, '}');
}
