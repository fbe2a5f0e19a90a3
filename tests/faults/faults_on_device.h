/* What the tests of wrong variants on a device share: the two sides, golden's outputs, random parameters. */
#ifndef IQ_TESTS_FAULTS_ON_DEVICE_H
#define IQ_TESTS_FAULTS_ON_DEVICE_H

#include "faults/families.h"
#include "kernels/cuda/device.h"
#include "kernels/dispatch.h"
#include "tests/check_main.h"
#include "tests/cuda/device_case.h"

#include <math.h>

enum { PARAMS = 4 };

static struct iq_exec on_host, on_device;
static const struct iq_site host_site;

static inline void setup(void)
{
    struct iq_err err = {0};
    ck_assert_msg(!iq_kernels_register(&err) && !iq_faults_register(&err), "%s", err.text);
    ck_assert_msg(!iq_cuda_open(device.shim, 0, &on_device.cuda, &err), "%s", err.text);
}

static inline void teardown(void)
{
    iq_cuda_close(on_device.cuda);
    iq_exec_close(&on_device);
    iq_exec_close(&on_host);
}

/* Queues a variant on the device, golden's kernels beneath, and waits. */
static inline void queue(const struct iq_variant *v, const void *args, const double *params, void *state)
{
    struct iq_cuda *c = on_device.cuda;
    struct iq_slot slot = {.variant = iq_variant_find(v->kind, "cuda")};
    struct iq_site site = {.slot = &slot};
    slot.reference = slot.variant;
    ck_assert_msg(!strcmp(v->device, "any"), "%s runs on %s", v->name, v->device);
    ck_assert_msg(!v->run(&on_device, &site, args, params, state), "%s: %s", v->name, c->err.text);
    device_ok(c->api->stream_sync(c->stream), v->name);
}

/* A graph of a variant's call, which then has not run. */
static inline void *captured(const struct iq_variant *v, const void *args, const double *params, void *state)
{
    struct iq_cuda *c = on_device.cuda;
    struct iq_slot slot = {.variant = iq_variant_find(v->kind, "cuda")};
    struct iq_site site = {.slot = &slot};
    void *graph, *exec;
    device_ok(c->api->stream_sync(c->stream), "what is queued");
    device_ok(c->api->capture_begin(c->stream), "capture");
    ck_assert_msg(!v->run(&on_device, &site, args, params, state), "%s: %s", v->name, c->err.text);
    device_ok(c->api->capture_end(c->stream, &graph), "capture");
    device_ok(c->api->graph_instantiate(&exec, graph), "a graph");
    device_ok(c->api->graph_destroy(graph), "a graph");
    return exec;
}

static inline void replay(void *exec)
{
    struct iq_cuda *c = on_device.cuda;
    device_ok(c->api->graph_launch(exec, c->stream), "replay");
    device_ok(c->api->stream_sync(c->stream), "replay");
}

static inline void captured_close(void *exec)
{
    device_ok(on_device.cuda->api->exec_destroy(exec), "a graph");
}

/* Whether the device has an output as it was before. */
static inline bool is_untouched(const struct output *o)
{
    char *got = malloc(o->bytes + 1);
    from_device(got, o->at, o->bytes);
    bool same = !memcmp(got, o->before, o->bytes);
    free(got);
    return same;
}

static inline void run(const struct iq_variant *v, const void *args, const double *params, void *state)
{
    ck_assert_int_eq(v->run(&on_host, &host_site, args, params, state), IQ_OK);
}

/* What golden writes into outputs, which are then as they were before. */
static inline void golden_open(const char *kind, const void *args, struct output *o, uint32_t n,
                               void **golden)
{
    ck_assert_int_eq(reference(kind, args), IQ_OK);
    for (uint32_t i = 0; i < n; i++) {
        golden[i] = malloc(o[i].bytes);
        memcpy(golden[i], o[i].want, o[i].bytes);
        memcpy(o[i].want, o[i].before, o[i].bytes);
    }
}

static inline bool golden_close(const struct output *o, uint32_t n, void **golden)
{
    bool differs = false;
    for (uint32_t i = 0; i < n; i++) {
        differs |= memcmp(golden[i], o[i].want, o[i].bytes) != 0;
        free(golden[i]);
    }
    return differs;
}

/* Parameters from a variant's ranges: ends, defaults, small ones, any. */
static inline void dice_params(uint64_t *seed, const struct iq_variant *v, double params[PARAMS])
{
    ck_assert_uint_le(v->params_size, PARAMS * sizeof *params);
    for (const struct iq_param *p = v->params; p->name; p++) {
        double range = p->hi - p->lo, part = dice(seed, 1u << 20) * 0x1p-20, value;
        uint32_t how = dice(seed, 8);
        if (how < 2)
            value = how ? p->lo : p->hi;
        else if (how == 2)
            value = p->def;
        else if (range > 1)
            value = how < 6 ? p->lo + dice(seed, range < 10 ? (uint32_t)range + 1 : 10)
                            : floor(p->lo + range * part * part * part);
        else
            value = p->lo + range * part;
        params[p->offset / sizeof *params] = value;
    }
}

#endif
