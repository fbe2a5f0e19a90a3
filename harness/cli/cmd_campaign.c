#include "harness/campaign/campaign.h"
#include "harness/cli/commands.h"
#include "harness/cli/progress.h"
#include "harness/cli/run_common.h"
#include "harness/model/fetch.h"
#include "harness/plan/settings.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "i/n", 1 to n. */
static int read_shard(const char *text, struct iq_campaign_options *o, struct iq_err *err)
{
    unsigned long i = 0, n = 0;
    char *end = NULL;
    o->shard = 0;
    o->shards = 1;
    if (!text) return IQ_OK;
    i = strtoul(text, &end, 10);
    if (*end == '/') n = strtoul(end + 1, &end, 10);
    if (*end || !i || i > n || n > 1000000 || strchr(text, '-'))
        return iq_fail(err, IQ_USAGE, "--shard: found \"%.40s\", expected I/N with I from 1 to N", text);
    o->shard = (uint32_t)i - 1;
    o->shards = (uint32_t)n;
    return IQ_OK;
}

static int print(struct iq_call *call, const struct iq_campaign_end *end, struct iq_err *err)
{
    struct iq_buf line = IQ_BUF(4096);
    struct iq_jw w = IQ_JW(&line);
    if (iq_arg_on(call, "json")) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "campaign"), iq_jw_str(&w, end->info.id);
        iq_jw_key(&w, "trials"), iq_jw_u64(&w, end->info.trials);
        iq_jw_key(&w, "done"), iq_jw_u64(&w, end->info.done);
        iq_jw_key(&w, "ran"), iq_jw_u64(&w, end->ran);
        iq_jw_key(&w, "aboard"), iq_jw_u64(&w, end->aboard);
        iq_jw_key(&w, "seconds"), iq_jw_f64(&w, end->seconds);
        iq_jw_end(&w, '}');
    } else {
        iq_buf_printf(&line, "%s  %u of %u trials", end->info.id, end->info.done, end->info.trials);
        iq_say("%u trials in %.1f s; `inquest report campaign --store %s` has the table", end->ran,
               end->seconds, iq_arg_str(call, "store"));
    }
    int status = iq_out_line(call->out, &line, err);
    iq_buf_free(&line);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    char model[IQ_PATH_MAX];
    struct iq_campaign_end end;
    struct iq_campaign_options o = {.plan = call->operands[0],
                                    .store = iq_arg_str(call, "store"),
                                    .resume = iq_arg_on(call, "resume"),
                                    .alone = iq_arg_on(call, "alone"),
                                    .jobs = (uint32_t)iq_arg_int(call, "jobs"),
                                    .model = model};
    IQ_TRY(read_shard(iq_arg_str(call, "shard"), &o, err));
    struct iq_settings settings;
    iq_settings_init(&settings);
    if (!o.jobs) o.jobs = settings.threads;
    IQ_TRY(iq_model_resolve(iq_arg_str(call, "model"), model, err));
    IQ_TRY(iq_campaign_run(&o, &end, err));
    return print(call, &end, err);
}

static const struct iq_flag flags[] = {
    {.name = "store",
     .type = IQ_FLAG_STRING,
     .meta = "DIR",
     .help = "where the rows go; made where it is missing",
     .required = true},
    IQ_MODEL_FLAG,
    {.name = "jobs",
     .type = IQ_FLAG_INT,
     .meta = "N",
     .lo = 0,
     .hi = 256,
     .help = "workers, one thread each; the model is in memory once (default 0: the cores that this process "
             "may use)",
     .fallback = "0"},
    {.name = "shard",
     .type = IQ_FLAG_STRING,
     .meta = "I/N",
     .help = "only the I-th of N parts, for job arrays: stores of parts merge by `store export` and import"},
    {.name = "alone",
     .type = IQ_FLAG_SWITCH,
     .help = "every trial in a process of its own; without it those of one prompt share forward passes where "
             "that can't "
             "change a bit, which is many times faster"},
    {.name = "resume",
     .type = IQ_FLAG_SWITCH,
     .help = "go on with a campaign that has rows in the store already"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_campaign = {
    .name = "campaign",
    .one_line = "run the trials of a plan's grid, each in a process of its own, into a store",
    .operands = "PLAN",
    .operands_min = 1,
    .operands_max = 1,
    .about =
        "PLAN is a JSON file:\n"
        "  faults       a list of faults as in `run --plan`, or lists of them that strike together\n"
        "  prompts      a list of prompts as in `run --prompts`, or the name of a file beside the plan\n"
        "  engine       settings, spelled as the options of `run` with _ for -; optional\n"
        "  load         prompts in flight together (default 1): a batch bucket\n"
        "  tokens       most tokens of an answer (default 32); repetitions (1), seed (0)\n"
        "  limits       {\"seconds\": 60, \"mib\": 4096} of each trial\n"
        "\n"
        "Inside faults, engine and for load a value may be\n"
        "  {\"each\": [value, ...]}     an axis of the grid\n"
        "  {\"draw\": [least, most]}    an integer, drawn anew in each repetition (faults only)\n"
        "  {\"choose\": [value, ...]}   one of them, likewise\n"
        "\n"
        "plan.json, for instance, of 2 x 2 cells and 20 trials each:\n"
        "  {\"faults\": [{\"op\": \"down\", \"variant\": \"low_precision\", \"params\": {\"bits\": "
        "{\"each\": [8, "
        "4]}},\n"
        "               \"when\": {\"layer\": {\"draw\": [0, 3]}, \"phase\": \"decode\"}}],\n"
        "   \"load\": {\"each\": [1, 2]}, \"tokens\": 8, \"repetitions\": 10, \"seed\": 1,\n"
        "   \"prompts\": [{\"id\": \"a\", \"prompt\": \"The sky is\"}, {\"id\": \"b\", \"prompt\": \"Water "
        "is\"}]}\n"
        "\n"
        "Golden is run once for each engine setting and group of prompts; a trial begins where its first "
        "fault "
        "can\n"
        "fire, and ends when it is golden again. A crash, an endless loop (limits.seconds) or a hunger for "
        "memory\n"
        "(limits.mib) is a row with its reason. The rows depend on plan, model and prompts alone: interrupt "
        "with ^C or\n"
        "kill -9 what you like and go on with --resume.\n",
    .examples = "inquest campaign plan.json --store S\n"
                "inquest campaign plan.json --store S --resume --jobs 8\n"
                "inquest campaign plan.json --store S1 --shard 1/4\n"
                "inquest report campaign --store S --csv\n",
    .flags = flags,
    .run = run,
};
