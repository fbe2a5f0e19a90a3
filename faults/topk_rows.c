#include "faults/topk_rows.h"

#include "kernels/base/status.h"

struct rows_job {
    const struct iq_topk *args;
    const void *rule;
    uint64_t *room;
    size_t entries;
    iq__topk_row_fn *fn;
};

static void rows_part(void *ctx, int part, int parts)
{
    const struct rows_job *j = ctx;
    struct iq__team_room room;
    struct iq__team alone = {0, 1, &room};
    int begin, end;
    iq_slice((int)j->args->rows, part, parts, &begin, &end);
    for (int r = begin; r < end; r++)
        j->fn(alone, j->args, (uint32_t)r, j->rule, j->room + (size_t)part * j->entries);
}

int iq__topk_rows(struct iq_exec *x, const struct iq_topk *args, const void *rule, size_t entries,
                  iq__topk_row_fn *fn)
{
    struct rows_job j = {.args = args, .rule = rule, .fn = fn};
    j.entries = (entries + 7) / 8 * 8; /* whole cache lines */
    j.room = iq_exec_scratch(x, j.entries * (size_t)iq_pool_threads(x->pool) * sizeof *j.room);
    if (!j.room) return IQ_MEMORY;
    iq_pool_run(args->rows > 1 ? x->pool : NULL, rows_part, &j);
    return IQ_OK;
}

int iq__topk_queue(struct iq_exec *x, const struct iq_topk *args, const void *rule, size_t entries,
                   iq__topk_launch *launch)
{
    uint64_t *room = iq_cuda_scratch(x->cuda, args->rows * entries * sizeof *room);
    if (!room) return IQ_MEMORY;
    return iq_cuda_launched(x->cuda, launch(args, rule, room, entries, x->cuda->stream), "a wrong top-k");
}
