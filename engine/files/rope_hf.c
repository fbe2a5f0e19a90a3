/* Rotary settings as transformers' configs name them: `rope_theta` beside `rope_scaling` (up to version 4), or both in
 * `rope_parameters` (version 5). */
#include "engine/files/config_parts.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FACTOR = 1, ORIGINAL = 2, YARN = 4, LOW_HIGH = 8, LISTS = 16, ATTENTION = 32 };

/* What a kind takes: needed, and allowed beside it. */
static const struct {
    unsigned needs, may;
} takes[IQ_ROPE_KINDS] = {
    [IQ_ROPE_LINEAR] = {FACTOR, 0},
    [IQ_ROPE_DYNAMIC] = {FACTOR, 0},
    [IQ_ROPE_YARN] = {0, FACTOR | ORIGINAL | YARN | ATTENTION},
    [IQ_ROPE_LLAMA3] = {FACTOR | LOW_HIGH, ORIGINAL},
    [IQ_ROPE_LONGROPE] = {LISTS, FACTOR | ORIGINAL | ATTENTION},
};

static const struct {
    const char *key;
    unsigned part;
    size_t field; /* of a double in struct iq_rope_config; SIZE_MAX: read elsewhere */
    double least;
} members[] = {
    {"factor", FACTOR, offsetof(struct iq_rope_config, factor), 1e-6},
    {"original_max_position_embeddings", ORIGINAL, SIZE_MAX, 0},
    {"attention_factor", ATTENTION, offsetof(struct iq_rope_config, attention_factor), 1e-6},
    {"beta_fast", YARN, offsetof(struct iq_rope_config, beta_fast), 1e-6},
    {"beta_slow", YARN, offsetof(struct iq_rope_config, beta_slow), 1e-6},
    {"mscale", YARN, offsetof(struct iq_rope_config, mscale), 0},
    {"mscale_all_dim", YARN, offsetof(struct iq_rope_config, mscale_all_dim), 0},
    {"truncate", YARN, SIZE_MAX, 0},
    {"low_freq_factor", LOW_HIGH, offsetof(struct iq_rope_config, low_freq_factor), 1e-6},
    {"high_freq_factor", LOW_HIGH, offsetof(struct iq_rope_config, high_freq_factor), 1e-6},
    {"short_factor", LISTS, SIZE_MAX, 0},
    {"long_factor", LISTS, SIZE_MAX, 0},
};
enum { MEMBERS = sizeof members / sizeof *members };

static const cJSON *present(const cJSON *object, const char *key)
{
    const cJSON *item = iq_model_json_use(object, key);
    return item && !cJSON_IsNull(item) ? item : NULL;
}

static int list(const cJSON *object, const char *key, const char *where, size_t n, double **out,
                struct iq_err *err)
{
    const cJSON *array = present(object, key), *item;
    if (!cJSON_IsArray(array) || (size_t)cJSON_GetArraySize(array) != n)
        return iq_fail(err, IQ_FORMAT,
                       "%s: `%s`: found %d elements, expected a list of %zu numbers (half the head size)",
                       where, key, cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0, n);
    if (!(*out = calloc(n, sizeof **out)))
        return iq_fail(err, IQ_MEMORY, "%s: no memory for `%s`", where, key);
    size_t i = 0;
    cJSON_ArrayForEach(item, array)
    {
        (*out)[i] = cJSON_IsNumber(item) ? item->valuedouble : 0;
        if (!((*out)[i] > 0))
            return iq_fail(err, IQ_FORMAT, "%s: `%s`[%zu] is no positive number", where, key, i);
        i++;
    }
    return IQ_OK;
}

static int read_member(const cJSON *object, size_t i, const char *where, struct iq_model_config *c,
                       struct iq_err *err)
{
    const char *key = members[i].key;
    struct iq_rope_config *r = &c->rope;
    if (members[i].field != SIZE_MAX)
        return iq_json_f64_opt(object, key, members[i].least, 1e6, where,
                               (double *)((char *)r + members[i].field), err);
    if (members[i].part == ORIGINAL)
        return iq_json_u64_opt(object, key, 1, IQ__MOST_CONTEXT, where, &r->original_context, err);
    if (members[i].part == YARN) return iq_json_bool_opt(object, key, where, &r->truncate, err);
    uint32_t head_dim = c->head_dim ? c->head_dim : c->hidden / c->heads;
    return list(object, key, where, head_dim / 2,
                !strcmp(key, "short_factor") ? &r->short_factor : &r->long_factor, err);
}

static int scaling(const cJSON *object, const char *where, struct iq_model_config *c, struct iq_err *err)
{
    const char *known[MEMBERS + 6], *kind = "default";
    size_t n = 0;
    for (; n < MEMBERS; n++) known[n] = members[n].key;
    known[n++] = "type";
    known[n++] = "rope_type";
    known[n++] = "rope_theta";
    known[n++] = "partial_rotary_factor";
    known[n] = NULL;
    IQ_TRY(iq_json_known(object, known, where, err));
    iq_model_json_use(object, "type");
    iq_model_json_use(object, "rope_type");
    IQ_TRY(iq_json_str_opt(object, "type", where, &kind, err));
    IQ_TRY(iq_json_str_opt(object, "rope_type", where, &kind, err));
    IQ_TRY(iq__rope_kind_find(kind, strlen(kind), where, &c->rope.kind, err));
    unsigned needs = takes[c->rope.kind].needs, may = needs | takes[c->rope.kind].may;
    for (size_t i = 0; i < MEMBERS; i++) {
        bool there = present(object, members[i].key);
        if (!there && (needs & members[i].part))
            return iq_fail(err, IQ_FORMAT, "%s: `%s` is missing, rotary scaling %s needs it", where,
                           members[i].key, iq_rope_kind_name(c->rope.kind));
        if (there && !(may & members[i].part) && c->rope.kind != IQ_ROPE_NONE && members[i].part != ORIGINAL)
            return iq_fail(err, IQ_UNSUPPORTED,
                           "%s: `%s` stands beside rotary scaling %s, which has no such setting", where,
                           members[i].key, iq_rope_kind_name(c->rope.kind));
        if (there && (may & members[i].part)) IQ_TRY(read_member(object, i, where, c, err));
    }
    return IQ_OK;
}

static int partial(const cJSON *object, const char *where, struct iq_err *err)
{
    double share = 1;
    iq_model_json_use(object, "partial_rotary_factor");
    IQ_TRY(iq_json_f64_opt(object, "partial_rotary_factor", 0, 1, where, &share, err));
    return share == 1 ? IQ_OK
                      : iq_fail(err, IQ_UNSUPPORTED,
                                "%s: `partial_rotary_factor` is %g; partly rotated heads are not built",
                                where, share);
}

int iq__rope_hf(const cJSON *config, const char *where, struct iq_model_config *c, struct iq_err *err)
{
    char inner[500];
    const cJSON *old = present(config, "rope_scaling"), *parameters = present(config, "rope_parameters");
    const cJSON *object = old ? old : parameters;
    c->rope.pairing = IQ_PAIR_HALVES;
    iq_model_json_use(config, "rope_theta");
    IQ_TRY(iq_json_f64_opt(config, "rope_theta", 1, 1e15, where, &c->rope.theta, err));
    IQ_TRY(partial(config, where, err));
    if (old && parameters)
        return iq_fail(err, IQ_FORMAT, "%s: holds both `rope_scaling` and `rope_parameters`, expected one",
                       where);
    if (!object) return IQ_OK;
    snprintf(inner, sizeof inner, "%.400s: `%s`", where, old ? "rope_scaling" : "rope_parameters");
    if (!cJSON_IsObject(object)) return iq_fail(err, IQ_FORMAT, "%s is no object", inner);
    c->rope.factor = 0;
    IQ_TRY(scaling(object, inner, c, err));
    iq_model_json_use(object, "rope_theta");
    IQ_TRY(iq_json_f64_opt(object, "rope_theta", 1, 1e15, inner, &c->rope.theta, err));
    IQ_TRY(partial(object, inner, err));
    if (present(config, "original_max_position_embeddings") && (takes[c->rope.kind].may & ORIGINAL))
        IQ_TRY(iq_json_u64_opt(config, "original_max_position_embeddings", 1, IQ__MOST_CONTEXT, where,
                               &c->rope.original_context, err));
    return IQ_OK;
}
