#include "tests/engine/device_rig.h"

#include "kernels/cuda/device.h"
#include "kernels/cuda/shim/control.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the device ---- */

static const char *device_name;

const char *iq_rig_device(void)
{
    if (device_name) return device_name;
    const char *asked = getenv("IQ_TEST_DEVICE");
    device_name = asked && *asked ? asked : "cuda-shim";
    if (!strcmp(device_name, "cuda-shim")) return device_name;
    setenv("CK_FORK", "no", 1); /* CUDA does not outlive a fork */
    struct iq_err err = {0};
    struct iq_cuda *cuda;
    if (strcmp(device_name, "cuda")) {
        printf("IQ_TEST_DEVICE: found '%s', expected cuda or cuda-shim\n", device_name);
        exit(2);
    }
    if (iq_cuda_open(false, 0, &cuda, &err) != IQ_OK) {
        printf("skipped: %s\n", err.text);
        exit(77);
    }
    iq_cuda_close(cuda);
    return device_name;
}

static bool is_shim(void) { return !strcmp(iq_rig_device(), "cuda-shim"); }

void iq_rig_schedule(const char *schedule, uint32_t poison)
{
    struct iq_err err = {0};
    if (!is_shim()) return;
    ck_assert_msg(iq_shim_schedule(schedule, &err) == IQ_OK, "%s", err.text);
    iq_shim_poison(poison);
}

void iq_rig_no_findings(const char *what)
{
    ck_assert_msg(!is_shim() || iq_shim_findings() == 0, "%s: %s", what, iq_shim_report());
}

/* ---- what a sink was given ---- */

static void *next_of(void *list, uint32_t n, uint32_t *cap, size_t size)
{
    if (n < *cap) return list;
    *cap = *cap ? *cap * 2 : 256;
    list = realloc(list, *cap * size);
    ck_assert_ptr_nonnull(list);
    return list;
}

static int on_row(void *self, const struct iq_cell *cell, struct iq_digest d, const void *bytes, size_t n)
{
    struct iq_rig_log *g = self;
    g->cell = next_of(g->cell, g->cells, &g->cap_cells, sizeof *g->cell);
    g->cell[g->cells] = (struct iq_rig_cell){.cell = *cell, .digest = d, .n = bytes ? n : 0};
    if (bytes) g->cell[g->cells].bytes = iq_digest_bytes(bytes, n);
    g->cells++;
    return IQ_OK;
}

static int on_position(void *self, const struct iq_position *p)
{
    struct iq_rig_log *g = self;
    g->position = next_of(g->position, g->positions, &g->cap_positions, sizeof *g->position);
    g->position[g->positions++] = *p;
    return IQ_OK;
}

static int on_fired(void *self, const struct iq_firing *f)
{
    struct iq_rig_log *g = self;
    g->firing = next_of(g->firing, g->firings, &g->cap_firings, sizeof *g->firing);
    g->firing[g->firings++] = *f;
    return IQ_OK;
}

static int on_done(void *self, const struct iq_request_end *e)
{
    struct iq_rig_log *g = self;
    (void)e;
    g->ends++;
    return IQ_OK;
}

struct iq_sink iq_rig_log_sink(struct iq_rig_log *g)
{
    return (struct iq_sink){g, on_row, on_position, on_fired, on_done};
}

void iq_rig_log_free(struct iq_rig_log *g)
{
    free(g->cell);
    free(g->position);
    free(g->firing);
    *g = (struct iq_rig_log){0};
}

/* ---- runs ---- */

struct iq_rig_set iq_rig_few(uint64_t seed, uint32_t vocab, bool sampled)
{
    static const uint32_t lengths[IQ_RIG_FEW] = {IQ_RIG_SHORT, 14, 30, IQ_RIG_SHORT, 33, 17, 20, 1};
    enum { STEM = 33 };
    struct iq_rig_set set = iq_rig_set_make(
        seed, &(struct iq_rig_shape){IQ_RIG_FEW, vocab, IQ_RIG_SHORT, IQ_RIG_ANSWER, 0, sampled});
    for (uint32_t i = 0; i < IQ_RIG_FEW; i++) {
        uint32_t *t = set.tokens + i * IQ_RIG_SHORT, stem = i % 4 == 1 ? 0 : STEM;
        for (uint32_t p = 0; p < lengths[i]; p++)
            t[p] = (uint32_t)(iq_rig_draw(p < stem ? seed : seed + 1 + i, 5000 + p) % vocab);
        set.request[i].n_prompt = lengths[i];
        set.request[i].max_tokens = IQ_RIG_ANSWER - i % 3;
    }
    return set;
}

void iq_rig_case_run(const struct iq_rig_case *k, const char *device, struct iq_rig_recorded *out)
{
    struct iq_engine_config c = k->config;
    out->log = (struct iq_rig_log){0};
    c.device = device;
    iq_shim_lock(device != NULL); /* from here on a host that touches device memory dies at once */
    iq_rig_open(&out->rig, k->model, &c, k->request, k->n, k->faults, k->watch);
    out->rig.also = iq_rig_log_sink(&out->log);
    iq_rig_go(&out->rig);
    iq_shim_lock(0);
}

void iq_rig_recorded_close(struct iq_rig_recorded *r)
{
    iq_rig_close(&r->rig);
    iq_rig_log_free(&r->log);
}

/* ---- comparing ---- */

/* Cells in the order of requests, positions and the graph. The device may give them in another order within a step. */
static int by_place(const void *x, const void *y)
{
    const struct iq_rig_cell *a = x, *b = y;
    uint64_t p[2][4] = {{a->cell.request, a->cell.pos, a->cell.attempt, a->cell.node},
                        {b->cell.request, b->cell.pos, b->cell.attempt, b->cell.node}};
    for (int i = 0; i < 4; i++)
        if (p[0][i] != p[1][i]) return p[0][i] < p[1][i] ? -1 : 1;
    return a->n == b->n ? memcmp(&a->digest, &b->digest, sizeof a->digest) : a->n < b->n ? -1 : 1;
}

static void cells_same(const char *what, const struct iq_rig_recorded *a, const struct iq_rig_recorded *b)
{
    const struct iq_rig_log *x = &a->log, *y = &b->log;
    uint32_t nodes, differ = 0, first = UINT32_MAX;
    const struct iq_node *node = iq_engine_nodes(a->rig.engine, &nodes);
    if (x->cells) qsort(x->cell, x->cells, sizeof *x->cell, by_place);
    if (y->cells) qsort(y->cell, y->cells, sizeof *y->cell, by_place);
    for (uint32_t i = 0; i < x->cells && i < y->cells; i++) {
        if (!memcmp(&x->cell[i], &y->cell[i], sizeof *x->cell)) continue;
        if (first == UINT32_MAX) first = i;
        differ++;
    }
    if (first != UINT32_MAX) {
        const struct iq_rig_cell *p = &x->cell[first], *q = &y->cell[first];
        const struct iq_node *at = &node[p->cell.node], *bt = &node[q->cell.node];
        ck_abort_msg(
            "%s: %u of %u cells differ, first request %u position %u: %s.%s layer %d rank %d, state "
            "%u, %zu bytes; the device's there: request %u position %u: %s.%s layer %d, state %u, %zu bytes",
            what, differ, x->cells, p->cell.request, p->cell.pos, at->op, at->point, (int16_t)at->layer,
            (int16_t)at->rank, p->cell.state, p->n, q->cell.request, q->cell.pos, bt->op, bt->point,
            (int16_t)bt->layer, q->cell.state, q->n);
    }
    ck_assert_msg(x->cells == y->cells, "%s: %u cells on the CPU, %u on the device", what, x->cells,
                  y->cells);
}

static int by_bytes(const void *a, const void *b) { return memcmp(a, b, sizeof(struct iq_firing)); }

static const struct iq_firing *sorted(const struct iq_rig_log *g)
{
    if (g->firings) qsort(g->firing, g->firings, sizeof *g->firing, by_bytes);
    return g->firing;
}

static void firings_same(const char *what, const struct iq_rig_recorded *a, const struct iq_rig_recorded *b)
{
    uint32_t nodes;
    const struct iq_node *node = iq_engine_nodes(a->rig.engine, &nodes);
    const struct iq_firing *x = sorted(&a->log), *y = sorted(&b->log);
    for (uint32_t i = 0; i < a->log.firings && i < b->log.firings; i++)
        ck_assert_msg(
            !memcmp(&x[i], &y[i], sizeof *x),
            "%s: firing %u of %u: fault %u step %u at %s batch %u, %u of %u rows changed, first %u:%u; on "
            "the device: fault %u step %u at %s batch %u, %u of %u rows changed, first %u:%u",
            what, i, a->log.firings, x[i].fault, x[i].step, node[x[i].node].op, x[i].batch, x[i].rows_changed,
            x[i].rows, x[i].request, x[i].pos, y[i].fault, y[i].step, node[y[i].node].op, y[i].batch,
            y[i].rows_changed, y[i].rows, y[i].request, y[i].pos);
    ck_assert_msg(a->log.firings == b->log.firings, "%s: %u firings on the CPU, %u on the device", what,
                  a->log.firings, b->log.firings);
}

static void positions_same(const char *what, const struct iq_rig_log *x, const struct iq_rig_log *y)
{
    for (uint32_t i = 0; i < x->positions && i < y->positions; i++) {
        const struct iq_position *p = &x->position[i], *q = &y->position[i];
        ck_assert_msg(
            !memcmp(p, q, sizeof *p),
            "%s: position record %u: request %u:%u step %u batch %u state %u; on the device request %u:%u "
            "step %u batch %u state %u%s",
            what, i, p->request, p->pos, p->step, p->batch, p->state, q->request, q->pos, q->step, q->batch,
            q->state, memcmp(&p->body, &q->body, sizeof p->body) ? ", another body" : "");
    }
    ck_assert_msg(x->positions == y->positions, "%s: %u position records on the CPU, %u on the device", what,
                  x->positions, y->positions);
}

static void outputs_same(const char *what, const struct iq_rig *a, const struct iq_rig *b)
{
    char why[256];
    for (uint32_t i = 0; i < a->n; i++) {
        const struct iq_output *x = iq_rig_output(a, i), *y = iq_rig_output(b, i);
        ck_assert_msg(iq_rig_same(a, i, b, i, why), "%s: request %u: %s", what, i, why);
        ck_assert_msg(x->cached == y->cached && x->attempts == y->attempts,
                      "%s: request %u: cached %u and %u, attempts %u and %u", what, i, x->cached, y->cached,
                      x->attempts, y->attempts);
        ck_assert_msg(!x->nll == !y->nll &&
                          (!x->nll || !memcmp(x->nll, y->nll, x->n_prompt * sizeof *x->nll)),
                      "%s: request %u: other likelihoods", what, i);
    }
}

void iq_rig_same_run(const char *what, const struct iq_rig_recorded *a, const struct iq_rig_recorded *b)
{
    const struct iq_engine_stats *x = iq_engine_stats(a->rig.engine), *y = iq_engine_stats(b->rig.engine);
    cells_same(what, a, b); /* first: it names the op */
    firings_same(what, a, b);
    outputs_same(what, &a->rig, &b->rig);
    positions_same(what, &a->log, &b->log);
    ck_assert_uint_eq(x->steps, y->steps);
    ck_assert_uint_eq(x->tokens, y->tokens);
    ck_assert_uint_eq(x->hits, y->hits);
    ck_assert_uint_eq(x->preemptions, y->preemptions);
    ck_assert_uint_eq(x->clock_us, y->clock_us);
    ck_assert_uint_eq(a->log.ends, b->log.ends);
}

void iq_rig_twins(const struct iq_rig_case *k, struct iq_rig_recorded *out)
{
    struct iq_rig_recorded cpu;
    iq_rig_case_run(k, NULL, &cpu);
    iq_rig_case_run(k, iq_rig_device(), out);
    iq_rig_no_findings(k->what);
    iq_rig_same_run(k->what, &cpu, out);
    ck_assert(k->config.untraced || out->log.positions > 0);
    iq_rig_recorded_close(&cpu);
}
