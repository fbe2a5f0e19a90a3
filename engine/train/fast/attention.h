/* The gradient of attention for one instruction set. An item is a KV head of a sequence; its query rows come in blocks of
 * ROWS, so that what is read of keys and values serves them all. Lanes are keys where scores are made, elements of a head
 * where rows are summed; the chains over keys and over query rows stay in order. */

#if VL == 16
enum { ROWS = 8 };
#else
enum { ROWS = 4 };
#endif

struct attention_work {
    const struct iq_train_attention_back *a;
    size_t dim, keys; /* rounded up to whole vectors */
    float *room;      /* (threads, one) */
    size_t one;
};

/* A thread's room. What is past the end of a head or a sequence is zeros or is never read. */
struct head_room {
    float *kt, *vt;     /* (dim, keys): transposed */
    float *k, *dk, *dv; /* (unit, dim) */
    float *q, *dy;      /* (ROWS, dim): the block's rows */
    float *p, *g;       /* (ROWS, keys) */
};

static size_t room_floats(const struct attention_work *w)
{
    return 2 * w->a->dim * w->keys + 3 * w->a->unit * w->dim + 2 * ROWS * (w->dim + w->keys);
}

static struct head_room furnish(const struct attention_work *w, int part)
{
    float *at = w->room + (size_t)part * w->one;
    struct head_room h;
    h.kt = at, h.vt = h.kt + w->a->dim * w->keys;
    h.k = h.vt + w->a->dim * w->keys, h.dk = h.k + w->a->unit * w->dim, h.dv = h.dk + w->a->unit * w->dim;
    h.q = h.dv + w->a->unit * w->dim, h.dy = h.q + ROWS * w->dim;
    h.p = h.dy + ROWS * w->dim, h.g = h.p + ROWS * w->keys;
    memset(at, 0, w->one * sizeof *at);
    return h;
}

/* out[r][j] = dot of row r with key j, times scale where it isn't 0, for the first `keys` keys, rounded up. */
static void block_dots(const struct attention_work *w, const float *rows, const float *columns, size_t keys,
                       float scale, float *out)
{
    for (size_t j = 0; j < keys; j += VL) {
        vf acc[ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) acc[r] = v_set1(0.0f);
        for (size_t d = 0; d < w->a->dim; d++) {
            vf c = v_load(columns + d * w->keys + j);
            UNROLL for (int r = 0; r < ROWS; r++) acc[r] = v_fma(v_set1(rows[r * w->dim + d]), c, acc[r]);
        }
        UNROLL for (int r = 0; r < ROWS; r++)
            v_store(out + r * w->keys + j, scale != 0.0f ? v_mul(acc[r], v_set1(scale)) : acc[r]);
    }
}

/* Scores to weights and their gradients: a row whose keys are the first `keys`. */
static void weigh_row(float *p, float *g, size_t keys, float c, float scale)
{
    float max = vector_maximum(p, keys), over = 1.0f / vector_exponentials(p, keys, max);
    for (size_t j = 0; j < keys; j += VL) {
        vf weight = v_mul(v_load(p + j), v_set1(over));
        v_store(p + j, weight);
        v_store(g + j, v_mul(v_mul(weight, v_sub(v_load(g + j), v_set1(c))), v_set1(scale)));
    }
}

/* dq of the block's n rows: chains over their keys. The first row sees keys 0 .. first, row r sees r more. */
static void sum_queries(const struct attention_work *w, const struct head_room *h, size_t first, size_t n,
                        float *dq)
{
    for (size_t d = 0; d < w->dim; d += VL) {
        vf acc[ROWS];
        float sums[VL];
        UNROLL for (int r = 0; r < ROWS; r++) acc[r] = v_set1(0.0f);
        for (size_t j = 0; j <= first; j++) {
            vf k = v_load(h->k + j * w->dim + d);
            UNROLL for (int r = 0; r < ROWS; r++) acc[r] = v_fma(v_set1(h->g[r * w->keys + j]), k, acc[r]);
        }
        for (size_t r = 0; r < n; r++) {
            vf sum = acc[r];
            for (size_t j = first + 1; j <= first + r; j++)
                sum = v_fma(v_set1(h->g[r * w->keys + j]), v_load(h->k + j * w->dim + d), sum);
            v_store(sums, sum);
            memcpy(dq + r * w->a->ld + d, sums, least(VL, w->a->dim - d) * sizeof *sums);
        }
    }
}

/* to[j] = fmaf(weight of row r on key j, row r, to[j]) for the block's n rows in order. */
static void sum_keys(const struct attention_work *w, const float *weight, const float *rows, size_t first,
                     size_t n, float *to)
{
    for (size_t d = 0; d < w->dim; d += VL) {
        vf row[ROWS];
        UNROLL for (int r = 0; r < ROWS; r++) row[r] = v_load(rows + r * w->dim + d);
        for (size_t j = 0; j <= first && n == ROWS; j++) {
            vf sum = v_load(to + j * w->dim + d);
            UNROLL for (int r = 0; r < ROWS; r++) sum = v_fma(v_set1(weight[r * w->keys + j]), row[r], sum);
            v_store(to + j * w->dim + d, sum);
        }
        for (size_t j = n == ROWS ? first + 1 : 0; j < first + n; j++) {
            vf sum = v_load(to + j * w->dim + d);
            for (size_t r = j > first ? j - first : 0; r < n; r++)
                sum = v_fma(v_set1(weight[r * w->keys + j]), v_load(rows + r * w->dim + d), sum);
            v_store(to + j * w->dim + d, sum);
        }
    }
}

static void block_back(const struct attention_work *w, const struct head_room *h, size_t sequence,
                       size_t first, size_t head)
{
    const struct iq_train_attention_back *a = w->a;
    const size_t n = least(ROWS, a->unit - first), row = sequence * a->unit + first;
    const float *y = a->y + row * a->heads * a->dim + head, *dy = a->dy + row * a->heads * a->dim + head;
    for (size_t r = 0; r < n; r++) {
        memcpy(h->q + r * w->dim, a->q + (row + r) * a->ld + head, a->dim * sizeof *h->q);
        memcpy(h->dy + r * w->dim, dy + r * a->heads * a->dim, a->dim * sizeof *h->dy);
    }
    block_dots(w, h->q, h->kt, first + n, a->scale, h->p);
    block_dots(w, h->dy, h->vt, first + n, 0.0f, h->g);
    for (size_t r = 0; r < n; r++) {
        float c = fold_products(h->dy + r * w->dim, y + r * a->heads * a->dim, a->dim);
        weigh_row(h->p + r * w->keys, h->g + r * w->keys, first + r + 1, c, a->scale);
    }
    sum_queries(w, h, first, n, a->dq + row * a->ld + head);
    sum_keys(w, h->g, h->q, first, n, h->dk);
    sum_keys(w, h->p, h->dy, first, n, h->dv);
}

static void attention_items(const void *ctx, size_t begin, size_t end, int part)
{
    const struct attention_work *w = ctx;
    const struct iq_train_attention_back *a = w->a;
    const size_t group = a->heads / a->kv_heads;
    for (size_t item = begin; item < end; item++) {
        struct head_room h = furnish(w, part);
        size_t sequence = item / a->kv_heads, kv = item % a->kv_heads;
        size_t origin = sequence * a->unit * a->ld + kv * a->dim;
        for (size_t r = 0; r < a->unit; r++) {
            const float *k = a->k + origin + r * a->ld, *v = a->v + origin + r * a->ld;
            memcpy(h.k + r * w->dim, k, a->dim * sizeof *k);
            for (size_t d = 0; d < a->dim; d++) h.kt[d * w->keys + r] = k[d], h.vt[d * w->keys + r] = v[d];
        }
        for (size_t head = kv * group; head < (kv + 1) * group; head++)
            for (size_t first = 0; first < a->unit; first += ROWS)
                block_back(w, &h, sequence, first, head * a->dim);
        for (size_t r = 0; r < a->unit; r++) {
            memcpy(a->dk + origin + r * a->ld, h.dk + r * w->dim, a->dim * sizeof *h.dk);
            memcpy(a->dv + origin + r * a->ld, h.dv + r * w->dim, a->dim * sizeof *h.dv);
        }
    }
}

static int attention_back(struct iq_exec *x, const struct iq_train_attention_back *a)
{
    struct attention_work w = {
        .a = a, .dim = (a->dim + VL - 1) / VL * VL, .keys = (a->unit + VL - 1) / VL * VL};
    w.one = whole_lines(room_floats(&w));
    w.room = iq_exec_scratch(x, (size_t)iq_pool_threads(x->pool) * w.one * sizeof *w.room);
    if (!w.room) return IQ_MEMORY;
    double pairs = (double)a->unit * a->unit / 2 * (a->heads / a->kv_heads);
    iq__train_split(x, (size_t)a->sequences * a->kv_heads, pairs * a->dim * 0.2, attention_items, &w);
    return IQ_OK;
}
