#include "harness/cli/commands.h"

#include "golden/campaign.h"
#include "golden/store.h"
#include "harness/cli/progress.h"
#include "kernels/base/json.h"

#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define STORE_FLAG                                                                                           \
    {                                                                                                        \
        .name = "store", .type = IQ_FLAG_STRING, .meta = "DIR", .help = "the store", .required = true        \
    }

static int open_store(struct iq_call *call, struct iq_store **out, struct iq_err *err)
{
    return iq_store_open(iq_arg_str(call, "store"), NULL, out, err);
}

static void number(struct iq_jw *w, const char *key, uint64_t v)
{
    iq_jw_key(w, key);
    iq_jw_u64(w, v);
}

static int emit(struct iq_call *call, struct iq_buf *line, int status, struct iq_err *err)
{
    if (status == IQ_OK) status = iq_out_line(call->out, line, err);
    iq_buf_free(line);
    return status;
}

typedef char run_name[IQ_STORE_NAME + 1];

static void names_json(const run_name *names, size_t n, struct iq_jw *w)
{
    iq_jw_key(w, "names");
    iq_jw_begin(w, '[');
    for (size_t i = 0; i < n; i++) iq_jw_str(w, names[i]);
    iq_jw_end(w, ']');
}

static void names_text(const run_name *names, size_t n, struct iq_buf *b)
{
    for (size_t i = 0; i < n; i++) iq_buf_printf(b, "%s%s", i ? ", " : "", names[i]);
}

static void run_json(const struct iq_run_info *r, const run_name *names, size_t n, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "run"), iq_jw_str(w, r->id);
    iq_jw_key(w, "name"), iq_jw_str(w, r->name[0] ? r->name : NULL);
    names_json(names, n, w);
    iq_jw_key(w, "state"), iq_jw_str(w, iq_run_state_text(r->state));
    iq_jw_key(w, "level"), iq_jw_str(w, iq_level_text(r->level));
    iq_jw_key(w, "created"), iq_jw_f64(w, (double)r->created_ms / 1000);
    number(w, "requests", r->requests);
    number(w, "positions", r->positions);
    number(w, "firings", r->firings);
    number(w, "tensors", r->tensors);
    iq_jw_end(w, '}');
}

static void run_text(const struct iq_run_info *r, const run_name *names, size_t n, struct iq_buf *b)
{
    char when[32];
    time_t t = (time_t)(r->created_ms / 1000);
    struct tm tm;
    strftime(when, sizeof when, "%Y-%m-%d %H:%MZ", gmtime_r(&t, &tm));
    iq_buf_printf(
        b, "%.12s  %-9s  %-7s  %s  %6" PRIu64 " requests  %8" PRIu64 " positions  %6" PRIu64 " firings  ",
        r->id, iq_run_state_text(r->state), iq_level_text(r->level), when, r->requests, r->positions,
        r->firings);
    names_text(names, n, b);
}

/* ---- ls, show ---- */

/* A line a campaign, below the runs. */
static int ls_campaigns(struct iq_store *store, bool json, struct iq_buf *line, struct iq_jw *w,
                        struct iq_err *err)
{
    struct iq_campaign_info *all;
    size_t n;
    IQ_TRY(iq_campaign_list(store, &all, &n, err));
    for (size_t i = 0; i < n; i++) {
        if (!json) {
            iq_buf_printf(line, "%s%.12s  campaign   %u of %u trials", line->len ? "\n" : "", all[i].id,
                          all[i].done, all[i].trials);
            continue;
        }
        iq_jw_begin(w, '{');
        iq_jw_key(w, "campaign"), iq_jw_str(w, all[i].id);
        number(w, "trials", all[i].trials);
        number(w, "done", all[i].done);
        iq_jw_end(w, '}');
    }
    free(all);
    return IQ_OK;
}

static int ls(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    struct iq_run_info *runs = NULL;
    size_t n = 0;
    struct iq_buf line = IQ_BUF((size_t)1 << 28);
    struct iq_jw w = IQ_JW(&line);
    IQ_TRY(open_store(call, &store, err));
    int status = iq_store_runs(store, &runs, &n, err);
    bool json = iq_arg_on(call, "json");
    if (json) iq_jw_begin(&w, '[');
    for (size_t i = 0; i < n && status == IQ_OK; i++) {
        run_name *names;
        size_t count;
        if ((status = iq_store_names(store, runs[i].id, &names, &count, err)) != IQ_OK) break;
        if (json)
            run_json(&runs[i], (const run_name *)names, count, &w);
        else
            run_text(&runs[i], (const run_name *)names, count, &line), iq_buf_put(&line, "\n", i + 1 < n);
        free(names);
    }
    if (status == IQ_OK) status = ls_campaigns(store, json, &line, &w, err);
    if (json) iq_jw_end(&w, ']');
    free(runs);
    iq_store_close(store);
    if (!json && !line.len && status == IQ_OK) { /* an empty store prints nothing */
        iq_buf_free(&line);
        return IQ_OK;
    }
    return emit(call, &line, status, err);
}

static void request_json(const struct iq_request_end *e, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "id"), iq_jw_str(w, e->id);
    number(w, "prompt_tokens", e->n_prompt);
    number(w, "tokens", e->n_ids - e->n_prompt);
    iq_jw_key(w, "finish"), iq_jw_str(w, e->finish);
    iq_jw_key(w, "chain"), iq_jw_hex(w, e->chain.hi, e->chain.lo);
    iq_jw_key(w, "text"), iq_jw_str(w, e->text);
    iq_jw_key(w, "params"), iq_jw_raw(w, e->params[0] ? e->params : "null");
    iq_jw_end(w, '}');
}

static int show_run(struct iq_call *call, const struct iq_run_info *info, const run_name *names, size_t n,
                    const struct iq_trace *t, struct iq_buf *line, struct iq_err *err)
{
    struct iq_jw w = IQ_JW(line);
    struct iq_request_end e;
    int status;
    bool json = iq_arg_on(call, "json");
    if (json) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "info"), run_json(info, names, n, &w);
        iq_jw_key(&w, "message"), iq_jw_str(&w, t->message);
        iq_jw_key(&w, "manifest"), iq_jw_raw(&w, t->manifest);
        iq_jw_key(&w, "requests"), iq_jw_begin(&w, '[');
    } else {
        run_text(info, names, n, line);
        iq_buf_printf(line, "\nmanifest %s", t->manifest);
        if (t->message[0]) iq_buf_printf(line, "\nmessage %s", t->message);
    }
    for (uint32_t at = 0; (status = t->request(t->self, at, &e, err)) == IQ_OK; at = e.request + 1) {
        char hex[IQ_DIGEST_HEX];
        iq_digest_hex(e.chain, hex);
        if (json)
            request_json(&e, &w);
        else
            iq_buf_printf(line, "\n%-24s %4u + %4u tokens  %-6s  chain %s", e.id, e.n_prompt,
                          e.n_ids - e.n_prompt, e.finish, hex);
    }
    if (json) iq_jw_end(&w, ']'), iq_jw_end(&w, '}');
    return status == IQ_NOT_FOUND ? IQ_OK : status;
}

static int show(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    struct iq_run_info info;
    struct iq_trace t = {0};
    run_name *names = NULL;
    size_t n;
    struct iq_buf line = IQ_BUF((size_t)1 << 30);
    IQ_TRY(open_store(call, &store, err));
    int status = iq_store_find(store, call->operands[0], &info, err);
    if (status == IQ_OK) status = iq_store_trace(store, info.id, &t, err);
    if (status == IQ_OK) status = iq_store_names(store, info.id, &names, &n, err);
    if (status == IQ_OK) status = show_run(call, &info, (const run_name *)names, n, &t, &line, err);
    free(names);
    iq_trace_close(&t);
    iq_store_close(store);
    return emit(call, &line, status, err);
}

/* ---- verify ---- */

static int verify(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    struct iq_store_tally t = {0};
    struct iq_buf line = IQ_BUF(1 << 16);
    struct iq_jw w = IQ_JW(&line);
    IQ_TRY(open_store(call, &store, err));
    int status = iq_store_verify(store, &t, err);
    iq_store_close(store);
    if (iq_arg_on(call, "json")) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "ok"), iq_jw_bool(&w, true);
        number(&w, "pages", t.pages);
        number(&w, "runs", t.runs);
        number(&w, "requests", t.requests);
        number(&w, "positions", t.positions);
        number(&w, "cells", t.cells);
        number(&w, "tensors", t.tensors);
        number(&w, "firings", t.firings);
        number(&w, "bytes", t.bytes);
        iq_jw_end(&w, '}');
    } else
        iq_buf_printf(&line,
                      "clean: %" PRIu64 " pages, %" PRIu64 " runs, %" PRIu64 " requests, %" PRIu64
                      " positions, %" PRIu64 " cells, %" PRIu64 " tensors, %" PRIu64 " firings",
                      t.pages, t.runs, t.requests, t.positions, t.cells, t.tensors, t.firings);
    return emit(call, &line, status, err);
}

/* ---- export, import ---- */

static int export_run(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    IQ_TRY(open_store(call, &store, err));
    struct iq_run_info info;
    struct iq_campaign_info campaign;
    struct iq_err none;
    bool is_campaign = iq_store_find(store, call->operands[0], &info, &none) == IQ_NOT_FOUND &&
                       iq_campaign_find(store, call->operands[0], &campaign, &none) == IQ_OK;
    int status = is_campaign ? iq_campaign_export(store, campaign.id, call->operands[1], err)
                             : iq_store_export(store, call->operands[0], call->operands[1], err);
    iq_store_close(store);
    return status;
}

/* A file that is no run shall not leave an empty store behind. */
static int open_or_make(struct iq_call *call, struct iq_store **out, struct iq_err *err)
{
    struct iq_store_options o = {.create = true};
    struct iq_err none;
    int status = iq_store_open(iq_arg_str(call, "store"), NULL, out, &none);
    if (status == IQ_OK) return IQ_OK;
    const char *file = call->operands[0];
    IQ_TRY(iq_campaign_is_export(file) ? iq_campaign_import_check(file, err)
                                       : iq_store_import_check(file, err));
    return iq_store_open(iq_arg_str(call, "store"), &o, out, err);
}

static int import_campaign(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    struct iq_campaign_info info;
    struct iq_buf line = IQ_BUF(4096);
    struct iq_jw w = IQ_JW(&line);
    uint32_t added;
    if (iq_arg_str(call, "name")) return iq_fail(err, IQ_USAGE, "--name: a campaign has none");
    IQ_TRY(open_or_make(call, &store, err));
    int status = iq_campaign_import(store, call->operands[0], &info, &added, err);
    iq_store_close(store);
    if (iq_arg_on(call, "json")) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "campaign"), iq_jw_str(&w, info.id);
        number(&w, "added", added);
        number(&w, "done", info.done);
        number(&w, "trials", info.trials);
        iq_jw_end(&w, '}');
    } else
        iq_buf_printf(&line, "%s  %u rows added, %u of %u trials", info.id, added, info.done, info.trials);
    return emit(call, &line, status, err);
}

static int import_run(struct iq_call *call, struct iq_err *err)
{
    if (iq_campaign_is_export(call->operands[0])) return import_campaign(call, err);
    struct iq_store *store;
    struct iq_run_info info;
    run_name *names = NULL;
    size_t n = 0;
    struct iq_buf line = IQ_BUF((size_t)1 << 28);
    struct iq_jw w = IQ_JW(&line);
    bool known;
    IQ_TRY(open_or_make(call, &store, err));
    int status = iq_store_import(store, call->operands[0], iq_arg_str(call, "name"), &info, &known, err);
    if (status == IQ_OK) status = iq_store_names(store, info.id, &names, &n, err);
    iq_store_close(store);
    if (status == IQ_OK && iq_arg_on(call, "json")) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "known"), iq_jw_bool(&w, known);
        iq_jw_key(&w, "info"), run_json(&info, (const run_name *)names, n, &w);
        iq_jw_end(&w, '}');
    } else if (status == IQ_OK)
        iq_buf_printf(&line, "%s%s", info.id, known ? " (it was there already)" : "");
    free(names);
    return emit(call, &line, status, err);
}

/* ---- rm ---- */

static int rm(struct iq_call *call, struct iq_err *err)
{
    struct iq_store *store;
    struct iq_buf text = IQ_BUF((size_t)1 << 28);
    run_name *names = NULL;
    size_t n = 0;
    char left[IQ_DIGEST_HEX];
    IQ_TRY(open_store(call, &store, err));
    int status = iq_store_rm(store, call->operands[0], left, err);
    if (status == IQ_OK && left[0]) {
        status = iq_store_names(store, left, &names, &n, err);
        names_text((const run_name *)names, n, &text);
        iq_buf_put(&text, "", 1);
        if (status == IQ_OK && !text.failed)
            iq_say("removed the name '%s'; run %.12s stays, as %s", call->operands[0], left, text.data);
    }
    free(names);
    iq_buf_free(&text);
    iq_store_close(store);
    return status;
}

static const struct iq_flag store_flags[] = {STORE_FLAG, IQ_FLAG_JSON, {0}};
static const struct iq_flag plain_flags[] = {STORE_FLAG, {0}};
static const struct iq_flag import_flags[] = {STORE_FLAG,
                                              {.name = "name",
                                               .type = IQ_FLAG_STRING,
                                               .meta = "NAME",
                                               .help = "a name for the run; default: the exported one"},
                                              IQ_FLAG_JSON,
                                              {0}};

const struct iq_command iq_cmd_store_ls = {.name = "store ls",
                                           .one_line = "list the runs of a store",
                                           .about =
                                               "A line a run: id, state, level, when it was recorded (UTC), "
                                               "what it holds, and all of its names.\n",
                                           .examples = "inquest store ls --store S\n",
                                           .flags = store_flags,
                                           .run = ls};

const struct iq_command iq_cmd_store_show = {.name = "store show",
                                             .one_line = "a run's manifest and requests",
                                             .operands = "RUN",
                                             .operands_min = 1,
                                             .operands_max = 1,
                                             .examples = "inquest store show --store S golden --json\n",
                                             .flags = store_flags,
                                             .run = show};

const struct iq_command iq_cmd_store_verify = {
    .name = "store verify",
    .one_line = "check every page, record, digest and chain of a store",
    .about = "Each record was written with a digest of its bytes: one "
             "altered byte is found, wherever it is.\n",
    .examples = "inquest store verify --store S\n",
    .flags = store_flags,
    .run = verify};

const struct iq_command iq_cmd_store_export = {
    .name = "store export",
    .one_line = "write a run to a file",
    .about = "The run is verified first. A damaged or unfinished one is "
             "refused.\n",
    .operands = "RUN FILE",
    .operands_min = 2,
    .operands_max = 2,
    .examples = "inquest store export --store S golden golden.iqrun\n",
    .flags = plain_flags,
    .run = export_run};

const struct iq_command iq_cmd_store_import = {
    .name = "store import",
    .one_line = "take a run from a file that export wrote",
    .operands = "FILE",
    .operands_min = 1,
    .operands_max = 1,
    .about = "The file's SHA-256 is checked first. A run that is there already is left as it is.\n",
    .examples = "inquest store import --store S golden.iqrun\n",
    .flags = import_flags,
    .run = import_run};

const struct iq_command iq_cmd_store_rm = {.name = "store rm",
                                           .one_line =
                                               "remove a name or a run, and contents that no other run uses",
                                           .operands = "RUN",
                                           .operands_min = 1,
                                           .operands_max = 1,
                                           .about = "A run may have several names. By one of them only that "
                                                    "name is removed, and the run goes with its\n"
                                                    "last name; by its id it goes with all of them.\n",
                                           .examples = "inquest store rm --store S subject\n",
                                           .flags = plain_flags,
                                           .run = rm};
