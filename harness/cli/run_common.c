#include "harness/cli/run_common.h"

#include "harness/plan/variants.h"
#include "kernels/base/json.h"

int iq_run_adapters(const struct iq_call *call, struct iq_prompts *out, struct iq_err *err)
{
    const char *text;
    for (int i = 0; (text = iq_arg_list(call, "adapter", i)); i++)
        IQ_TRY(iq_adapters_add(&out->adapters, text, err));
    return IQ_OK;
}

int iq_run_prompts(const struct iq_call *call, struct iq_prompts *out, struct iq_err *err)
{
    const char *text = iq_arg_str(call, "prompt"), *file = iq_arg_str(call, "prompts");
    struct iq_prompt_defaults d = {.max_tokens = (uint32_t)iq_arg_int(call, "max-tokens"),
                                   .temperature = iq_arg_f64(call, "temperature"),
                                   .top_p = iq_arg_f64(call, "top-p"),
                                   .min_p = iq_arg_f64(call, "min-p"),
                                   .top_k = (uint64_t)iq_arg_int(call, "top-k"),
                                   .seed = (uint64_t)iq_arg_int(call, "seed"),
                                   .raw = iq_arg_on(call, "raw")};
    if (!text == !file) return iq_fail(err, IQ_USAGE, "expected one of --prompt TEXT and --prompts FILE");
    IQ_TRY(iq_run_adapters(call, out, err));
    return file ? iq_prompts_read(file, &d, out, err) : iq_prompts_one(text, &d, out, err);
}

int iq_run_kernels(const struct iq_call *call, struct iq_user_use out[IQ_USER_FILES], size_t *n,
                   struct iq_err *err)
{
    const char *path;
    *n = 0;
    IQ_TRY(iq_variants_register(err));
    while ((path = iq_arg_list(call, "kernels", (int)*n))) {
        if (*n == IQ_USER_FILES)
            return iq_fail(err, IQ_LIMIT, "--kernels: more than %d libraries", IQ_USER_FILES);
        IQ_TRY(iq_user_file(path, &out[(*n)++], err));
    }
    return IQ_OK;
}

int iq_run_trajectory(const struct iq_call *call, cJSON **out, struct iq_err *err)
{
    const char *path = iq_arg_str(call, "trajectory");
    *out = NULL;
    return path ? iq_json_load(path, (size_t)256 << 20, out, err) : IQ_OK;
}

/* How many requests the recorded run was to have; 0: its manifest does not say. */
static int requests_meant(struct iq_store *store, const char *id, uint64_t *out, struct iq_err *err)
{
    struct iq_trace t;
    cJSON *manifest;
    *out = 0;
    IQ_TRY(iq_store_trace(store, id, &t, err));
    if (iq_json_parse(t.manifest, t.manifest_len, "the recorded manifest", &manifest, NULL) == IQ_OK) {
        const cJSON *n = cJSON_GetObjectItemCaseSensitive(manifest, "requests");
        if (cJSON_IsNumber(n) && n->valuedouble >= 0 && n->valuedouble < 1e15)
            *out = (uint64_t)n->valuedouble;
        iq_json_free(manifest);
    }
    iq_trace_close(&t);
    return IQ_OK;
}

int iq_run_finished(struct iq_store *store, const char *run, const char *role, struct iq_err *err)
{
    struct iq_run_info info;
    uint64_t meant;
    IQ_TRY(iq_store_find(store, run, &info, err));
    if (info.state != IQ_RUN_RECORDING) return IQ_OK;
    IQ_TRY(requests_meant(store, info.id, &meant, err));
    return iq_fail(
        err, IQ_USAGE,
        "%s '%s' is still recording (%llu of %llu requests): finish it with `inquest record ...%s%s` first",
        role, run, (unsigned long long)info.requests, (unsigned long long)meant,
        info.name[0] ? " --name " : "", info.name);
}
