#include "harness/plan/plan.h"

#include "harness/plan/variants.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FAULTS_MAX = 256, LIBRARIES_MAX = 16 };
#define FILE_MAX ((size_t)4 << 20)

static int read_faults(const cJSON *list, const char *where, struct iq_plan *out, struct iq_err *err)
{
    const cJSON *item;
    char at[512];
    int n = cJSON_GetArraySize(list);
    if (!list) return IQ_OK;
    if (!cJSON_IsArray(list)) return iq_fail(err, IQ_FORMAT, "%s: faults: expected a list", where);
    if (n > FAULTS_MAX) return iq_fail(err, IQ_LIMIT, "%s: %d faults; at most %d", where, n, FAULTS_MAX);
    out->fault = calloc((size_t)n + 1, sizeof *out->fault);
    if (!out->fault) return iq_fail(err, IQ_MEMORY, "%s: no memory for %d faults", where, n);
    cJSON_ArrayForEach(item, list)
    {
        snprintf(at, sizeof at, "%s: faults[%zu]", where, out->n);
        IQ_TRY(iq_fault_parse(item, at, &out->fault[out->n], err));
        out->n++;
    }
    return IQ_OK;
}

static int read_libraries(const cJSON *list, const char *dir, const char *where, struct iq_plan *out,
                          struct iq_err *err)
{
    const cJSON *item;
    char at[512];
    int n = cJSON_GetArraySize(list);
    if (!list) return IQ_OK;
    if (!cJSON_IsArray(list)) return iq_fail(err, IQ_FORMAT, "%s: libraries: expected a list", where);
    if (n > LIBRARIES_MAX)
        return iq_fail(err, IQ_LIMIT, "%s: %d libraries; at most %d", where, n, LIBRARIES_MAX);
    out->library = calloc((size_t)n + 1, sizeof *out->library);
    if (!out->library) return iq_fail(err, IQ_MEMORY, "%s: no memory for %d libraries", where, n);
    cJSON_ArrayForEach(item, list)
    {
        snprintf(at, sizeof at, "%s: libraries[%zu]", where, out->libraries);
        IQ_TRY(iq_user_read(item, dir, at, &out->library[out->libraries], err));
        out->libraries++;
    }
    return IQ_OK;
}

/* dir: what libraries' paths are relative to; NULL: here. */
static int parse(const cJSON *json, const char *where, const char *dir, struct iq_plan *out,
                 struct iq_settings *settings, struct iq_err *err)
{
    static const char *const known[] = {"faults", "engine", "seed", "libraries", NULL};
    struct iq_settings scratch;
    char at[512];
    *out = (struct iq_plan){0};
    IQ_TRY(iq_variants_register(err));
    IQ_TRY(iq_json_known(json, known, where, err));
    IQ_TRY(iq_json_u64_opt(json, "seed", 0, (uint64_t)1 << 53, where, &out->seed, err));
    const cJSON *engine = cJSON_GetObjectItemCaseSensitive(json, "engine");
    snprintf(at, sizeof at, "%s: engine", where);
    iq_settings_init(&scratch);
    if (engine) IQ_TRY(iq_settings_json(engine, at, settings ? settings : &scratch, err));
    int status = read_libraries(cJSON_GetObjectItemCaseSensitive(json, "libraries"), dir, where, out, err);
    if (status == IQ_OK)
        status = read_faults(cJSON_GetObjectItemCaseSensitive(json, "faults"), where, out, err);
    if (status != IQ_OK) iq_plan_free(out);
    return status;
}

int iq_plan_parse(const cJSON *json, const char *where, struct iq_plan *out, struct iq_settings *settings,
                  struct iq_err *err)
{
    return parse(json, where, NULL, out, settings, err);
}

static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
}

int iq_plan_load(const char *path, struct iq_plan *out, struct iq_settings *settings, struct iq_err *err)
{
    cJSON *json;
    *out = (struct iq_plan){0};
    IQ_TRY(iq_json_load(path, FILE_MAX, &json, err));
    char *dir = folder_of(path);
    int status =
        dir ? parse(json, path, dir, out, settings, err) : iq_fail(err, IQ_MEMORY, "%s: no memory", path);
    free(dir);
    iq_json_free(json);
    return status;
}

static bool has_op(const struct iq_fault *f, bool training)
{
    for (unsigned op = 0; op < IQ_ALL_OPS; op++) {
        bool trains = iq_op_trains(op);
        bool struck = f->op == IQ_OP_NONE ? iq_op_kind((enum iq_op_id)op) == f->kind : f->op == op;
        if (trains == training && struck) return true;
    }
    return false;
}

int iq_plan_check_ops(const struct iq_plan *p, bool training, struct iq_err *err)
{
    for (size_t i = 0; i < p->n; i++) {
        const struct iq_fault *f = &p->fault[i];
        if (!has_op(f, training))
            return iq_fail(err, IQ_UNSUPPORTED,
                           "fault %s: %s is an op of %s, and this is a run that %s; use %s", f->name,
                           f->op == IQ_OP_NONE ? f->kind->name : iq_op_name(f->op),
                           training ? "answering" : "training", training ? "trains" : "answers",
                           training ? "`inquest run --plan`" : "`inquest model train canary --plan`");
        if (training && iq_fault_asks_rows(f))
            return iq_fail(err, IQ_UNSUPPORTED,
                           "fault %s: it asks about requests, of which training has none; `when` may ask for "
                           "step, op, layer, rank, batch, tokens and arg.*, `per` must be \"call\"",
                           f->name);
    }
    return IQ_OK;
}

int iq_plan_check_device(const struct iq_plan *p, const struct iq_settings *s, struct iq_err *err)
{
    struct iq_engine_config c;
    iq_settings_engine(s, &c);
    for (size_t i = 0; i < p->n; i++) {
        const struct iq_fault *f = &p->fault[i];
        const struct iq_kind *kind = f->op == IQ_OP_NONE ? f->kind : iq_op_kind((enum iq_op_id)f->op);
        bool device = strcmp(c.device, "cpu") && iq_variant_find(kind->name, "cuda");
        const char *needs = device ? "cpu" : "cuda"; /* the variants that can't run there */
        if (!strcmp(c.device, "cuda-shim") && (f->variant->flags & IQ_V_HARDWARE))
            return iq_fail(err, IQ_UNSUPPORTED,
                           "fault %s: variant %s of %s works on GPUs only; found --device cuda-shim", f->name,
                           f->variant->name, kind->name);
        if (device && iq_trigger_reads(f->when))
            return iq_fail(err, IQ_UNSUPPORTED,
                           "fault %s: value.%s asks for numbers of %s, which lie on the device; use --device "
                           "cpu, found --device %s",
                           f->name, iq_trigger_reads(f->when), kind->name, c.device);
        if (iq_fault_is_workaround(f) || strcmp(f->variant->device, needs)) continue;
        return iq_fail(err, IQ_UNSUPPORTED,
                       "fault %s: variant %s of %s runs only with --device %s; found --device %s", f->name,
                       f->variant->name, kind->name,
                       device                              ? "cpu"
                       : f->variant->flags & IQ_V_HARDWARE ? "cuda"
                                                           : "cuda or cuda-shim",
                       c.device);
    }
    return IQ_OK;
}

int iq_plan_add_library(struct iq_plan *p, const struct iq_user_use *u, struct iq_err *err)
{
    struct iq_user_use *grown = realloc(p->library, (p->libraries + 1) * sizeof *grown);
    if (!grown) return iq_fail(err, IQ_MEMORY, "no memory for a library");
    p->library = grown;
    p->library[p->libraries++] = *u;
    return IQ_OK;
}

/* An entry that is a path alone becomes an object first. */
static int pin(cJSON *list, int i, const struct iq_user_use *u, struct iq_err *err)
{
    cJSON *item = cJSON_GetArrayItem(list, i);
    if (cJSON_IsString(item)) {
        cJSON *object = cJSON_CreateObject();
        if (!object || !cJSON_AddStringToObject(object, "file", item->valuestring) ||
            !cJSON_ReplaceItemInArray(list, i, object)) {
            cJSON_Delete(object);
            return iq_fail(err, IQ_MEMORY, "no memory for a plan");
        }
        item = object;
    }
    if (!*iq_user_sha256(u) || cJSON_GetObjectItemCaseSensitive(item, "sha256")) return IQ_OK;
    return cJSON_AddStringToObject(item, "sha256", iq_user_sha256(u))
               ? IQ_OK
               : iq_fail(err, IQ_MEMORY, "no memory for a plan");
}

int iq_plan_pin_libraries(cJSON *plan, const char *path, struct iq_err *err)
{
    struct iq_plan read = {0};
    cJSON *list = cJSON_GetObjectItemCaseSensitive(plan, "libraries");
    if (!list) return IQ_OK;
    char *dir = folder_of(path);
    int status = dir ? iq_variants_register(err) : iq_fail(err, IQ_MEMORY, "%s: no memory", path);
    if (status == IQ_OK) status = read_libraries(list, dir, path, &read, err);
    for (size_t i = 0; i < read.libraries && status == IQ_OK; i++)
        status = pin(list, (int)i, &read.library[i], err);
    iq_plan_free(&read);
    free(dir);
    return status;
}

int iq_plan_start(const struct iq_plan *p, struct iq_err *err)
{
    for (size_t i = 0; i < p->libraries; i++) IQ_TRY(iq_user_start(&p->library[i], err));
    return IQ_OK;
}

void iq_plan_free(struct iq_plan *p)
{
    for (size_t i = 0; i < p->n; i++) iq_fault_free(&p->fault[i]);
    free(p->fault);
    free(p->library);
    *p = (struct iq_plan){0};
}

void iq_plan_write(const struct iq_plan *p, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "faults");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < p->n; i++) iq_fault_json(&p->fault[i], w);
    iq_jw_end(w, ']');
    iq_jw_key(w, "seed");
    iq_jw_u64(w, p->seed);
    if (p->libraries) {
        iq_jw_key(w, "libraries");
        iq_jw_begin(w, '[');
        for (size_t i = 0; i < p->libraries; i++) iq_user_write(&p->library[i], w);
        iq_jw_end(w, ']');
    }
    iq_jw_end(w, '}');
}
