#include "harness/cli/commands.h"

static int run(struct iq_call *call, struct iq_err *err)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    iq_completion_bash(&text);
    int status = text.failed ? iq_fail(err, IQ_MEMORY, "no memory for the completion script") : IQ_OK;
    if (!status) iq_out_put(call->out, text.data, text.len);
    iq_buf_free(&text);
    return status;
}

static const struct iq_flag flags[] = {{0}};

const struct iq_command iq_cmd_completion_bash = {
    .name = "completion bash",
    .one_line = "print a completion script for bash",
    .examples = ". <(inquest completion bash)\n"
                "inquest completion bash > ~/.local/share/bash-completion/completions/inquest\n",
    .flags = flags,
    .run = run,
};
