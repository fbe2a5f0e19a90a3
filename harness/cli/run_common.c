#include "harness/cli/run_common.h"

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
    return file ? iq_prompts_read(file, &d, out, err) : iq_prompts_one(text, &d, out, err);
}

int iq_run_trajectory(const struct iq_call *call, cJSON **out, struct iq_err *err)
{
    const char *path = iq_arg_str(call, "trajectory");
    *out = NULL;
    return path ? iq_json_load(path, (size_t)256 << 20, out, err) : IQ_OK;
}
