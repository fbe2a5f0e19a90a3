#include "harness/campaign/table.h"
#include "harness/cli/commands.h"

#include <stdlib.h>

static int read_table(struct iq_store *store, const char *id, struct iq_table *t, struct iq_err *err)
{
    struct iq_campaign_info info;
    char *manifest;
    IQ_TRY(iq_campaign_find(store, id, &info, err));
    IQ_TRY(iq_campaign_manifest(store, info.id, &manifest, err));
    int status = iq_table_open(manifest, &info, t, err);
    free(manifest);
    IQ_TRY(status);
    status = iq_campaign_rows(store, info.id, iq_table_add, t, err);
    if (status == IQ_FORMAT && !err->text[0])
        iq_fail(err, IQ_FORMAT, "campaign %s: a row is of another cell than the plan's", info.id);
    if (status != IQ_OK) iq_table_close(t);
    return status;
}

static int run(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    struct iq_table t;
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    struct iq_jw w = IQ_JW(&text);
    if (iq_arg_on(call, "json") && iq_arg_on(call, "csv"))
        return iq_fail(err, IQ_USAGE, "expected one of --json and --csv");
    IQ_TRY(iq_store_open(iq_arg_str(call, "store"), NULL, &store, err));
    int status = read_table(store, call->n_operands ? call->operands[0] : NULL, &t, err);
    iq_store_close(store);
    IQ_TRY(status);
    if (iq_arg_on(call, "json"))
        iq_table_json(&t, &w);
    else if (iq_arg_on(call, "csv"))
        iq_table_csv(&t, &text);
    else
        iq_table_text(&t, 0, &text);
    iq_table_close(&t);
    status = iq_out_line(call->out, &text, err);
    iq_buf_free(&text);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "store", .type = IQ_FLAG_STRING, .meta = "DIR", .help = "the store", .required = true},
    {.name = "csv", .type = IQ_FLAG_SWITCH, .help = "print comma-separated values"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_report_campaign = {
    .name = "report campaign",
    .one_line = "the table of a campaign: what became of its trials, per fault and bucket",
    .operands = "[CAMPAIGN]",
    .operands_max = 1,
    .about =
        "CAMPAIGN is an id or its first digits; it may be left out where the store has one campaign.\n"
        "\n"
        "A line a cell of the grid. fired: trials in which a fault struck; masked: it did and no bit that "
        "lasts\n"
        "differs; benign, suspect, wrong: as `diff` has them, by the guilty op's variant in vitro and the "
        "tokens that\n"
        "changed; crashed: killed, out of time or memory, or logits that are no numbers. caught: of the "
        "trials "
        "that\n"
        "differ, those whose guilty op, found blind, is the fault's. Intervals are Wilson's at 95 %.\n",
    .examples = "inquest report campaign --store S\n"
                "inquest report campaign --store S 3f9a --json\n"
                "inquest report campaign --store S --csv > campaign.csv\n",
    .flags = flags,
    .run = run,
};
