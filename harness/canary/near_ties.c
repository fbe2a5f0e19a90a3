#include "harness/canary/near_ties.h"

#include "harness/model/fetch.h"
#include "kernels/base/sha256.h"

#include <string.h>
#include <sys/stat.h>

/* Is this file the known model's? */
static bool is_file_of(const struct iq_known_model *k, const char *path)
{
    char hex[IQ_SHA256_HEX];
    struct stat st;
    return !stat(path, &st) && S_ISREG(st.st_mode) && (uint64_t)st.st_size == k->bytes &&
           iq_sha256_file(path, hex, NULL) == IQ_OK && !strcmp(hex, k->sha256);
}

int iq_near_ties_find(const char *model, const struct iq_shipped **out, struct iq_err *err)
{
    char path[IQ_PATH_MAX];
    *out = NULL;
    IQ_TRY(iq_model_resolve(model, path, err));
    for (const struct iq_known_model *k = iq_known_models; k->name; k++)
        if (k->near_ties && is_file_of(k, path)) *out = iq_shipped_find(k->near_ties);
    if (*out) return IQ_OK;
    return iq_fail(err, IQ_NOT_FOUND,
                   "no near ties ship for %s, which is none of the canaries; search its own with `inquest "
                   "canary search %s "
                   "> ties.jsonl` and give them with --prompts",
                   path, model);
}
