/* all_reduce by runs of columns: the tree is walked once a call into a list of steps, which every run of
 * every row then follows with a small stack. Adding is all there is: the compiler's vectors do. */
#include "kernels/arith.h"
#include "kernels/exec.h"
#include "kernels/op.h"
#include "kernels/ops/reduce.h"

#include <string.h>

enum {
    RUN = 64,                /* columns side by side */
    DEPTH = 32,              /* of the tree: units are 32-bit */
    PARALLEL_WORK = 1 << 16, /* below this many terms a call is over sooner than threads have met */
};

/* After piece p is pushed, join[p] times the two topmost sums are added. */
struct plan {
    const struct iq_all_reduce *a;
    uint8_t join[IQ_REDUCE_PIECES];
};

/* In the order of the pieces: descend from the root to the next piece, keeping the right halves that are
 * still to come; when a node is complete, so are all ancestors that end with it. */
static int make_plan(const struct iq_all_reduce *a, struct plan *plan)
{
    struct {
        uint32_t unit, units, complete; /* a node on the way down; whether its left half is done */
    } way[DEPTH + 1];
    uint32_t depth = 0, unit = 0;
    plan->a = a;
    if (a->pieces == 0 || a->pieces > IQ_REDUCE_PIECES) return IQ_SHAPE;
    uint32_t from = 0, size = a->units;
    for (uint32_t p = 0; p < a->pieces; p++) {
        const struct iq_piece *piece = &a->piece[p];
        if (piece->unit != from || size == 0) return IQ_SHAPE;
        while (piece->units != size) {
            if (size < 2 || depth == DEPTH) return IQ_SHAPE;
            way[depth].unit = from, way[depth].units = size, way[depth].complete = 0;
            depth++;
            size = iq_tree_left(size);
        }
        plan->join[p] = 0;
        while (depth > 0 && way[depth - 1].complete) plan->join[p]++, depth--;
        unit = piece->unit + piece->units;
        if (depth == 0) return p + 1 == a->pieces && unit == a->units ? IQ_OK : IQ_SHAPE;
        way[depth - 1].complete = 1; /* and its right half is next */
        from = unit;
        size = way[depth - 1].unit + way[depth - 1].units - from;
    }
    return IQ_SHAPE;
}

static void reduce_run(const struct plan *plan, uint32_t r, uint32_t i, uint32_t n)
{
    const struct iq_all_reduce *a = plan->a;
    float stack[DEPTH + 1][RUN], *y = a->y + r * a->ldy + i;
    uint32_t top = 0;
    for (uint32_t p = 0; p < a->pieces; p++) {
        memcpy(stack[top++], a->piece[p].x + r * a->piece[p].ldx + i, n * sizeof(float));
        for (uint32_t j = 0; j < plan->join[p]; j++, top--)
            for (uint32_t c = 0; c < n; c++) stack[top - 2][c] += stack[top - 1][c];
    }
    for (uint32_t c = 0; c < n; c++) y[c] = iq_act_round(stack[0][c], a->act);
}

static void part(void *ctx, int index, int parts)
{
    const struct plan *plan = ctx;
    const struct iq_all_reduce *a = plan->a;
    int begin, end;
    iq_slice((int)a->rows, index, parts, &begin, &end);
    for (int r = begin; r < end; r++)
        for (uint32_t i = 0; i < a->n; i += RUN)
            reduce_run(plan, (uint32_t)r, i, a->n - i < RUN ? a->n - i : RUN);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_all_reduce *a = args;
    struct plan plan;
    (void)site, (void)params, (void)state;
    if (a->rows == 0 || a->n == 0) return IQ_OK;
    IQ_TRY(make_plan(a, &plan));
    uint64_t work = (uint64_t)a->rows * a->n * a->pieces;
    iq_pool_run(work < PARALLEL_WORK ? NULL : x->pool, part, &plan);
    return IQ_OK;
}

const struct iq_variant iq__all_reduce_scalar = {
    .kind = "all_reduce", .name = "scalar", .device = "cpu", .flags = IQ_V_GOLDEN, .run = run};
