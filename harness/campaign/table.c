#include "harness/campaign/table.h"

#include "golden/answer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- counting ---- */

int iq_table_open(const char *manifest, const struct iq_campaign_info *info, struct iq_table *t,
                  struct iq_err *err)
{
    cJSON *m;
    uint64_t prompts = 0;
    *t = (struct iq_table){.info = *info};
    IQ_TRY(iq_json_parse(manifest, strlen(manifest), "the campaign's manifest", &m, err));
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(m, "plan");
    int status = iq_json_u64(m, "prompts", 1, 1 << 20, "the campaign's manifest", &prompts, err);
    if (status == IQ_OK && !plan)
        status = iq_fail(err, IQ_FORMAT, "the campaign's manifest: \"plan\" is missing");
    if (status == IQ_OK)
        status = iq_grid_open(plan, "the campaign's plan", (uint32_t)prompts, false, &t->grid, err);
    iq_json_free(m);
    IQ_TRY(status);
    t->cell = calloc(t->grid.cells, sizeof *t->cell);
    if (t->cell && t->grid.trials == info->trials) return IQ_OK;
    status = t->cell ? iq_fail(err, IQ_FORMAT, "the campaign's plan makes %u trials, its record says %u",
                               t->grid.trials, info->trials)
                     : iq_fail(err, IQ_MEMORY, "no memory for a table of %u lines", t->grid.cells);
    iq_table_close(t);
    return status;
}

void iq_table_close(struct iq_table *t)
{
    iq_grid_close(&t->grid);
    free(t->cell);
    t->cell = NULL;
}

int iq_table_add(void *table, const struct iq_trial_row *r)
{
    struct iq_table *t = table;
    if (r->cell >= t->grid.cells || r->cell != iq_grid_trial(&t->grid, r->index).cell) return IQ_FORMAT;
    struct iq_table_cell *c = &t->cell[r->cell];
    c->done++;
    c->fired += r->fired != 0;
    c->label[r->label]++;
    c->masked += r->label == IQ_LABEL_IDENTICAL && r->fired;
    if (r->label != IQ_LABEL_IDENTICAL && r->label != IQ_LABEL_CRASHED) {
        c->caught += r->caught;
        c->missed += !r->caught;
    }
    return IQ_OK;
}

/* The counts that a report shows, in order. */
static const struct column {
    const char *name;
    int label; /* -1: masked */
} columns[] = {{"masked", -1},
               {"benign", IQ_LABEL_BENIGN},
               {"suspect", IQ_LABEL_SUSPECT},
               {"wrong", IQ_LABEL_WRONG},
               {"crashed", IQ_LABEL_CRASHED}};
enum { COLUMNS = sizeof columns / sizeof *columns };

static uint64_t count_of(const struct iq_table_cell *c, int i)
{
    return columns[i].label < 0 ? c->masked : c->label[columns[i].label];
}

/* ---- writing ---- */

/* What a line is about, without control characters. */
static void names(const struct iq_table *t, uint32_t cell, char fault[64], char axes[96])
{
    struct iq_buf b = IQ_BUF(4096);
    iq_grid_cell_name(&t->grid, cell, &b);
    snprintf(fault, 64, "%s", b.data ? b.data : "");
    iq_buf_free(&b);
    b = IQ_BUF(4096);
    iq_grid_cell_axes(&t->grid, cell, &b);
    snprintf(axes, 96, "%s", b.data ? b.data : "");
    iq_buf_free(&b);
    for (char *c = fault; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
    for (char *c = axes; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f) *c = '?';
}

static void line_text(const struct iq_table *t, uint32_t cell, int wide_fault, int wide_axes,
                      struct iq_buf *out)
{
    const struct iq_table_cell *c = &t->cell[cell];
    char fault[64], axes[96];
    double low, high;
    names(t, cell, fault, axes);
    iq_buf_printf(out, "\n%-*s %-*s %4u %7" PRIu64 " %6" PRIu64, wide_fault, fault, wide_axes, axes,
                  t->grid.cell[cell].load, c->done, c->fired);
    for (int i = 0; i < COLUMNS; i++) iq_buf_printf(out, " %7" PRIu64, count_of(c, i));
    uint64_t bad = c->label[IQ_LABEL_SUSPECT] + c->label[IQ_LABEL_WRONG] + c->label[IQ_LABEL_CRASHED];
    if (!c->fired && !bad) {
        iq_buf_printf(out, "      -");
        return;
    }
    uint64_t of = c->fired > bad ? c->fired : bad; /* a crash takes its firing log along */
    iq_answer_interval(bad, of, &low, &high);
    iq_buf_printf(out, "  %5.1f %% [%.1f, %.1f]", 100.0 * (double)bad / (double)of, 100 * low, 100 * high);
    iq_buf_printf(out, "  %" PRIu64 "/%" PRIu64, c->caught, c->caught + c->missed);
}

void iq_table_text(const struct iq_table *t, uint32_t lines, struct iq_buf *out)
{
    int wide_fault = 5, wide_axes = 4;
    uint32_t shown = lines && lines < t->grid.cells ? lines : t->grid.cells;
    for (uint32_t i = 0; i < shown; i++) {
        char fault[64], axes[96];
        names(t, i, fault, axes);
        if ((int)strlen(fault) > wide_fault) wide_fault = (int)strlen(fault);
        if ((int)strlen(axes) > wide_axes) wide_axes = (int)strlen(axes);
    }
    iq_buf_printf(out, "%-*s %-*s %4s %7s %6s", wide_fault, "fault", wide_axes, "axes", "load", "trials",
                  "fired");
    for (int i = 0; i < COLUMNS; i++) iq_buf_printf(out, " %7s", columns[i].name);
    iq_buf_printf(out, "  suspect or worse of fired, 95 %%  caught");
    for (uint32_t i = 0; i < shown; i++) line_text(t, i, wide_fault, wide_axes, out);
    if (shown < t->grid.cells) iq_buf_printf(out, "\n... and %u lines more", t->grid.cells - shown);
    if (t->info.done < t->info.trials)
        iq_buf_printf(out, "\n%u of %u trials have a row; `inquest campaign --resume` goes on", t->info.done,
                      t->info.trials);
}

static void number(struct iq_jw *w, const char *key, uint64_t v)
{
    iq_jw_key(w, key);
    iq_jw_u64(w, v);
}

/* A count with the 95 % interval of its share of `of`. */
static void share(struct iq_jw *w, const char *key, uint64_t n, uint64_t of)
{
    double low, high;
    iq_answer_interval(n < of ? n : of, of, &low, &high);
    iq_jw_key(w, key);
    iq_jw_begin(w, '{');
    number(w, "n", n);
    iq_jw_key(w, "low"), iq_jw_f64(w, low);
    iq_jw_key(w, "high"), iq_jw_f64(w, high);
    iq_jw_end(w, '}');
}

void iq_table_json(const struct iq_table *t, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "campaign"), iq_jw_str(w, t->info.id);
    number(w, "trials", t->info.trials);
    number(w, "done", t->info.done);
    iq_jw_key(w, "cells");
    iq_jw_begin(w, '[');
    for (uint32_t i = 0; i < t->grid.cells; i++) {
        const struct iq_table_cell *c = &t->cell[i];
        char fault[64], axes[96];
        names(t, i, fault, axes);
        iq_jw_begin(w, '{');
        iq_jw_key(w, "fault"), iq_jw_str(w, fault);
        iq_jw_key(w, "axes"), iq_jw_str(w, axes);
        number(w, "load", t->grid.cell[i].load);
        number(w, "trials", t->grid.cell[i].trials);
        number(w, "done", c->done);
        share(w, "fired", c->fired, c->done);
        for (int k = 0; k < COLUMNS; k++) share(w, columns[k].name, count_of(c, k), c->done);
        number(w, "caught", c->caught);
        number(w, "missed", c->missed);
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
    iq_jw_end(w, '}');
}

/* A text of CSV (RFC 4180): quoted, quotes doubled. */
static void csv_text(const char *s, struct iq_buf *out)
{
    iq_buf_put(out, "\"", 1);
    for (; *s; s++) iq_buf_printf(out, *s == '"' ? "\"\"" : "%c", *s);
    iq_buf_put(out, "\"", 1);
}

void iq_table_csv(const struct iq_table *t, struct iq_buf *out)
{
    iq_buf_printf(out, "fault,axes,load,trials,done,fired");
    for (int k = 0; k < COLUMNS; k++)
        iq_buf_printf(out, ",%s,%s_low,%s_high", columns[k].name, columns[k].name, columns[k].name);
    iq_buf_printf(out, ",caught,missed");
    for (uint32_t i = 0; i < t->grid.cells; i++) {
        const struct iq_table_cell *c = &t->cell[i];
        char fault[64], axes[96];
        names(t, i, fault, axes);
        iq_buf_put(out, "\n", 1);
        csv_text(fault, out);
        iq_buf_put(out, ",", 1);
        csv_text(axes, out);
        iq_buf_printf(out, ",%u,%u,%" PRIu64 ",%" PRIu64, t->grid.cell[i].load, t->grid.cell[i].trials,
                      c->done, c->fired);
        for (int k = 0; k < COLUMNS; k++) {
            double low, high;
            iq_answer_interval(count_of(c, k), c->done, &low, &high);
            iq_buf_printf(out, ",%" PRIu64 ",%.6f,%.6f", count_of(c, k), low, high);
        }
        iq_buf_printf(out, ",%" PRIu64 ",%" PRIu64, c->caught, c->missed);
    }
}
