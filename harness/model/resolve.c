#include "harness/model/fetch.h"

#include <stdio.h>
#include <unistd.h>

int iq_model_resolve(const char *name, char path[IQ_PATH_MAX], struct iq_err *err)
{
    const struct iq_known_model *m = iq_known_model_find(name);
    const char *near;
    bool fetched;
    path[0] = 0;
    if (!m && access(name, F_OK) && (near = iq_known_model_near(name)))
        return iq_fail(err, IQ_NOT_FOUND, "%s: no such file, and no known model; did you mean \"%s\"?", name,
                       near);
    if (m && m->embedded) return iq_model_fetch(m, false, path, &fetched, err);
    if (m && access(name, F_OK)) {
        IQ_TRY(iq_known_model_path(m, path, err));
        return iq_known_model_check(m, path, false, err);
    }
    if (snprintf(path, IQ_PATH_MAX, "%s", name) < IQ_PATH_MAX) return IQ_OK;
    return iq_fail(err, IQ_LIMIT, "%.80s...: the path is too long", name);
}
