/* The gradient of attention for one instruction set. An item is a KV head of a sequence; its query rows come in blocks of
 * ROWS, so that what is read of keys and values serves them all. Each of the four products is made of the register tile of
 * product.h: lanes are keys where scores are made, elements of a head where rows are summed; the chains over keys and over
 * query rows stay in order. Keys that only some rows of the block see, the block's own, come last, one by one. */

enum { ROWS = TILE_M };

struct attention_work {
    const struct iq_train_attention_back *a;
    size_t dim, keys; /* rounded up to whole tiles; strides of rows */
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
    memset(h.dk, 0, 2 * w->a->unit * w->dim * sizeof *h.dk);
    return h;
}

/* out[r][j] = dot of row r with key j, times scale where it isn't 0, for the first `keys` keys, rounded up. */
static void block_dots(const struct attention_work *w, const float *rows, const float *columns, size_t keys,
                       float scale, float *out)
{
    const size_t dim = w->dim, ld = w->keys, n = w->a->dim;
    for (size_t j = 0; j < keys; j += TILE_N) {
        vf acc[TILE_M * TILE_V];
        EACH_CELL acc[i * TILE_V + v] = v_set1(0.0f);
        for (size_t d = 0; d < n; d++) {
            vf c[TILE_V];
            UNROLL for (int v = 0; v < TILE_V; v++) c[v] = v_load(columns + d * ld + j + v * VL);
            EACH_CELL acc[i * TILE_V + v] = v_fma(v_set1(rows[i * dim + d]), c[v], acc[i * TILE_V + v]);
        }
        if (scale != 0.0f) EACH_CELL acc[i * TILE_V + v] = v_mul(acc[i * TILE_V + v], v_set1(scale));
        EACH_CELL v_store(out + i * ld + j + v * VL, acc[i * TILE_V + v]);
    }
}

/* Scores to weights and their gradients: a row whose keys are the first `keys`. */
static void weigh_row(float *p, float *g, size_t keys, float c, float scale)
{
    for (; keys % VL; keys++) p[keys] = -INFINITY; /* weights +0: they add nothing */
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
    const size_t dim = w->dim, ld = w->keys;
    const float *g = h->g;
    for (size_t d = 0; d < w->a->dim; d += TILE_N) {
        const float *k = h->k + d;
        float sums[TILE];
        vf acc[TILE_M * TILE_V];
        EACH_CELL acc[i * TILE_V + v] = v_set1(0.0f);
        for (size_t j = 0; j <= first; j++) {
            vf key[TILE_V];
            UNROLL for (int v = 0; v < TILE_V; v++) key[v] = v_load(k + j * dim + v * VL);
            EACH_CELL acc[i * TILE_V + v] = v_fma(v_set1(g[i * ld + j]), key[v], acc[i * TILE_V + v]);
        }
        EACH_CELL v_store(sums + i * TILE_N + v * VL, acc[i * TILE_V + v]);
        for (size_t r = 0; r < n; r++) {
            float *sum = sums + r * TILE_N;
            for (size_t e = 0; e < TILE_N; e += VL) {
                vf own = v_load(sum + e);
                for (size_t j = first + 1; j <= first + r; j++)
                    own = v_fma(v_set1(g[r * ld + j]), v_load(k + j * dim + e), own);
                v_store(sum + e, own);
            }
            memcpy(dq + r * w->a->ld + d, sum, least(TILE_N, w->a->dim - d) * sizeof *sum);
        }
    }
}

/* to[j] = fmaf(weight of row r on key j, row r, to[j]) for the block's n rows in order. Tiles are of keys. */
static void sum_keys(const struct attention_work *w, const float *weight, const float *rows, size_t first,
                     size_t n, float *to)
{
    const size_t dim = w->dim, ld = w->keys;
    for (size_t d = 0; d < w->a->dim; d += TILE_N) {
        for (size_t j = 0; j < first; j += TILE_M) {
            float *at = to + j * dim + d;
            vf sum[TILE_M * TILE_V];
            EACH_CELL sum[i * TILE_V + v] = v_load(at + i * dim + v * VL);
            for (size_t r = 0; r < n; r++) {
                vf row[TILE_V];
                UNROLL for (int v = 0; v < TILE_V; v++) row[v] = v_load(rows + r * dim + d + v * VL);
                EACH_CELL sum[i * TILE_V + v] =
                    v_fma(v_set1(weight[r * ld + j + i]), row[v], sum[i * TILE_V + v]);
            }
            EACH_CELL v_store(at + i * dim + v * VL, sum[i * TILE_V + v]);
        }
        for (size_t j = first; j < first + n; j++)
            for (size_t e = d; e < d + TILE_N; e += VL) {
                vf sum = v_load(to + j * dim + e);
                for (size_t r = j - first; r < n; r++)
                    sum = v_fma(v_set1(weight[r * ld + j]), v_load(rows + r * dim + e), sum);
                v_store(to + j * dim + e, sum);
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
        float c = vector_products(h->dy + r * w->dim, y + r * a->heads * a->dim, a->dim);
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
    /* A line more than the keys, so that the transposed rows don't share a few sets of the cache. */
    struct attention_work w = {.a = a,
                               .dim = (a->dim + TILE_N - 1) / TILE_N * TILE_N,
                               .keys = (a->unit + TILE_N - 1) / TILE_N * TILE_N + 16};
    w.one = whole_lines(room_floats(&w));
    const size_t room = (size_t)iq_pool_threads(x->pool) * w.one * sizeof *w.room;
    w.room = iq_exec_scratch(x, room);
    if (!w.room) return IQ_MEMORY;
    memset(w.room, 0, room);
    double pairs = (double)a->unit * a->unit / 2 * (a->heads / a->kv_heads);
    iq__train_split(x, (size_t)a->sequences * a->kv_heads, pairs * a->dim * 0.2, attention_items, &w);
    return IQ_OK;
}
