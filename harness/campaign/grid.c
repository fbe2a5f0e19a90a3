#include "harness/campaign/grid.h"

#include "kernels/base/digest.h"
#include "kernels/base/grow.h"
#include "kernels/base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const iq_grid_fields[] = {"faults",      "libraries", "engine", "load", "prompts", "tokens",
                                      "repetitions", "seed",      "limits", "name", NULL};
enum { TRIALS_MAX = 1 << 24, CELLS_MAX = 1 << 20, AXIS_MAX = 65536, FAULTS_MAX = 256, SET_MAX = 64 };

/* ---- values that vary ---- */

enum vary { VARY_NOT, VARY_EACH, VARY_DRAW, VARY_CHOOSE };

static enum vary vary_of(const cJSON *item)
{
    if (!cJSON_IsObject(item) || !item->child || item->child->next) return VARY_NOT;
    const char *key = item->child->string;
    return !strcmp(key, "each")     ? VARY_EACH
           : !strcmp(key, "draw")   ? VARY_DRAW
           : !strcmp(key, "choose") ? VARY_CHOOSE
                                    : VARY_NOT;
}

static int draw_range(const cJSON *list, const char *where, uint64_t *lo, uint64_t *hi, struct iq_err *err)
{
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != 2)
        return iq_fail(err, IQ_FORMAT, "%s: draw: expected [least, most]", where);
    IQ_TRY(iq_json_item_u64(list->child, 0, (uint64_t)1 << 53, where, lo, err));
    return iq_json_item_u64(list->child->next, *lo, (uint64_t)1 << 53, where, hi, err);
}

/* Checks every value that varies under `item`, and multiplies the axes. */
static int survey(const cJSON *item, const char *where, bool draws, uint64_t *combos, struct iq_err *err)
{
    enum vary v = vary_of(item);
    const cJSON *child;
    uint64_t lo, hi;
    if (v != VARY_NOT) {
        const cJSON *list = item->child;
        int n = cJSON_GetArraySize(list);
        if (!cJSON_IsArray(list) || n < 1 || n > AXIS_MAX)
            return iq_fail(err, IQ_FORMAT, "%s: %s: expected a list of 1 to %d values", where, list->string,
                           AXIS_MAX);
        if (v != VARY_EACH && !draws)
            return iq_fail(err, IQ_FORMAT, "%s: %s: only faults vary by repetition; use each", where,
                           list->string);
        if (v == VARY_DRAW) return draw_range(list, where, &lo, &hi, err);
        if (v == VARY_EACH && (*combos *= (uint64_t)n) > CELLS_MAX)
            return iq_fail(err, IQ_LIMIT, "%s: its axes have more than %d combinations", where, CELLS_MAX);
        return IQ_OK;
    }
    cJSON_ArrayForEach(child, item) IQ_TRY(survey(child, where, draws, combos, err));
    return IQ_OK;
}

/* What decides the values of one trial. */
struct choice {
    uint64_t combo, seed; /* what is left of the axes; of the draws */
    uint64_t place;       /* of the value that varies, in document order */
    struct iq_err *err;
};

static cJSON *no_memory(const struct choice *c)
{
    iq_fail(c->err, IQ_MEMORY, "no memory for a trial's plan");
    return NULL;
}

static cJSON *choose(const cJSON *item, enum vary v, struct choice *c)
{
    const cJSON *list = item->child;
    uint64_t n = (uint64_t)cJSON_GetArraySize(list), place = c->place++, lo = 0, hi = 0;
    if (v == VARY_EACH) {
        uint64_t at = c->combo % n;
        c->combo /= n;
        return cJSON_Duplicate(cJSON_GetArrayItem(list, (int)at), true);
    }
    uint64_t bits = iq_draw(c->seed, place, IQ_DRAW_FAULT);
    if (v == VARY_CHOOSE) return cJSON_Duplicate(cJSON_GetArrayItem(list, (int)(bits % n)), true);
    if (draw_range(list, "draw", &lo, &hi, c->err)) return NULL;
    cJSON *number = cJSON_CreateNumber((double)(lo + bits % (hi - lo + 1)));
    if (number) number->type |= IQ__JSON_EXACT;
    return number;
}

/* A copy of `item` with every varying value chosen; NULL: no memory. */
static cJSON *concrete(const cJSON *item, struct choice *c)
{
    enum vary v = vary_of(item);
    const cJSON *child;
    if (v != VARY_NOT) return choose(item, v, c);
    if (!cJSON_IsArray(item) && !cJSON_IsObject(item)) return cJSON_Duplicate(item, false);
    cJSON *copy = cJSON_IsArray(item) ? cJSON_CreateArray() : cJSON_CreateObject();
    cJSON_ArrayForEach(child, item)
    {
        cJSON *made = copy ? concrete(child, c) : NULL;
        bool ok = made && (cJSON_IsArray(item) ? cJSON_AddItemToArray(copy, made)
                                               : cJSON_AddItemToObject(copy, child->string, made));
        if (ok) continue;
        cJSON_Delete(made);
        cJSON_Delete(copy);
        return no_memory(c);
    }
    return copy ? copy : no_memory(c);
}

/* Axes in words: ", KEY VALUE" for each. */
static void axes_text(const cJSON *item, const char *key, uint64_t *combo, struct iq_buf *out)
{
    const cJSON *child;
    if (vary_of(item) == VARY_EACH) {
        uint64_t n = (uint64_t)cJSON_GetArraySize(item->child);
        const cJSON *value = cJSON_GetArrayItem(item->child, (int)(*combo % n));
        char *text = cJSON_IsString(value) ? NULL : cJSON_PrintUnformatted(value);
        *combo /= n;
        iq_buf_printf(out, "%s%s%s%s", out->len ? ", " : "", key ? key : "", key ? " " : "",
                      cJSON_IsString(value) ? value->valuestring
                      : text                ? text
                                            : "?");
        cJSON_free(text);
        return;
    }
    if (vary_of(item) != VARY_NOT) return;
    cJSON_ArrayForEach(child, item) axes_text(child, child->string ? child->string : key, combo, out);
}

/* ---- opening ---- */

static const cJSON *member(const cJSON *plan, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(plan, key);
}

static int read_numbers(struct iq_grid *g, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"seconds", "mib", NULL};
    uint64_t tokens = 32, repetitions = 1, seconds = 60, mib = 4096;
    const cJSON *limits = member(g->plan, "limits");
    const char *name = NULL;
    char at[512];
    IQ_TRY(iq_json_str_opt(g->plan, "name", where, &name, err));
    IQ_TRY(iq_json_u64_opt(g->plan, "tokens", 1, 1 << 20, where, &tokens, err));
    IQ_TRY(iq_json_u64_opt(g->plan, "repetitions", 1, TRIALS_MAX, where, &repetitions, err));
    IQ_TRY(iq_json_u64_opt(g->plan, "seed", 0, (uint64_t)1 << 53, where, &g->seed, err));
    if (limits) {
        snprintf(at, sizeof at, "%s: limits", where);
        IQ_TRY(iq_json_known(limits, known, at, err));
        IQ_TRY(iq_json_u64_opt(limits, "seconds", 1, 86400, at, &seconds, err));
        IQ_TRY(iq_json_u64_opt(limits, "mib", 1, 1 << 20, at, &mib, err));
    }
    g->tokens = (uint32_t)tokens;
    g->repetitions = (uint32_t)repetitions;
    g->seconds = (uint32_t)seconds;
    g->mib = (uint32_t)mib;
    return IQ_OK;
}

static int read_engines(struct iq_grid *g, const char *where, struct iq_err *err)
{
    const cJSON *engine = member(g->plan, "engine");
    uint64_t combos = 1;
    char at[512];
    snprintf(at, sizeof at, "%s: engine", where);
    if (engine) IQ_TRY(survey(engine, at, false, &combos, err));
    g->engine = calloc(combos, sizeof *g->engine);
    if (!g->engine) return iq_fail(err, IQ_MEMORY, "no memory for %llu settings", (unsigned long long)combos);
    g->engines = (uint32_t)combos;
    for (uint32_t e = 0; e < g->engines; e++) {
        struct choice c = {.combo = e, .err = err};
        struct iq_settings *s = &g->engine[e];
        iq_settings_init(s);
        s->batch = 0; /* the load, where the plan does not say */
        cJSON *json = engine ? concrete(engine, &c) : NULL;
        if (engine && !json) return IQ_MEMORY;
        int status = json ? iq_settings_json(json, at, s, err) : IQ_OK;
        cJSON_Delete(json);
        IQ_TRY(status);
        s->threads = 1; /* a trial's process has one: it was forked */
        if (s->device)
            return iq_fail(
                err, IQ_UNSUPPORTED,
                "%s: device: a campaign's trials are forked, and a device does not outlive a fork; "
                "leave it at cpu, or use `run --plan` on the device",
                at);
    }
    return IQ_OK;
}

/* The loads, each at most the prompts. */
static int read_loads(const struct iq_grid *g, const char *where, uint32_t **out, uint32_t *n,
                      struct iq_err *err)
{
    const cJSON *load = member(g->plan, "load"), *list = load;
    uint64_t v = 1, combos = 1;
    char at[512];
    snprintf(at, sizeof at, "%s: load", where);
    if (load && vary_of(load) != VARY_NOT) {
        IQ_TRY(survey(load, at, false, &combos, err));
        list = load->child;
    }
    bool several = load && list != load;
    *n = several ? (uint32_t)combos : 1;
    *out = calloc(*n, sizeof **out);
    if (!*out) return iq_fail(err, IQ_MEMORY, "no memory for %u loads", *n);
    for (uint32_t i = 0; i < *n; i++) {
        const cJSON *item = several ? cJSON_GetArrayItem(list, (int)i) : load;
        if (item) IQ_TRY(iq_json_item_u64(item, 1, 4096, at, &v, err));
        if (v > g->prompts)
            return iq_fail(err, IQ_FORMAT, "%s: %llu prompts in flight, but there are %u", at,
                           (unsigned long long)v, g->prompts);
        (*out)[i] = (uint32_t)v;
    }
    return IQ_OK;
}

static int add_cell(struct iq_grid *g, size_t *cap, struct iq_cell_of_grid c, struct iq_err *err)
{
    uint64_t trials = (uint64_t)c.groups * g->repetitions;
    if (g->cells == CELLS_MAX || trials > TRIALS_MAX || g->trials + trials > TRIALS_MAX)
        return iq_fail(err, IQ_LIMIT, "the plan has more than %d trials or %d cells", TRIALS_MAX, CELLS_MAX);
    IQ_TRY(iq_grow(&g->cell, cap, (size_t)g->cells + 1, sizeof *g->cell, err));
    c.first = g->trials;
    c.trials = (uint32_t)trials;
    g->cell[g->cells++] = c;
    g->trials += c.trials;
    return IQ_OK;
}

/* Contexts are numbered by engine, load, group. */
static int add_cells(struct iq_grid *g, const uint32_t *load, uint32_t loads, const char *where,
                     struct iq_err *err)
{
    const cJSON *faults = member(g->plan, "faults"), *entry;
    uint32_t fault = 0, per_engine = 0;
    size_t cap = 0;
    char at[512];
    for (uint32_t i = 0; i < loads; i++) per_engine += g->prompts / load[i];
    g->contexts = per_engine * g->engines;
    cJSON_ArrayForEach(entry, faults)
    {
        uint64_t combos = 1;
        snprintf(at, sizeof at, "%s: faults[%u]", where, fault);
        IQ_TRY(survey(entry, at, true, &combos, err));
        for (uint64_t combo = 0; combo < combos; combo++)
            for (uint32_t e = 0; e < g->engines; e++)
                for (uint32_t i = 0, before = 0; i < loads; before += g->prompts / load[i++])
                    IQ_TRY(add_cell(g, &cap,
                                    (struct iq_cell_of_grid){.fault = fault,
                                                             .engine = e,
                                                             .load = load[i],
                                                             .combo = combo,
                                                             .groups = g->prompts / load[i],
                                                             .context = e * per_engine + before},
                                    err));
        fault++;
    }
    return IQ_OK;
}

static int check_faults(const struct iq_grid *g, const char *where, struct iq_err *err)
{
    const cJSON *faults = member(g->plan, "faults"), *entry;
    if (!cJSON_IsArray(faults) || !faults->child)
        return iq_fail(err, IQ_FORMAT, "%s: faults: expected a list of at least one fault", where);
    if (cJSON_GetArraySize(faults) > FAULTS_MAX)
        return iq_fail(err, IQ_LIMIT, "%s: faults: at most %d", where, FAULTS_MAX);
    cJSON_ArrayForEach(
        entry, faults) if (cJSON_IsArray(entry) &&
                           (!entry->child ||
                            cJSON_GetArraySize(entry) >
                                SET_MAX)) return iq_fail(err, IQ_FORMAT,
                                                         "%s: faults: a set of 1 to %d faults expected",
                                                         where, SET_MAX);
    return IQ_OK;
}

/* Every cell's first trial is a plan that can be armed. */
static int check_cells(const struct iq_grid *g, const char *where, struct iq_err *err)
{
    for (uint32_t i = 0; i < g->cells; i++) {
        struct iq_plan plan;
        struct iq_faultset *set = NULL;
        if (i && g->cell[i].fault == g->cell[i - 1].fault && g->cell[i].combo == g->cell[i - 1].combo)
            continue;
        int status = iq_grid_plan(g, g->cell[i].first, &plan, err);
        if (status == IQ_OK) status = iq_plan_check_ops(&plan, false, err);
        if (status == IQ_OK) status = iq_plan_check_device(&plan, &g->engine[g->cell[i].engine], err);
        if (status == IQ_OK) status = iq_faultset_open(plan.fault, plan.n, plan.seed, &set, err);
        iq_faultset_close(set);
        iq_plan_free(&plan);
        if (status != IQ_OK) return iq_err_prefix(err, "%s: faults[%u]: ", where, g->cell[i].fault), status;
    }
    return IQ_OK;
}

static int open_all(struct iq_grid *g, const char *where, bool arms, struct iq_err *err)
{
    uint32_t *load = NULL, loads = 0;
    IQ_TRY(iq_json_known(g->plan, iq_grid_fields, where, err));
    IQ_TRY(read_numbers(g, where, err));
    IQ_TRY(check_faults(g, where, err));
    IQ_TRY(read_engines(g, where, err));
    int status = read_loads(g, where, &load, &loads, err);
    if (status == IQ_OK) status = add_cells(g, load, loads, where, err);
    free(load);
    return status == IQ_OK && arms ? check_cells(g, where, err) : status;
}

int iq_grid_open(const cJSON *plan, const char *where, uint32_t n_prompts, bool arms, struct iq_grid *out,
                 struct iq_err *err)
{
    *out = (struct iq_grid){.prompts = n_prompts, .plan = cJSON_Duplicate(plan, true)};
    if (!out->plan) return iq_fail(err, IQ_MEMORY, "%s: no memory for the plan", where);
    cJSON_DeleteItemFromObjectCaseSensitive(out->plan, "prompts");
    int status = open_all(out, where, arms, err);
    if (status != IQ_OK) iq_grid_close(out);
    return status;
}

void iq_grid_close(struct iq_grid *g)
{
    cJSON_Delete(g->plan);
    free(g->engine);
    free(g->cell);
    *g = (struct iq_grid){0};
}

/* ---- trials ---- */

static uint32_t cell_of(const struct iq_grid *g, uint32_t index)
{
    uint32_t lo = 0, hi = g->cells;
    while (hi - lo > 1) {
        uint32_t mid = lo + (hi - lo) / 2;
        if (g->cell[mid].first <= index)
            lo = mid;
        else
            hi = mid;
    }
    return lo;
}

struct iq_grid_trial iq_grid_trial(const struct iq_grid *g, uint32_t index)
{
    uint32_t c = cell_of(g, index), at = index - g->cell[c].first;
    struct iq_grid_trial t = {.index = index,
                              .cell = c,
                              .group = at / g->repetitions,
                              .repetition = at % g->repetitions,
                              .context = g->cell[c].context + at / g->repetitions};
    t.seed = iq_mix64(g->seed ^ iq_mix64(((uint64_t)t.repetition << 32 | t.group) + 1)) >> 11;
    return t;
}

int iq_grid_plan(const struct iq_grid *g, uint32_t index, struct iq_plan *out, struct iq_err *err)
{
    struct iq_grid_trial t = iq_grid_trial(g, index);
    const struct iq_cell_of_grid *cell = &g->cell[t.cell];
    const cJSON *entry = cJSON_GetArrayItem(member(g->plan, "faults"), (int)cell->fault);
    struct choice c = {.combo = cell->combo, .seed = t.seed, .err = err};
    *out = (struct iq_plan){0};
    cJSON *plan = cJSON_CreateObject(), *faults = concrete(entry, &c);
    if (faults && !cJSON_IsArray(faults)) {
        cJSON *list = cJSON_CreateArray();
        if (list) cJSON_AddItemToArray(list, faults);
        faults = list;
    }
    if (!plan || !faults || !cJSON_AddItemToObject(plan, "faults", faults)) {
        cJSON_Delete(faults);
        cJSON_Delete(plan);
        return iq_fail(err, IQ_MEMORY, "no memory for a trial's plan");
    }
    int status = iq_plan_parse(plan, "plan", out, NULL, err);
    if (status == IQ_OK) out->seed = t.seed;
    cJSON_Delete(plan);
    return status;
}

void iq_grid_context(const struct iq_grid *g, uint32_t context, const struct iq_settings **s, uint32_t *load,
                     uint32_t *prompt)
{
    uint32_t i = 0;
    while (context < g->cell[i].context || context >= g->cell[i].context + g->cell[i].groups) i++;
    *s = &g->engine[g->cell[i].engine];
    *load = g->cell[i].load;
    *prompt = (context - g->cell[i].context) * g->cell[i].load;
}

/* ---- words ---- */

void iq_grid_cell_name(const struct iq_grid *g, uint32_t cell, struct iq_buf *out)
{
    const cJSON *entry = cJSON_GetArrayItem(member(g->plan, "faults"), (int)g->cell[cell].fault);
    const cJSON *first = cJSON_IsArray(entry) ? entry->child : entry, *name = member(first, "name");
    const cJSON *variant = member(first, "variant"), *op = member(first, "op");
    if (cJSON_IsString(name))
        iq_buf_printf(out, "%s", name->valuestring);
    else
        iq_buf_printf(out, "%s%s%s", cJSON_IsString(op) ? op->valuestring : "",
                      cJSON_IsString(op) && cJSON_IsString(variant) ? "/" : "",
                      cJSON_IsString(variant) ? variant->valuestring : "");
}

void iq_grid_cell_axes(const struct iq_grid *g, uint32_t cell, struct iq_buf *out)
{
    const struct iq_cell_of_grid *c = &g->cell[cell];
    uint64_t combo = c->combo, engine = c->engine;
    axes_text(cJSON_GetArrayItem(member(g->plan, "faults"), (int)c->fault), NULL, &combo, out);
    if (member(g->plan, "engine")) axes_text(member(g->plan, "engine"), NULL, &engine, out);
}
