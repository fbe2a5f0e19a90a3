#include "harness/report/postmortem.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { VALUES_SHOWN = 4 }; /* more of them, without a gap, are told as a range */

static double percent(uint64_t part, uint64_t whole)
{
    return whole ? 100.0 * (double)part / (double)whole : 0;
}

static void verdict(const struct iq_finding *f, struct iq_buf *b)
{
    const char *label = iq_label_text(f->label), *term = iq_finding_term(f);
    bool plain = !term || !strcmp(label, term); /* not "benign (benign)" */
    if (f->label == IQ_LABEL_IDENTICAL) /* whose reason begins with its own word: identical or masked */
        iq_buf_printf(b, "verdict    %s\n", f->reason);
    else
        iq_buf_printf(b, "verdict    %s%s%s%s: %s\n", label, plain ? "" : " (", plain ? "" : term,
                      plain ? "" : ")", f->reason);
    iq_buf_printf(b, "runs       golden %s, subject %s\n", f->golden, f->subject);
    iq_buf_printf(b, "premises   prompts %s%s%s; weights %s%s%s%s%s%s\n",
                  f->same_prompts ? "the same" : "differ", f->prompts_note[0] ? ": " : "", f->prompts_note,
                  iq_weights_text(f->weights), f->weights_note[0] ? ": " : "", f->weights_note,
                  f->same_contract ? "" : "; another arithmetic contract", f->contract_note[0] ? ": " : "",
                  f->contract_note);
    if (f->crash[0]) iq_buf_printf(b, "crash      %s\n", f->crash);
    if (f->nans || f->invalid_tokens)
        iq_buf_printf(b,
                      "invalid    %" PRIu64 " positions with NaN logits, %" PRIu64
                      " tokens outside the vocabulary\n",
                      f->nans, f->invalid_tokens);
}

static void extent(const struct iq_finding *f, struct iq_buf *b)
{
    iq_buf_printf(b,
                  "extent     %" PRIu64 " of %" PRIu64 " requests differ in a bit (%.1f %%), %" PRIu64
                  " of %" PRIu64 " positions; %" PRIu64 " requests healed\n",
                  f->differing, f->requests, percent(f->differing, f->requests), f->positions_differing,
                  f->positions, f->healed);
    if (!f->has_first) return;
    iq_buf_printf(b, "first      request %s, position %u, op %s", f->first_request, f->first_pos,
                  f->first_op);
    if (f->first_layer != IQ_NO_LAYER) iq_buf_printf(b, ", layer %u", f->first_layer);
    iq_buf_put(b, "\n", 1);
}

static void layers(const struct iq_guilty *g, struct iq_buf *b)
{
    if (!g->n_layers || g->layer[0] == IQ_NO_LAYER) return;
    iq_buf_printf(b, ", layer%s", g->n_layers > 1 ? "s" : "");
    for (size_t i = 0; i < g->n_layers && i < 8; i++) iq_buf_printf(b, "%s%u", i ? "," : " ", g->layer[i]);
    if (g->n_layers > 8) iq_buf_printf(b, ",... (%zu)", g->n_layers);
}

static void value(enum iq_attr attr, uint32_t v, struct iq_buf *b)
{
    const char *word = iq_attr_word(attr, v);
    if (word)
        iq_buf_printf(b, "%s", word);
    else
        iq_buf_printf(b, "%u", v);
}

void iq_trigger_text(const struct iq_trigger *t, bool brief, struct iq_buf *b)
{
    size_t set = 0, first = 0, last = 0;
    for (size_t i = 0; i < t->n_buckets; i++) {
        if (!t->bucket[i].in) continue;
        if (!set++) first = i;
        last = i;
    }
    iq_buf_printf(b, "%s ", iq_attr_text(t->attr));
    if (t->range && set > VALUES_SHOWN) {
        uint32_t lo = t->bucket[first].value, hi = t->bucket[last].value;
        if (last + 1 == t->n_buckets)
            iq_buf_printf(b, ">= %u", lo);
        else if (!first)
            iq_buf_printf(b, "<= %u", hi);
        else
            iq_buf_printf(b, "from %u to %u", lo, hi);
        return;
    }
    iq_buf_printf(b, brief ? "" : "in {");
    for (size_t i = first; i <= last; i++) {
        if (!t->bucket[i].in) continue;
        if (i != first) iq_buf_printf(b, brief ? "," : ", ");
        value(t->attr, t->bucket[i].value, b);
    }
    iq_buf_printf(b, brief ? "" : "}");
}

static void layer_clause(const struct iq_guilty *g, struct iq_buf *b)
{
    iq_buf_printf(b, "layer in {");
    for (size_t i = 0; i < g->n_layers && g->layer[i] != IQ_NO_LAYER; i++)
        iq_buf_printf(b, "%s%u", i ? ", " : "", g->layer[i]);
    iq_buf_printf(b, g->layers_open ? "} (behind these it had other inputs)" : "}");
}

static void trigger(const struct iq_guilty *g, struct iq_buf *b)
{
    const struct iq_trigger *t = &g->trigger;
    iq_buf_printf(b, "  trigger  ");
    if (!t->found && g->layers_told) {
        layer_clause(g, b);
        iq_buf_printf(b, ": its other layers are clean beside these; no other trigger is told apart\n");
        return;
    }
    if (!t->found) {
        iq_buf_printf(b, "not told apart: ");
        if (t->near) iq_trigger_text(t, false, b), iq_buf_printf(b, " fits, but ");
        iq_buf_printf(b, "%s\n", t->reason);
        return;
    }
    iq_trigger_text(t, false, b);
    if (g->layers_told) {
        iq_buf_printf(b, ", ");
        layer_clause(g, b);
    }
    if (g->layers_told)
        iq_buf_printf(b, ": there %.1f %% of positions have a guilty cell", 100 * t->hit);
    else
        iq_buf_printf(b, ": there %.1f %% of cells are guilty", 100 * t->rate);
    iq_buf_printf(b, ", elsewhere none (by chance: %.2g)\n", t->chance);
    iq_buf_printf(b, "  %-8s guilty of evaluated:", iq_attr_text(t->attr));
    for (size_t i = 0; i < t->n_buckets && i < 16; i++) {
        iq_buf_printf(b, i ? ", " : " ");
        value(t->attr, t->bucket[i].value, b);
        iq_buf_printf(b, ": %" PRIu64 "/%" PRIu64, t->bucket[i].guilty, t->bucket[i].evaluated);
    }
    iq_buf_printf(b, t->n_buckets > 16 ? ", ... (%zu values)\n" : "\n", t->n_buckets);
}

/* What a guilty op is called: chains can't tell the ops before the logits apart. */
static void guilty_name(const struct iq_guilty *g, struct iq_buf *b)
{
    if (!strcmp(g->op, "body"))
        iq_buf_printf(b, "guilty     an op before the logits");
    else
        iq_buf_printf(b, "guilty     %s", g->op);
    if (g->variant[0]) iq_buf_printf(b, ", variant %s", g->variant);
}

static void guilty(const struct iq_finding *f, struct iq_buf *b)
{
    if (f->guilty_note[0]) iq_buf_printf(b, "guilty     %s\n", f->guilty_note);
    for (size_t i = 0; i < f->n_guilty; i++) {
        const struct iq_guilty *g = &f->guilty[i];
        guilty_name(g, b);
        iq_buf_printf(b,
                      ": in %" PRIu64 " of %" PRIu64 " cells its inputs are golden's and its output is not",
                      g->cells, g->evaluated);
        layers(g, b);
        iq_buf_printf(b, "\n  first    request %s, position %u, step %u, batch %u\n", g->request_id, g->pos,
                      g->step, g->batch);
        trigger(g, b);
        if (g->judged)
            iq_buf_printf(b, "  in vitro %s: %s\n", iq_numerics_text(g->vitro.numerics), g->vitro.evidence);
    }
}

static void accuracy(const struct iq_finding *f, struct iq_buf *b)
{
    const struct iq_answers *a = &f->answers;
    if (!a->asked) return;
    iq_buf_printf(b,
                  "accuracy   exact answers: golden %" PRIu64 "/%" PRIu64 ", subject %" PRIu64 "/%" PRIu64
                  " (%" PRIu64 " lost, %" PRIu64 " gained)\n",
                  a->golden_right, a->asked, a->subject_right, a->asked, a->lost, a->gained);
    if (f->n_batches < 2) return;
    iq_buf_printf(b, "  batch    subject (golden) of asked:");
    for (size_t i = 0; i < f->n_batches && i < 16; i++) {
        a = &f->batch[i];
        iq_buf_printf(b, "%s%u: %" PRIu64, i ? ", " : " ", a->batch, a->subject_right);
        if (a->golden_right != a->subject_right) iq_buf_printf(b, " (%" PRIu64 ")", a->golden_right);
        iq_buf_printf(b, "/%" PRIu64, a->asked);
    }
    iq_buf_printf(b, f->n_batches > 16 ? ", ... (%zu values)\n" : "\n", f->n_batches);
}

static void effect(const struct iq_finding *f, struct iq_buf *b)
{
    char words[32]; /* "tie flips", not the identifier of the JSON */
    snprintf(words, sizeof words, "%s", iq_effect_text(f->effect));
    for (char *p = words; (p = strchr(p, '_'));) *p = ' ';
    iq_buf_printf(b, "effect     %s: %" PRIu64 " of %" PRIu64 " answers changed (%.1f %%)", words, f->changed,
                  f->requests, percent(f->changed, f->requests));
    if (f->tie_flips + f->decisive_flips)
        iq_buf_printf(
            b, "; first flips: %" PRIu64 " at near ties, %" PRIu64 " decisive, largest golden margin %.3g",
            f->tie_flips, f->decisive_flips, f->worst_margin);
    iq_buf_put(b, "\n", 1);
    accuracy(f, b);
    if (f->show_fired)
        iq_buf_printf(b,
                      "fired      %" PRIu64 " times over %" PRIu64 " rows; %" PRIu64
                      " rows had a changed bit (firing log)\n",
                      f->fired, f->fired_rows, f->fired_changed);
}

void iq_postmortem_text(const struct iq_finding *f, struct iq_buf *b)
{
    verdict(f, b);
    extent(f, b);
    guilty(f, b);
    effect(f, b);
    if (f->replay) iq_buf_printf(b, "replay     %s\n", f->replay);
}
