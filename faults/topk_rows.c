#include "faults/topk_rows.h"

#include "kernels/base/status.h"

#include <math.h>
#include <stdlib.h>

struct rows_job {
    const struct iq_topk *args;
    const void *params;
    char *scratch;
    size_t stride;
    iq__topk_row_fn *fn;
};

static void rows_part(void *ctx, int part, int parts)
{
    const struct rows_job *j = ctx;
    int begin, end;
    iq_slice((int)j->args->rows, part, parts, &begin, &end);
    for (int r = begin; r < end; r++)
        j->fn(j->args, (uint32_t)r, j->params, j->scratch + (size_t)part * j->stride);
}

int iq__topk_rows(struct iq_exec *x, const struct iq_topk *args, const void *params, size_t scratch_bytes,
                  iq__topk_row_fn *fn)
{
    struct rows_job j = {.args = args, .params = params, .fn = fn};
    j.stride = (scratch_bytes + 63) / 64 * 64;
    j.scratch = iq_exec_scratch(x, j.stride * (size_t)iq_pool_threads(x->pool));
    if (!j.scratch) return IQ_MEMORY;
    iq_pool_run(args->rows > 1 ? x->pool : NULL, rows_part, &j);
    return IQ_OK;
}

static void sift_down(uint64_t *e, uint32_t n, uint32_t i)
{
    for (uint32_t child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && e[child + 1] > e[child]) child++;
        if (e[i] >= e[child]) return;
        uint64_t t = e[i];
        e[i] = e[child];
        e[child] = t;
    }
}

void iq__best_push(struct iq__best *b, uint64_t entry)
{
    if (b->n < b->cap) {
        uint32_t i = b->n++;
        for (; i && b->entry[(i - 1) / 2] < entry; i = (i - 1) / 2) b->entry[i] = b->entry[(i - 1) / 2];
        b->entry[i] = entry;
    } else if (b->cap && entry < b->entry[0]) {
        b->entry[0] = entry;
        sift_down(b->entry, b->n, 0);
    }
}

void iq__best_sort(struct iq__best *b)
{
    for (uint32_t n = b->n; n > 1;) {
        uint64_t worst = b->entry[0];
        b->entry[0] = b->entry[--n];
        b->entry[n] = worst;
        sift_down(b->entry, n, 0);
    }
}

void iq__topk_write(const struct iq_topk *a, uint32_t r, const uint64_t *entry, uint32_t n)
{
    uint32_t *ids = a->ids + (size_t)r * a->k;
    float *values = a->values + (size_t)r * a->k;
    for (uint32_t i = 0; i < a->k; i++) {
        ids[i] = i < n ? (uint32_t)entry[i] : 0;
        values[i] = i < n ? a->logits[r * a->ld + ids[i]] : -INFINITY;
    }
}
