#define _GNU_SOURCE
#include "harness/campaign/campaign.h"

#include "harness/campaign/crew.h"
#include "harness/campaign/screen.h"
#include "kernels/base/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 64 }; /* rows a transaction */
#define FILE_MAX ((size_t)32 << 20)
#define BATCH_NS 500000000u

struct run {
    const struct iq_campaign_options *o;
    cJSON *plan;
    struct iq_prompts prompts;
    struct iq_grid grid;
    struct iq_ready ready;
    struct iq_crew crew;
    struct iq_store *store;
    struct iq_campaign *campaign;
    struct iq_screen screen;
    struct iq_trial_row row[BATCH];
    size_t rows;
    uint64_t put_ns;
    uint32_t ran;
};

/* ---- plan and prompts ---- */

/* A path beside the plan's file. */
static int beside(const char *plan, const char *name, char out[4096], struct iq_err *err)
{
    const char *slash = strrchr(plan, '/');
    int folder = slash && name[0] != '/' ? (int)(slash - plan + 1) : 0;
    int n = snprintf(out, 4096, "%.*s%s", folder, plan, name);
    return n > 0 && n < 4096 ? IQ_OK : iq_fail(err, IQ_USAGE, "%s: prompts: the path is too long", plan);
}

static int read_prompts(struct run *r, struct iq_err *err)
{
    cJSON *prompts = cJSON_GetObjectItemCaseSensitive(r->plan, "prompts");
    uint64_t tokens = 32;
    char path[4096], where[600];
    IQ_TRY(iq_json_known(r->plan, iq_grid_fields, r->o->plan, err));
    IQ_TRY(iq_json_u64_opt(r->plan, "tokens", 1, 1 << 20, r->o->plan, &tokens, err));
    struct iq_prompt_defaults d = {.max_tokens = (uint32_t)tokens, .top_p = 1};
    if (cJSON_IsString(prompts)) {
        IQ_TRY(beside(r->o->plan, prompts->valuestring, path, err));
        return iq_prompts_read(path, &d, &r->prompts, err);
    }
    if (!prompts)
        return iq_fail(err, IQ_FORMAT,
                       "%s: prompts: expected a list of prompts, or the name of a file of them", r->o->plan);
    snprintf(where, sizeof where, "%.500s: prompts", r->o->plan);
    return iq_prompts_list(prompts, where, &d, &r->prompts, err);
}

/* Everything that decides a trial's bits, and no path. */
static int write_manifest(const struct run *r, const struct iq_hello *h, struct iq_buf *out,
                          struct iq_err *err)
{
    struct iq_jw w = IQ_JW(out);
    char *plan = cJSON_PrintUnformatted(r->grid.plan);
    if (!plan) return iq_fail(err, IQ_MEMORY, "no memory for the campaign's manifest");
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "model"), iq_jw_str(&w, h->sha256);
    iq_jw_key(&w, "contract"), iq_jw_hex(&w, h->contract.hi, h->contract.lo);
    iq_jw_key(&w, "prompts"), iq_jw_u64(&w, r->prompts.n);
    iq_jw_key(&w, "prompts_digest"), iq_jw_hex(&w, h->prompts.hi, h->prompts.lo);
    iq_jw_key(&w, "plan"), iq_jw_raw(&w, plan);
    iq_jw_end(&w, '}');
    cJSON_free(plan);
    return out->failed ? iq_fail(err, IQ_MEMORY, "no memory for the campaign's manifest") : IQ_OK;
}

/* ---- rows ---- */

static int commit(struct run *r, struct iq_err *err)
{
    size_t n = r->rows;
    r->rows = 0;
    r->put_ns = iq_clock_ns();
    return n ? iq_campaign_put(r->campaign, r->row, n, err) : IQ_OK;
}

static int on_row(void *self, const struct iq_trial_row *row, struct iq_err *err)
{
    struct run *r = self;
    r->row[r->rows++] = *row;
    r->ran++;
    iq_screen_row(&r->screen, row);
    return r->rows == BATCH ? commit(r, err) : IQ_OK;
}

static bool wanted(void *self, uint32_t index)
{
    const struct run *r = self;
    return index % r->o->shards == r->o->shard && !iq_campaign_has(r->campaign, index);
}

static int work(struct run *r, struct iq_err *err)
{
    int status = IQ_OK;
    for (bool more = true; more && status == IQ_OK;) {
        status = iq_crew_turn(&r->crew, 100, &more, err);
        if (status == IQ_OK && (!more || iq_clock_ns() - r->put_ns > BATCH_NS)) status = commit(r, err);
        iq_screen_draw(&r->screen);
    }
    struct iq_err ignored;
    if (status != IQ_OK) commit(r, &ignored); /* what was told is true all the same */
    return status;
}

/* ---- the whole ---- */

static int begin(struct run *r, struct iq_err *err)
{
    struct iq_hello hello;
    struct iq_buf manifest = IQ_BUF(FILE_MAX);
    struct iq_store_options o = {.create = true};
    IQ_TRY(iq_json_load(r->o->plan, FILE_MAX, &r->plan, err));
    IQ_TRY(read_prompts(r, err));
    IQ_TRY(iq_plan_pin_libraries(r->plan, r->o->plan, err));
    IQ_TRY(iq_grid_open(r->plan, r->o->plan, r->prompts.n, true, &r->grid, err));
    r->ready = (struct iq_ready){
        .grid = &r->grid, .prompts = &r->prompts, .model_path = r->o->model, .alone = r->o->alone};
    r->crew = (struct iq_crew){.ready = &r->ready, .hands = r->o->jobs, .row = on_row, .self = r};
    IQ_TRY(iq_zygote_start(&r->ready, &r->crew.zygote, &hello, err));
    IQ_TRY(iq_store_open(r->o->store, &o, &r->store, err));
    int status = write_manifest(r, &hello, &manifest, err);
    if (status == IQ_OK)
        status = iq_campaign_begin(r->store, manifest.data, r->grid.trials, r->o->resume, &r->campaign, err);
    if (status == IQ_OK) {
        r->ready.campaign = iq_digest_bytes(manifest.data, manifest.len);
        status = iq_screen_open(&r->screen, r->store, iq_campaign_id(r->campaign), manifest.data, r->o->quiet,
                                err);
    }
    iq_buf_free(&manifest);
    IQ_TRY(status);
    return iq_crew_open(&r->crew, wanted, err);
}

int iq_campaign_run(const struct iq_campaign_options *o, struct iq_campaign_end *out, struct iq_err *err)
{
    struct run *r = calloc(1, sizeof *r);
    *out = (struct iq_campaign_end){.ran = 0};
    if (!r) return iq_fail(err, IQ_MEMORY, "no memory for a campaign");
    r->o = o;
    r->crew.zygote.fd = -1;
    int status = begin(r, err);
    double from = iq_clock_s();
    r->put_ns = iq_clock_ns();
    if (status == IQ_OK) {
        iq_screen_begin(&r->screen, r->crew.n_todo);
        status = work(r, err);
        iq_screen_end(&r->screen);
    }
    out->seconds = iq_clock_s() - from;
    out->ran = r->ran;
    out->aboard = r->crew.aboard;
    if (status == IQ_OK) status = iq_campaign_find(r->store, iq_campaign_id(r->campaign), &out->info, err);
    iq_crew_close(&r->crew);
    iq_screen_close(&r->screen);
    iq_campaign_end(r->campaign);
    iq_store_close(r->store);
    iq_grid_close(&r->grid);
    iq_prompts_free(&r->prompts);
    iq_json_free(r->plan);
    free(r);
    return status;
}
