/* The gradients of a mixture of experts that work row by row, written once as those of rows.h are: included after it. */

static void combine_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_combine_back *a = ctx;
    (void)part;
    for (size_t slot = begin * a->k; slot < end * a->k; slot++) {
        const size_t at = a->place[slot] * (size_t)a->n;
        const float *dy = a->dy + slot / a->k * a->n, weight = a->weight[slot];
        a->dweight[slot] = fold_products(dy, a->x + at, a->n);
        for (uint32_t i = 0; i < a->n; i++) a->dx[at + i] = weight * dy[i];
    }
}

static int combine_back(struct iq_exec *x, const struct iq_train_combine_back *a)
{
    iq__train_split(x, a->rows, 0.5 * a->k * a->n, combine_rows, a);
    return IQ_OK;
}

static void dispatch_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_dispatch_back *a = ctx;
    (void)part;
    for (size_t r = begin; r < end; r++) {
        const uint32_t *place = a->place + r * a->k;
        float *dx = a->dx + r * a->n;
        for (uint32_t i = 0; i < a->n; i++) {
            float sum = a->dy[place[0] * (size_t)a->n + i];
            for (uint32_t s = 1; s < a->k; s++) sum = sum + a->dy[place[s] * (size_t)a->n + i];
            dx[i] = sum + dx[i];
        }
    }
}

static int dispatch_back(struct iq_exec *x, const struct iq_train_dispatch_back *a)
{
    iq__train_split(x, a->rows, 0.3 * a->k * a->n, dispatch_rows, a);
    return IQ_OK;
}

/* ---- route_back ---- */

struct route_work {
    const struct iq_train_route_back *a;
    float *count; /* (sequences, experts) slots: below 2^22, exact */
    float *room;  /* (threads, experts) */
};

/* Softmax of n numbers. */
static void soften(const float *x, uint32_t n, float *p)
{
    float max = -INFINITY, lane[IQ_VECTOR_LANES] = {0};
    for (uint32_t i = 0; i < n; i++) max = iq_max(max, x[i]);
    for (uint32_t i = 0; i < n; i++) {
        p[i] = iq_exp(x[i] - max);
        lane[i % IQ_VECTOR_LANES] += p[i];
    }
    float over = 1.0f / iq_fold32(lane);
    for (uint32_t i = 0; i < n; i++) p[i] = p[i] * over;
}

static void route_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct route_work *w = ctx;
    const struct iq_train_route_back *a = w->a;
    float *p = w->room + (size_t)part * a->experts;
    for (size_t r = begin; r < end; r++) {
        const float *count = w->count + r / a->unit * a->experts;
        const float *weight = a->weight + r * a->k, *dweight = a->dweight + r * a->k;
        float *dlogits = a->dlogits + r * a->experts, c = weight[0] * dweight[0];
        soften(a->logits + r * a->experts, a->experts, p);
        float b = fold_products(p, count, a->experts);
        for (uint32_t e = 0; e < a->experts; e++) dlogits[e] = (p[e] * (count[e] - b)) * a->scale;
        for (uint32_t s = 1; s < a->k; s++) c = IQ_FMAF(weight[s], dweight[s], c);
        for (uint32_t s = 0; s < a->k; s++) {
            float *own = &dlogits[a->expert[r * a->k + s]];
            *own = IQ_FMAF(weight[s], dweight[s] - c, *own);
        }
        a->balance[r] = a->balance[r] + b;
    }
}

static int route_back(struct iq_exec *x, const struct iq_train_route_back *a)
{
    const size_t counts = (size_t)a->rows / a->unit * a->experts;
    const size_t rooms = (size_t)iq_pool_threads(x->pool) * a->experts;
    struct route_work w = {.a = a, .count = iq_exec_scratch(x, (counts + rooms) * sizeof *w.count)};
    if (!w.count) return IQ_MEMORY;
    w.room = w.count + counts;
    memset(w.count, 0, counts * sizeof *w.count);
    for (size_t slot = 0; slot < (size_t)a->rows * a->k; slot++)
        w.count[slot / a->k / a->unit * a->experts + a->expert[slot]] += 1.0f;
    iq__train_split(x, a->rows, 10.0 * a->experts, route_rows, &w);
    return IQ_OK;
}
