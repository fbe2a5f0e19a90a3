/* What the writer has in flight: cells of a position, positions of a request. */
#include "golden/store_write.h"

#include <stdlib.h>

enum { OPEN_REQUESTS = 65536, FLIGHT_BYTES = 256 << 20 };

static size_t slot_of(const struct iq__table *t, uint64_t key)
{
    key *= 0x9e3779b97f4a7c15u;
    return (size_t)(key ^ key >> 32) & (t->cap - 1);
}

static size_t slot_find(const struct iq__table *t, uint64_t key)
{
    size_t i = slot_of(t, key);
    while (t->value[i] && t->key[i] != key) i = (i + 1) & (t->cap - 1);
    return i;
}

static void *table_get(const struct iq__table *t, uint64_t key)
{
    return t->cap ? t->value[slot_find(t, key)] : NULL;
}

static int table_grow(struct iq__table *t)
{
    struct iq__table big = {.cap = t->cap ? 2 * t->cap : 64, .n = t->n};
    big.key = malloc(big.cap * sizeof *big.key);
    big.value = calloc(big.cap, sizeof *big.value);
    if (!big.key || !big.value) {
        free(big.key);
        free(big.value);
        return -1;
    }
    for (size_t i = 0; i < t->cap; i++) {
        if (!t->value[i]) continue;
        size_t at = slot_find(&big, t->key[i]);
        big.key[at] = t->key[i];
        big.value[at] = t->value[i];
    }
    free(t->key);
    free(t->value);
    *t = big;
    return 0;
}

/* 0, or -1: no memory */
static int table_put(struct iq__table *t, uint64_t key, void *value)
{
    if (2 * (t->n + 1) > t->cap && table_grow(t)) return -1;
    size_t i = slot_find(t, key);
    t->n += !t->value[i];
    t->key[i] = key;
    t->value[i] = value;
    return 0;
}

/* Closes the gap by moving later entries of the same run back, so that no marks of the dead are needed. */
static void table_del(struct iq__table *t, uint64_t key)
{
    if (!t->cap) return;
    size_t i = slot_find(t, key), mask = t->cap - 1;
    if (!t->value[i]) return;
    t->n--;
    for (size_t j = i;;) {
        t->value[i] = NULL;
        for (;;) {
            j = (j + 1) & mask;
            if (!t->value[j]) return;
            size_t home = slot_of(t, t->key[j]);
            if (i <= j ? (i < home && home <= j) : (i < home || home <= j)) continue;
            break;
        }
        t->key[i] = t->key[j];
        t->value[i] = t->value[j];
        i = j;
    }
}

void iq__table_free(struct iq__table *t)
{
    for (size_t i = 0; i < t->cap; i++) free(t->value[i]);
    free(t->key);
    free(t->value);
    *t = (struct iq__table){0};
}

/* ---- requests ---- */

static int request_open(struct iq_writer *w, uint32_t request, struct iq__open_request **out)
{
    if ((*out = table_get(&w->requests, request))) return IQ_OK;
    IQ_TRY(iq__writer_txn(w, 0));
    struct iq__key k = iq__key2(w->ord, request);
    MDB_val v;
    int rc = iq__get(w->store, w->txn, IQ__DB_REQUESTS, &k, &v, &w->err);
    if (rc != IQ_NOT_FOUND)
        return rc ? rc
                  : iq_fail(&w->err, IQ_EXISTS, "run %s: request %u is recorded and ended already", w->id,
                            request);
    if (w->requests.n >= OPEN_REQUESTS)
        return iq_fail(&w->err, IQ_LIMIT, "run %s: more than %d requests in flight", w->id, OPEN_REQUESTS);
    struct iq__open_request *q = calloc(1, sizeof *q);
    if (!q || table_put(&w->requests, request, q)) {
        free(q);
        return iq_fail(&w->err, IQ_MEMORY, "no memory for request %u", request);
    }
    *out = q;
    return IQ_OK;
}

/* ---- cells ---- */

/* Later rows of a position that was written already are laid over what is there. */
static int part_flush(struct iq_writer *w, const struct iq__assembly *a, uint32_t part)
{
    uint8_t buf[IQ__PART * 17];
    uint32_t first = part * IQ__PART,
             n = w->rec.n_nodes - first < IQ__PART ? w->rec.n_nodes - first : IQ__PART;
    bool any = false;
    for (uint32_t i = first; i < first + n; i++) any |= a->state[i] != 0;
    if (!any) return IQ_OK;
    memcpy(buf, a->digest + first, 16 * n);
    memcpy(buf + 16 * n, a->state + first, n);
    struct iq__key k = iq__key_cell(w->ord, a->request, a->pos, a->attempt, (uint16_t)part);
    MDB_val old;
    IQ_TRY(iq__writer_txn(w, sizeof buf));
    int rc = iq__get(w->store, w->txn, IQ__DB_CELLS, &k, &old, &w->err);
    if (rc && rc != IQ_NOT_FOUND) return rc;
    if (!rc && old.mv_size == 17 * n)
        for (uint32_t i = 0; i < n; i++) {
            if (buf[16 * n + i]) continue;
            memcpy(buf + 16 * i, (const uint8_t *)old.mv_data + 16 * i, 16);
            buf[16 * n + i] = ((const uint8_t *)old.mv_data)[16 * n + i];
        }
    return iq__writer_put(w, IQ__DB_CELLS, &k, buf, 17 * n);
}

static int assembly_flush(struct iq_writer *w, struct iq__assembly *a)
{
    uint32_t parts = (w->rec.n_nodes + IQ__PART - 1) / IQ__PART;
    for (uint32_t p = 0; p < parts; p++) IQ_TRY(part_flush(w, a, p));
    table_del(&w->cells, (uint64_t)a->request << 32 | a->pos);
    if (w->last == a) w->last = NULL;
    free(a);
    return IQ_OK;
}

/* All assemblies, or those of one request. */
static int assemblies_flush(struct iq_writer *w, const uint32_t *request)
{
    for (size_t i = 0; i < w->cells.cap;) {
        struct iq__assembly *a = w->cells.value[i];
        /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc): a flush takes its entry out of the table before it frees it */
        if (!a || (request && a->request != *request)) {
            i++;
            continue;
        }
        IQ_TRY(assembly_flush(w, a)); /* another entry may move into slot i */
    }
    return IQ_OK;
}

static int assembly_open(struct iq_writer *w, const struct iq_cell *c, struct iq__assembly **out)
{
    uint64_t key = (uint64_t)c->request << 32 | c->pos;
    struct iq__assembly *a = table_get(&w->cells, key);
    if (a && a->attempt != c->attempt) {
        IQ_TRY(assembly_flush(w, a));
        a = NULL;
    }
    if (!a) {
        struct iq__open_request *q;
        IQ_TRY(request_open(w, c->request, &q));
        size_t n = w->rec.n_nodes, bytes = sizeof *a + 17 * n;
        if (w->cells.n * bytes > FLIGHT_BYTES) IQ_TRY(assemblies_flush(w, NULL));
        if (!(a = calloc(1, bytes)) || table_put(&w->cells, key, a)) {
            free(a);
            return iq_fail(&w->err, IQ_MEMORY, "no memory for the cells of a position");
        }
        a->request = c->request;
        a->pos = c->pos;
        a->attempt = c->attempt;
        a->digest = (struct iq_digest *)(a + 1);
        a->state = (uint8_t *)(a->digest + n);
    }
    *out = a;
    return IQ_OK;
}

int iq__gather_row(struct iq_writer *w, const struct iq_cell *c, struct iq_digest d)
{
    if (c->node >= w->rec.n_nodes || c->state < IQ_CELL_COMPUTED || c->state >= IQ_CELL_STATES)
        return iq_fail(&w->err, IQ_FORMAT,
                       "request %u position %u: a cell of node %u in state %u; the run has %u nodes",
                       c->request, c->pos, c->node, c->state, w->rec.n_nodes);
    struct iq__assembly *a = w->last;
    if (!a || a->pos != c->pos || a->request != c->request || a->attempt != c->attempt)
        IQ_TRY(assembly_open(w, c, &a));
    w->last = a;
    a->digest[c->node] = d;
    a->state[c->node] = (uint8_t)c->state;
    return IQ_OK;
}

/* ---- positions ---- */

static int chunk_flush(struct iq_writer *w, uint32_t request, struct iq__open_request *q)
{
    if (!q->used) return IQ_OK;
    struct iq__key k = iq__key3(w->ord, request, q->chunk);
    return iq__writer_put(w, IQ__DB_POSITIONS, &k, q->pos, q->used * sizeof *q->pos);
}

static int chunk_load(struct iq_writer *w, uint32_t request, uint32_t chunk, struct iq__open_request *q)
{
    struct iq__key k = iq__key3(w->ord, request, chunk);
    MDB_val v;
    memset(q->pos, 0, sizeof q->pos);
    q->chunk = chunk;
    q->used = 0;
    IQ_TRY(iq__writer_txn(w, 0));
    int rc = iq__get(w->store, w->txn, IQ__DB_POSITIONS, &k, &v, &w->err);
    if (rc) return rc == IQ_NOT_FOUND ? IQ_OK : rc;
    if (v.mv_size > sizeof q->pos)
        return iq_fail(&w->err, IQ_FORMAT, "%s: a chunk of positions is too long", w->store->path);
    memcpy(q->pos, v.mv_data, v.mv_size);
    q->used = (uint32_t)(v.mv_size / sizeof *q->pos);
    return IQ_OK;
}

/* A recomputed position that predicts nothing new keeps the prediction that it made. */
static void position_inherit(struct iq_position *now, const struct iq_position *old)
{
    if (!old->state || now->has_logits || !old->has_logits) return;
    struct iq_position merged = *old;
    merged.token = now->token;
    merged.attempt = now->attempt;
    merged.state = now->state;
    merged.batch = now->batch;
    merged.step = now->step;
    merged.tokens = now->tokens;
    merged.body = now->body;
    *now = merged;
}

int iq__gather_position(struct iq_writer *w, const struct iq_position *p)
{
    struct iq__open_request *q;
    if (p->state < IQ_CELL_COMPUTED || p->state >= IQ_CELL_STATES || p->has_logits > 1)
        return iq_fail(&w->err, IQ_FORMAT, "request %u position %u: state %u, has_logits %u: out of range",
                       p->request, p->pos, p->state, p->has_logits);
    struct iq__assembly *a = table_get(&w->cells, (uint64_t)p->request << 32 | p->pos);
    if (a) IQ_TRY(assembly_flush(w, a));
    IQ_TRY(request_open(w, p->request, &q));
    uint32_t chunk = p->pos / IQ__CHUNK, at = p->pos % IQ__CHUNK;
    if (q->chunk != chunk || !q->used) {
        IQ_TRY(chunk_flush(w, p->request, q));
        IQ_TRY(chunk_load(w, p->request, chunk, q));
    }
    struct iq_position now = *p;
    position_inherit(&now, &q->pos[at]);
    q->pos[at] = now;
    if (at >= q->used) q->used = at + 1;
    if (p->pos >= q->length) q->length = p->pos + 1;
    return IQ_OK;
}

int iq__gather_end(struct iq_writer *w, uint32_t request, uint32_t *length)
{
    struct iq__open_request *q;
    if (w->cells.n) IQ_TRY(assemblies_flush(w, &request));
    IQ_TRY(request_open(w, request, &q));
    IQ_TRY(chunk_flush(w, request, q));
    *length = q->length;
    table_del(&w->requests, request);
    free(q);
    return IQ_OK;
}
