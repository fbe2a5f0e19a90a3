/* Products of each expert's slots with its weights, by matmul's own tiles.
 *
 * Threads share the panels of all experts as one list, in which a panel costs what its expert's slots make of it: few
 * experts, or few slots each, keep all threads as busy as many do. A thread gathers an expert's slots, multiplies them
 * with the panels of its share, and puts the results where their slots are. What is computed for a slot does not depend
 * on the shares. */
#include "kernels/cpu/moe_grouped.h"

#include <string.h>

enum {
    TOGETHER = 192, /* slots that are gathered at a time, so that they stay in L2 */
    STREAM = 4,     /* what reading a panel's weights costs, in slots */
    LINE = 64       /* bytes of a cache line */
};

struct job {
    const struct iq__tiles *isa;
    const struct iq_grouped_matmul *a;
    uint32_t panels;         /* of an expert, all parts */
    uint32_t together;       /* most slots of a gathering */
    size_t x_bytes, y_bytes; /* of a thread's memory: x gathered, then y, then the product's */
    size_t thread_bytes;
    uint64_t cost;
    uint8_t *threads;
};

static uint64_t smaller(uint64_t a, uint64_t b) { return a < b ? a : b; }
static uint64_t ceil_div(uint64_t a, uint64_t b) { return a / b + (a % b != 0); }
static size_t lines(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

static uint32_t slots_of(const struct iq_grouped_matmul *a, uint32_t e)
{
    return a->first[a->expert0 + e + 1] - a->first[a->expert0 + e];
}

static uint64_t panel_cost(uint32_t slots) { return slots ? slots + (uint64_t)STREAM : 0; }

static void product_of(const struct iq_grouped_matmul *a, struct iq_matmul *m)
{
    *m = (struct iq_matmul){.rows = 1, .parts = a->parts, .act = a->act};
    for (uint32_t p = 0; p < a->parts; p++) m->part[p].w = a->part[p].w;
}

bool iq__grouped_supports(const struct iq_grouped_matmul *a)
{
    struct iq_matmul m;
    product_of(a, &m);
    return iq__product_supports(&m);
}

/* ---- one thread ---- */

/* The part's panels [from, to), counted over all parts, as a matrix of their own; false: there are none. */
static bool cut_out(const struct iq_grouped_part *part, uint32_t e, uint32_t *base, uint32_t from,
                    uint32_t to, uint32_t *n0, struct iq_matrix *out)
{
    const struct iq_matrix *w = &part->w[e];
    uint32_t begin = from > *base ? from - *base : 0;
    uint32_t end = to > *base ? (uint32_t)smaller(to - *base, w->panels) : 0;
    *base += w->panels;
    if (begin >= end) return false;
    *n0 = begin * IQ_PANEL;
    *out = *w;
    out->panels = end - begin;
    out->n = (uint32_t)smaller(w->n - *n0, out->panels * (uint64_t)IQ_PANEL);
    out->data += begin * w->panel_bytes;
    return true;
}

/* Panels [from, to) of expert e for `slots` of its slots, which `list` names. */
static void run_slots(const struct job *j, uint32_t e, uint32_t from, uint32_t to, const uint32_t *list,
                      uint32_t slots, uint8_t *own)
{
    const struct iq_grouped_matmul *a = j->a;
    const uint32_t k = a->part[0].w->k;
    struct iq_matrix w[IQ_GROUPED_PARTS];
    uint32_t n0[IQ_GROUPED_PARTS], part[IQ_GROUPED_PARTS], base = 0;
    float *x = (float *)own, *y = (float *)(own + j->x_bytes);
    struct iq_matmul m = {.rows = slots, .act = a->act, .x = x, .ldx = k};
    for (uint32_t i = 0; i < slots; i++) memcpy(x + (size_t)i * k, a->x + (size_t)list[i] * k, k * sizeof *x);
    for (uint32_t p = 0; p < a->parts; p++) {
        uint32_t i = m.parts;
        if (!cut_out(&a->part[p], e, &base, from, to, &n0[i], &w[i])) continue;
        part[i] = p;
        m.part[m.parts++] = (struct iq_matmul_part){.w = &w[i], .y = y, .ldy = w[i].n};
        y += (size_t)slots * w[i].n;
    }
    iq__product_alone(j->isa, &m, own + j->x_bytes + j->y_bytes);
    for (uint32_t i = 0; i < m.parts; i++) {
        const struct iq_grouped_part *to_part = &a->part[part[i]];
        for (uint32_t s = 0; s < slots; s++)
            memcpy(to_part->y + (size_t)list[s] * to_part->w->n + n0[i], m.part[i].y + (size_t)s * w[i].n,
                   w[i].n * sizeof(float));
    }
}

static void run_share(void *ctx, int thread, int threads)
{
    const struct job *j = ctx;
    uint8_t *own = j->threads + (size_t)thread * j->thread_bytes;
    const uint64_t each = j->cost / (unsigned)threads, rest = j->cost % (unsigned)threads;
    const uint64_t begin = each * (unsigned)thread + smaller(rest, (unsigned)thread);
    const uint64_t end = begin + each + ((unsigned)thread < rest);
    uint64_t at = 0;
    for (uint32_t e = 0; e < j->a->experts && at < end; e++) {
        uint32_t slots = slots_of(j->a, e), blocks = (uint32_t)ceil_div(slots, j->together);
        uint64_t cost = panel_cost(slots);
        if (!slots) continue;
        uint32_t from = begin > at ? (uint32_t)smaller(j->panels, ceil_div(begin - at, cost)) : 0;
        uint32_t to = (uint32_t)smaller(j->panels, ceil_div(end - at, cost));
        const uint32_t *list = j->a->list + j->a->first[j->a->expert0 + e];
        for (uint32_t b = 0; b < blocks && from < to; b++) {
            int lo, hi;
            iq_slice((int)slots, (int)b, (int)blocks, &lo, &hi);
            run_slots(j, e, from, to, list + lo, (uint32_t)(hi - lo), own);
        }
        at += j->panels * cost;
    }
}

/* ---- all of it ---- */

static void drop(const struct iq_grouped_matmul *a)
{
    for (size_t at = 0; at < (size_t)a->rows * a->slots; at++)
        for (uint32_t p = 0; a->owner[at] == IQ_SLOT_DROPPED && p < a->parts; p++)
            memset(a->part[p].y + at * a->part[p].w->n, 0, a->part[p].w->n * sizeof(float));
}

int iq__grouped_run(const struct iq__tiles *isa, struct iq_exec *exec, const struct iq_grouped_matmul *a)
{
    struct job j = {.isa = isa, .a = a};
    struct iq_matmul m;
    uint64_t slots = 0, outs = 0;
    if (a->expert0 == 0) drop(a);
    if (!a->parts) return IQ_OK;
    product_of(a, &m);
    for (uint32_t p = 0; p < a->parts; p++) j.panels += a->part[p].w->panels, outs += a->part[p].w->n;
    for (uint32_t e = 0; e < a->experts; e++) {
        uint32_t own = slots_of(a, e);
        slots += own;
        j.cost += j.panels * panel_cost(own);
        j.together = own > j.together ? own : j.together;
    }
    if (!slots) return IQ_OK;
    m.rows = j.together = (uint32_t)smaller(j.together, TOGETHER);
    const uint32_t k = m.part[0].w->k;
    struct iq_pool *pool = slots * outs * k < IQ__WORTH_THREADS ? NULL : exec->pool;
    int threads = iq_pool_threads(pool);
    j.x_bytes = lines((size_t)j.together * k * sizeof(float));
    j.y_bytes = lines(j.together * outs * sizeof(float));
    j.thread_bytes = j.x_bytes + j.y_bytes + iq__product_bytes(isa, &m);
    j.threads = iq_exec_scratch(exec, (size_t)threads * j.thread_bytes);
    if (!j.threads) return IQ_MEMORY;
    iq_pool_run(pool, run_share, &j);
    return IQ_OK;
}
