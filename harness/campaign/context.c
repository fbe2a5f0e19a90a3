#include "harness/campaign/context.h"

#include "kernels/ops/kv.h"

#include <stdlib.h>
#include <string.h>

enum { KV_BYTES = 48 << 20 }; /* riders' own KV together */

/* How many riders their KV leaves room for. */
static uint32_t riders_of(const struct iq_context *c)
{
    const struct iq_model_config *m = &c->model->config;
    const struct iq_request *r = &c->request[0];
    size_t position = 2 * sizeof(float) * m->layers * m->kv_heads * m->head_dim;
    size_t own = position * ((size_t)r->max_tokens + 2 * IQ_KV_BLOCK), fit = KV_BYTES / own;
    return fit < 4 ? 4 : fit > IQ_RIDERS_MAX ? IQ_RIDERS_MAX : (uint32_t)fit;
}

/* The engine that golden runs on; others may go on from where it has been. */
static int open_ridden(struct iq_context *c, struct iq_err *err)
{
    struct iq_engine_config config = c->config;
    if (c->alone || !iq_ride_can(&config, &c->request[0], c->requests))
        return iq_context_engine(c, &c->engine, err);
    c->riders = riders_of(c);
    config.riders = c->riders;
    IQ_TRY(iq_engine_open(c->model, &config, c->request, c->requests, &c->engine, err));
    return iq_ride_open(c->engine, &c->ride, err);
}

static int run_golden(struct iq_context *c, struct iq_err *err)
{
    struct iq_selector scout;
    uint32_t nodes;
    IQ_TRY(open_ridden(c, err));
    const struct iq_node *node = iq_engine_nodes(c->engine, &nodes);
    IQ_TRY(iq_golden_open(&c->golden, node, nodes, c->requests, err));
    struct iq_sink sink = iq_golden_sink(&c->golden);
    iq_scout_selector(&c->scout, &scout);
    iq_engine_arm(c->engine, &scout);
    iq_engine_record(c->engine, &sink);
    int status = IQ_OK;
    for (bool more = true; more && status == IQ_OK;) status = iq_engine_step(c->engine, &more, err);
    iq_engine_arm(c->engine, NULL);
    iq_engine_record(c->engine, NULL);
    return status;
}

int iq_context_open(const struct iq_grid *g, uint32_t index, const struct iq_model *m,
                    const struct iq_prompts *prompts, bool alone, struct iq_context *c, struct iq_err *err)
{
    const struct iq_settings *s;
    uint32_t first;
    *c = (struct iq_context){.index = index, .model = m, .alone = alone};
    iq_grid_context(g, index, &s, &c->requests, &first);
    c->settings = *s;
    if (!c->settings.batch) c->settings.batch = c->requests;
    iq_settings_engine(&c->settings, &c->config);
    c->config.unseen = c->config.level < IQ_LEVEL_OPS;
    c->config.level = IQ_LEVEL_OPS;
    c->request = calloc(c->requests, sizeof *c->request);
    if (!c->request) return iq_fail(err, IQ_MEMORY, "no memory for %u requests", c->requests);
    for (uint32_t i = 0; i < c->requests; i++) {
        c->request[i] = prompts->request[first + i];
        c->request[i].index = i;
    }
    iq_settings_arrivals(&c->settings, c->request, c->requests);
    int status = run_golden(c, err);
    if (status != IQ_OK) {
        iq_context_close(c);
        return iq_err_prefix(err, "golden: "), status;
    }
    return IQ_OK;
}

void iq_context_close(struct iq_context *c)
{
    iq_scout_free(&c->scout);
    iq_golden_free(&c->golden);
    iq_ride_close(c->ride);
    iq_engine_close(c->engine);
    free(c->request);
    *c = (struct iq_context){.index = UINT32_MAX};
}

int iq_context_engine(const struct iq_context *c, struct iq_engine **out, struct iq_err *err)
{
    return iq_engine_open(c->model, &c->config, c->request, c->requests, out, err);
}
