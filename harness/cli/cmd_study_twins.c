/* `study twins`. */
#include "harness/cli/commands.h"
#include "harness/study/twins.h"

static int run(struct iq_call *call, struct iq_err *err)
{
    enum { NAMED = 64 };
    const char *factor[NAMED + 1] = {NULL};
    struct iq_twins twins;
    struct iq_buf text = IQ_BUF(1 << 20);
    for (int i = 0; i < NAMED && (factor[i] = iq_arg_list(call, "factor", i)); i++) continue;
    const struct iq_twins_config c = {.steps = (uint32_t)iq_arg_int(call, "steps"),
                                      .threads = (uint32_t)iq_arg_int(call, "threads"),
                                      .seed = (uint64_t)iq_arg_int(call, "seed"),
                                      .factor = factor[0] ? factor : NULL};
    IQ_TRY(iq_twins_run(&c, &twins, err));
    if (iq_arg_on(call, "json"))
        iq_twins_json(&twins, &text);
    else
        iq_twins_text(&twins, &text);
    if (!iq_arg_on(call, "json") && text.len) text.len--; /* the last newline: the writer adds one */
    int status = iq_out_line(call->out, &text, err);
    if (!twins.repeated) call->verdict = IQ_FOUND;
    iq_buf_free(&text);
    iq_twins_close(&twins);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "steps",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "steps of each twin's training",
     .fallback = "400",
     .lo = 1,
     .hi = IQ_TWINS_STEPS_MAX},
    {.name = "threads",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "twins that are trained side by side; they change no number",
     .fallback = "1",
     .lo = 1,
     .hi = 256},
    {.name = "factor", .type = IQ_FLAG_LIST, .meta = "NAME", .help = "free only this one (default: all)"},
    {.name = "seed",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .help = "seed of weights, rows, dropout and questions",
     .fallback = "1",
     .lo = 0,
     .hi = 9007199254740992.0},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_study_twins = {
    .name = "study twins",
    .one_line = "train a small model again and again with one factor freed, and see how far its copies part",
    .about =
        "Two copies with nothing freed are equal to the bit. Then a copy for each factor: init-seed, "
        "data-order, "
        "dropout,\n"
        "sum-order, ring-2, ring-4, ring-8 (ranks that add in a ring), optimiser-order, optimiser-bf16, "
        "products-bf16.\n"
        "Each is a plan, which --json prints and `model train canary --plan` takes.\n"
        "\n"
        "The table gives the step, as plans count them, and the tensor of the first bit that differs from "
        "the "
        "reference;\n"
        "the norm of the weights' difference over that of the weights; the last training loss; and from "
        "held-out "
        "questions\n"
        "the share of exact answers and the mean negative log-likelihood of their tokens, each also less the "
        "reference's.\n"
        "Intervals are over questions, of that pair; the last line has the deviation over all copies whose "
        "bits "
        "differ.\n",
    .examples =
        "inquest study twins --threads 2\ninquest study twins --factor sum-order --factor dropout --json\n",
    .statuses = "  1  the two copies with nothing freed differ\n",
    .flags = flags,
    .run = run,
};
