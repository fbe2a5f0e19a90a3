#include "kernels/cpu/vector_split.h"

struct job {
    uint32_t n, piece, pieces; /* pieces of a row */
    uint64_t spans;
    iq__span_fn *span;
    const void *args;
};

static void part(void *ctx, int index, int parts)
{
    const struct job *j = ctx;
    uint64_t begin = j->spans * (uint64_t)index / (uint64_t)parts,
             end = j->spans * (uint64_t)(index + 1) / (uint64_t)parts;
    for (uint64_t s = begin; s < end; s++) {
        uint32_t from = (uint32_t)(s % j->pieces) * j->piece;
        j->span(j->args, (uint32_t)(s / j->pieces), from, j->n - from < j->piece ? j->n : from + j->piece);
    }
}

void iq__vector_split(struct iq_exec *x, uint32_t rows, uint32_t n, uint32_t piece, uint64_t worth,
                      iq__span_fn *span, const void *args)
{
    if (rows == 0 || n == 0) return;
    uint32_t pieces = (n - 1) / piece + 1;
    struct job job = {n, piece, pieces, (uint64_t)rows * pieces, span, args};
    iq_pool_run((uint64_t)rows * n < worth ? NULL : x->pool, part, &job);
}
