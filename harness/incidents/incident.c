#include "harness/incidents/incident.h"

#include "harness/incidents/incident_parts.h"
#include "harness/incidents/predict.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARMS_MAX = 64, SETS_MAX = 8, NAME_MAX = 60 };
static const size_t FILE_MAX = 4 << 20;

/* A name of an incident or an arm: it becomes part of a run's name in the store. */
static int read_name(const cJSON *obj, const char *where, const char **out, struct iq_err *err)
{
    IQ_TRY(iq_json_str(obj, "name", where, out, err));
    size_t n = strlen(*out);
    if (n && n <= NAME_MAX && strspn(*out, "abcdefghijklmnopqrstuvwxyz0123456789.-") == n) return IQ_OK;
    return iq_fail(err, IQ_FORMAT, "%s: name: found \"%.80s\", expected 1 to %d of a-z, 0-9, '.' and '-'",
                   where, *out, NAME_MAX);
}

/* ---- prompts ---- */

/* The arm's set of prompts: one that is there, if the overrides are equal. */
static int find_set(struct iq_incident *in, const cJSON *overrides, const char *where, unsigned *out,
                    struct iq_err *err)
{
    for (*out = 0; *out < in->n_sets; ++*out) {
        const cJSON *have = in->set[*out].overrides;
        if (overrides ? have && cJSON_Compare(have, overrides, true) : !have) return IQ_OK;
    }
    if (in->n_sets == SETS_MAX)
        return iq_fail(err, IQ_LIMIT, "%s: prompts: more than %d different sets of prompts", where, SETS_MAX);
    struct iq_prompt_set *set = &in->set[in->n_sets++];
    set->overrides = overrides;
    return iq__incident_prompts(in->lines, overrides, where, &set->prompts, err);
}

/* ---- plans ---- */

static bool names(const cJSON *list, const char *name)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list) if (!strcmp(item->valuestring, name)) return true;
    return false;
}

/* `without` names faults of the incident's plan. */
static int check_without(const cJSON *without, const struct iq_plan *base, const char *where,
                         struct iq_err *err)
{
    const cJSON *item;
    if (without && !cJSON_IsArray(without))
        return iq_fail(err, IQ_FORMAT, "%s: without: expected a list of names of faults", where);
    cJSON_ArrayForEach(item, without)
    {
        bool known = false;
        for (size_t i = 0; i < base->n && cJSON_IsString(item); i++)
            known |= !strcmp(base->fault[i].name, item->valuestring);
        if (!known)
            return iq_fail(err, IQ_FORMAT, "%s: without: found \"%.80s\", which names no fault of the plan",
                           where, cJSON_IsString(item) ? item->valuestring : "(no text)");
    }
    return IQ_OK;
}

static int add_faults(cJSON *list, const cJSON *faults, const struct iq_plan *base, const cJSON *without)
{
    const cJSON *item;
    size_t i = 0;
    cJSON_ArrayForEach(item, faults)
    {
        if (base && names(without, base->fault[i++].name)) continue;
        cJSON *copy = cJSON_Duplicate(item, true);
        if (!cJSON_AddItemToArray(list, copy)) {
            cJSON_Delete(copy);
            return IQ_MEMORY;
        }
    }
    return IQ_OK;
}

/* The incident's faults but those left out, then the arm's own. */
static int merge_plan(const cJSON *plan, const struct iq_plan *base, const cJSON *arm, const char *where,
                      struct iq_plan *out, struct iq_err *err)
{
    const cJSON *without = cJSON_GetObjectItemCaseSensitive(arm, "without");
    const cJSON *more = cJSON_GetObjectItemCaseSensitive(arm, "faults");
    cJSON *merged = cJSON_CreateObject(), *list = cJSON_AddArrayToObject(merged, "faults");
    int status = check_without(without, base, where, err);
    if (more && !cJSON_IsArray(more)) status = iq_fail(err, IQ_FORMAT, "%s: faults: expected a list", where);
    if (status == IQ_OK &&
        (!list || add_faults(list, cJSON_GetObjectItemCaseSensitive(plan, "faults"), base, without) ||
         add_faults(list, more, NULL, NULL)))
        status = iq_fail(err, IQ_MEMORY, "%s: no memory for its plan", where);
    if (status == IQ_OK) status = iq_plan_parse(merged, where, out, NULL, err);
    if (status == IQ_OK) out->seed = base->seed;
    cJSON_Delete(merged);
    return status;
}

/* Whether the plan can be armed, before anything is run. */
static int check_plan(const struct iq_plan *p, const char *where, struct iq_err *err)
{
    struct iq_faultset *set;
    int status = iq_faultset_open(p->fault, p->n, p->seed, &set, err);
    if (status != IQ_OK) iq_err_prefix(err, "%s: ", where);
    iq_faultset_close(set);
    return status;
}

/* ---- arms ---- */

static int read_arm(struct iq_incident *in, const cJSON *json, const cJSON *plan, const struct iq_plan *base,
                    const char *where, struct iq_err *err)
{
    static const char *const known[] = {"name",   "what",    "engine",  "without",
                                        "faults", "prompts", "predict", NULL};
    struct iq_arm *arm = &in->arm[in->n_arms++];
    char at[512];
    IQ_TRY(iq_json_known(json, known, where, err));
    IQ_TRY(read_name(json, where, &arm->name, err));
    for (unsigned i = 0; i + 1 < in->n_arms; i++)
        if (!strcmp(in->arm[i].name, arm->name))
            return iq_fail(err, IQ_FORMAT, "%s: name: \"%s\" is another arm's", where, arm->name);
    IQ_TRY(iq_json_str(json, "what", where, &arm->what, err));
    const cJSON *engine = cJSON_GetObjectItemCaseSensitive(json, "engine");
    snprintf(at, sizeof at, "%.400s: engine", where);
    arm->settings = in->settings;
    if (engine) IQ_TRY(iq_settings_json(engine, at, &arm->settings, err));
    IQ_TRY(find_set(in, cJSON_GetObjectItemCaseSensitive(json, "prompts"), where, &arm->set, err));
    IQ_TRY(merge_plan(plan, base, json, where, &arm->plan, err));
    IQ_TRY(check_plan(&arm->plan, where, err));
    arm->predict = cJSON_GetObjectItemCaseSensitive(json, "predict");
    snprintf(at, sizeof at, "%.400s: predict", where);
    return iq_predict_read(arm->predict, at, err);
}

static int read_arms(struct iq_incident *in, const cJSON *plan, const struct iq_plan *base, const char *where,
                     struct iq_err *err)
{
    const cJSON *arms = cJSON_GetObjectItemCaseSensitive(in->json, "arms"), *item;
    int n = cJSON_GetArraySize(arms);
    char at[512];
    if (!cJSON_IsArray(arms) || !n)
        return iq_fail(err, IQ_FORMAT, "%s: arms: expected a list of arms", where);
    if (n > ARMS_MAX) return iq_fail(err, IQ_LIMIT, "%s: arms: %d of them, at most %d", where, n, ARMS_MAX);
    in->arm = calloc((size_t)n, sizeof *in->arm);
    in->set = calloc(SETS_MAX, sizeof *in->set);
    if (!in->arm || !in->set) return iq_fail(err, IQ_MEMORY, "%s: no memory for %d arms", where, n);
    unsigned first;
    snprintf(at, sizeof at, "%.400s: prompts", where);
    IQ_TRY(find_set(in, NULL, at, &first, err));
    cJSON_ArrayForEach(item, arms)
    {
        snprintf(at, sizeof at, "%.400s: arms[%u]", where, in->n_arms);
        IQ_TRY(read_arm(in, item, plan, base, at, err));
    }
    return IQ_OK;
}

/* ---- the file ---- */

static int read_head(struct iq_incident *in, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"name",    "id",     "title", "source", "story", "model",
                                        "prompts", "engine", "plan",  "arms",   NULL};
    const cJSON *j = in->json;
    char at[512];
    IQ_TRY(iq_json_known(j, known, where, err));
    IQ_TRY(read_name(j, where, &in->name, err));
    IQ_TRY(iq_json_str(j, "id", where, &in->id, err));
    IQ_TRY(iq_json_str(j, "title", where, &in->title, err));
    IQ_TRY(iq_json_str(j, "source", where, &in->source, err));
    IQ_TRY(iq_json_str(j, "story", where, &in->story, err));
    IQ_TRY(iq_json_str_opt(j, "model", where, &in->model, err));
    iq_settings_init(&in->settings);
    const cJSON *engine = cJSON_GetObjectItemCaseSensitive(j, "engine");
    snprintf(at, sizeof at, "%.400s: engine", where);
    return engine ? iq_settings_json(engine, at, &in->settings, err) : IQ_OK;
}

static int read_all(struct iq_incident *in, const char *where, struct iq_err *err)
{
    static const char *const known[] = {"faults", "seed", NULL};
    const cJSON *plan = cJSON_GetObjectItemCaseSensitive(in->json, "plan");
    struct iq_plan base = {0};
    char at[512];
    IQ_TRY(read_head(in, where, err));
    IQ_TRY(iq__incident_lines(cJSON_GetObjectItemCaseSensitive(in->json, "prompts"), where, &in->lines, err));
    snprintf(at, sizeof at, "%.400s: plan", where);
    IQ_TRY(iq_json_known(plan, known, at, err)); /* settings have a place of their own */
    int status = iq_plan_parse(plan, at, &base, NULL, err);
    if (status == IQ_OK) status = read_arms(in, plan, &base, where, err);
    iq_plan_free(&base);
    return status;
}

int iq_incident_parse(const char *text, size_t len, const char *where, struct iq_incident *in,
                      struct iq_err *err)
{
    *in = (struct iq_incident){.model = "smollm2"};
    IQ_TRY(iq_json_parse(text, len, where, &in->json, err));
    int status = read_all(in, where, err);
    if (status != IQ_OK) iq_incident_free(in);
    return status;
}

/* The length of the incident's name in a shipped file's; 0: it is no incident. */
static size_t stem(const char *file)
{
    size_t n = strlen(file);
    return n > 5 && !strcmp(file + n - 5, ".json") ? n - 5 : 0;
}

const struct iq_shipped *iq_shipped_find(const char *name)
{
    size_t n = strlen(name);
    for (const struct iq_shipped *s = iq_shipped; s->file; s++)
        if (!strcmp(s->file, name) || (n && stem(s->file) == n && !memcmp(s->file, name, n))) return s;
    return NULL;
}

void iq_shipped_names(struct iq_buf *b)
{
    for (const struct iq_shipped *s = iq_shipped; s->file; s++)
        if (stem(s->file)) iq_buf_printf(b, "%.*s ", (int)stem(s->file), s->file);
}

int iq_incident_unknown(const char *name, struct iq_err *err)
{
    enum { LISTED = 64 };
    char stems[LISTED][NAME_MAX + 8];
    const char *known[LISTED + 1] = {0};
    size_t n = 0;
    for (const struct iq_shipped *s = iq_shipped; s->file && n < LISTED; s++) {
        if (!stem(s->file)) continue;
        snprintf(stems[n], sizeof stems[n], "%.*s", (int)stem(s->file), s->file);
        known[n] = stems[n];
        n++;
    }
    return iq_not_among("incident", name, known, "NAME (a known incident, or a path)", IQ_USAGE, err);
}

int iq_incident_load(const char *name, struct iq_incident *in, struct iq_err *err)
{
    size_t n = strlen(name);
    *in = (struct iq_incident){0};
    if (strchr(name, '/') || (n > 5 && !strcmp(name + n - 5, ".json"))) {
        struct iq_buf text = IQ_BUF(FILE_MAX);
        int status = iq__incident_file(name, FILE_MAX, &text, err);
        if (status == IQ_OK) status = iq_incident_parse(text.data ? text.data : "", text.len, name, in, err);
        iq_buf_free(&text);
        return status;
    }
    const struct iq_shipped *s = iq_shipped_find(name);
    if (!s || !stem(s->file)) return iq_incident_unknown(name, err);
    return iq_incident_parse((const char *)s->text, s->len, s->file, in, err);
}

void iq_incident_free(struct iq_incident *in)
{
    for (unsigned i = 0; i < in->n_arms; i++) iq_plan_free(&in->arm[i].plan);
    for (unsigned i = 0; i < in->n_sets; i++) iq_prompts_free(&in->set[i].prompts);
    free(in->arm);
    free(in->set);
    iq_json_free(in->lines);
    iq_json_free(in->json);
    *in = (struct iq_incident){0};
}
