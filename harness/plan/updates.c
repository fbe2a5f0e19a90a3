#include "harness/plan/updates.h"

#include "harness/model/fetch.h"
#include "kernels/base/grow.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const char where[] = "the recorded manifest: updates";

static int add(struct iq_updates *u, uint32_t step, const char *path, struct iq_err *err)
{
    IQ_TRY(iq_grow(&u->at, &u->cap, (size_t)u->n + 1, sizeof *u->at, err));
    struct iq_update *at = &u->at[u->n++]; /* counted at once, so that iq_updates_free sees what follows */
    *at = (struct iq_update){.step = step, .path = path ? strdup(path) : NULL};
    return path && !at->path ? iq_fail(err, IQ_MEMORY, "no memory for a path") : IQ_OK;
}

/* The step in front of `end`. */
static int read_step(const char *flag, const char *text, char end, const char **behind, uint32_t *out,
                     struct iq_err *err)
{
    char *stop;
    errno = 0;
    unsigned long long step = strtoull(text, &stop, 10);
    if (text[0] < '0' || text[0] > '9' || errno || step > UINT32_MAX || *stop != end || (end && !stop[1]))
        return iq_fail(err, IQ_USAGE, "--%s: found \"%.80s\", expected %s", flag, text,
                       end ? "STEP=MODEL" : "a step");
    *out = (uint32_t)step;
    *behind = end ? stop + 1 : NULL;
    return IQ_OK;
}

int iq_updates_args(const struct iq_call *call, struct iq_updates *u, struct iq_err *err)
{
    static const char *const flags[] = {"update-weights", "sleep-weights"};
    const char *text, *path;
    char model[IQ_PATH_MAX];
    uint32_t step;
    for (int f = 0; f < 2; f++)
        for (int i = 0; (text = iq_arg_list(call, flags[f], i)); i++) {
            IQ_TRY(read_step(flags[f], text, f ? 0 : '=', &path, &step, err));
            if (path) IQ_TRY(iq_model_resolve(path, model, err));
            IQ_TRY(add(u, step, path ? model : NULL, err));
        }
    return IQ_OK;
}

int iq_updates_read(struct iq_updates *u, const cJSON *manifest, struct iq_err *err)
{
    const cJSON *item, *list = cJSON_GetObjectItemCaseSensitive(manifest, "updates");
    cJSON_ArrayForEach(item, list)
    {
        const char *path = NULL;
        uint64_t step;
        IQ_TRY(iq_json_u64(item, "step", 0, UINT32_MAX, where, &step, err));
        IQ_TRY(iq_json_str_opt(item, "path", where, &path, err));
        IQ_TRY(add(u, (uint32_t)step, path, err));
    }
    return IQ_OK;
}

void iq_updates_write(const struct iq_updates *u, struct iq_jw *w)
{
    if (!u->n) return;
    iq_jw_key(w, "updates");
    iq_jw_begin(w, '[');
    for (uint32_t i = 0; i < u->n; i++) {
        const struct iq_update *at = &u->at[i];
        iq_jw_begin(w, '{');
        iq_jw_key(w, "step"), iq_jw_u64(w, at->step);
        if (at->path) {
            iq_jw_key(w, "path"), iq_jw_str(w, at->path);
            iq_jw_key(w, "sha256"), iq_jw_str(w, at->model->sha256);
        }
        iq_jw_end(w, '}');
    }
    iq_jw_end(w, ']');
}

static int by_step(const void *a, const void *b)
{
    const struct iq_update *x = a, *y = b;
    return (x->step > y->step) - (x->step < y->step);
}

int iq_updates_open(struct iq_updates *u, const struct iq_model_options *o, struct iq_err *err)
{
    if (!u->n) return IQ_OK;
    qsort(u->at, u->n, sizeof *u->at, by_step);
    u->event = calloc(u->n, sizeof *u->event);
    if (!u->event) return iq_fail(err, IQ_MEMORY, "no memory for %u updates", u->n);
    for (uint32_t i = 0; i < u->n; i++) {
        struct iq_update *at = &u->at[i];
        if (at->path) IQ_TRY(iq_model_open(at->path, o, &at->model, err));
        u->event[i] = (struct iq_weights_event){at->step, at->model};
    }
    return IQ_OK;
}

void iq_updates_free(struct iq_updates *u)
{
    for (uint32_t i = 0; i < u->n; i++) {
        free(u->at[i].path);
        iq_model_close(u->at[i].model);
    }
    free(u->at);
    free(u->event);
    *u = (struct iq_updates){0};
}
