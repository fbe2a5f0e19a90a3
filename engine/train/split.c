#include "engine/train/split.h"

struct share {
    size_t items;
    iq__train_span_fn *span;
    const void *ctx;
};

static void run_part(void *ctx, int part, int parts)
{
    const struct share *s = ctx;
    size_t base = s->items / (size_t)parts, rest = s->items % (size_t)parts, p = (size_t)part;
    size_t begin = p * base + (p < rest ? p : rest), end = begin + base + (p < rest);
    if (begin < end) s->span(s->ctx, begin, end, part);
}

void iq__train_split(struct iq_exec *x, size_t items, double cost, iq__train_span_fn *span, const void *ctx)
{
    enum { WORTH = 20000 }; /* nanoseconds */
    struct share s = {items, span, ctx};
    if (items < 2 || (double)items * cost < WORTH)
        run_part(&s, 0, 1);
    else
        iq_pool_run(x->pool, run_part, &s);
}
