/* A run of a store as a trace: one snapshot, values copied out so that they are aligned and can't move. */
#include "golden/store_env.h"

#include <stdlib.h>

struct run {
    struct iq_store *store;
    MDB_txn *txn;
    bool owns_txn;
    uint32_t ord, n_nodes;
    char id[IQ_DIGEST_HEX], *manifest, *message;
    struct iq_node *nodes;
    char *request; /* the last request's record */
    size_t request_cap;
    struct iq_position *pos;
    size_t pos_cap;
    struct iq_digest *digest; /* (n_nodes) */
    uint8_t *state;           /* (n_nodes) */
    char *tensor;
    size_t tensor_cap;
};

static int room(void *pp, size_t *cap, size_t need, struct iq_err *err)
{
    if (need <= *cap) return IQ_OK;
    size_t want = need + need / 2;
    void *more = realloc(*(void **)pp, want);
    if (!more) return iq_fail(err, IQ_MEMORY, "no memory for %zu bytes of a run's records", want);
    *(void **)pp = more;
    *cap = want;
    return IQ_OK;
}

/* The record in `value`, with its strings and ids checked; pointers into `value`, which is aligned. */
static int request_decode(const char *value, size_t len, uint32_t request, struct iq_request_end *out,
                          struct iq_err *err)
{
    struct iq__request_rec r;
    if (len < sizeof r) return iq_fail(err, IQ_FORMAT, "request %u: a record of %zu bytes", request, len);
    memcpy(&r, value, sizeof r);
    uint64_t need = sizeof r + 4ull * r.n_ids;
    for (int i = 0; i < 4; i++) need += r.len[i];
    if (need != len || r.n_prompt > r.n_ids)
        return iq_fail(err, IQ_FORMAT, "request %u: its lengths need %llu bytes, the record has %zu", request,
                       (unsigned long long)need, len);
    const char *s = value + sizeof r + 4 * (size_t)r.n_ids, *text[4];
    for (int i = 0; i < 4; s += r.len[i], i++) {
        if (!r.len[i] || memchr(s, 0, r.len[i]) != s + r.len[i] - 1)
            return iq_fail(err, IQ_FORMAT, "request %u: string %d is not ended where its length says",
                           request, i);
        text[i] = s;
    }
    *out = (struct iq_request_end){.request = request,
                                   .id = text[0],
                                   .params = text[1],
                                   .text = text[2],
                                   .finish = text[3],
                                   .ids = (const uint32_t *)(const void *)(value + sizeof r),
                                   .n_ids = r.n_ids,
                                   .n_prompt = r.n_prompt,
                                   .chain = r.chain};
    return IQ_OK;
}

static int run_request(void *self, uint32_t at_least, struct iq_request_end *out, struct iq_err *err)
{
    struct run *r = self;
    struct iq__scan scan;
    struct iq__key at = iq__key2(r->ord, at_least);
    IQ_TRY(iq__scan_open(r->store, r->txn, IQ__DB_REQUESTS, iq__key1(r->ord), &scan, err));
    int rc = iq__scan_seek(r->store, &scan, &at, err);
    if (!rc && scan.key.mv_size != 8)
        rc = iq_fail(err, IQ_FORMAT, "%s: requests: a key of %zu bytes", r->store->path, scan.key.mv_size);
    if (!rc) rc = room(&r->request, &r->request_cap, scan.value.mv_size, err);
    if (!rc) {
        memcpy(r->request, scan.value.mv_data, scan.value.mv_size);
        rc = request_decode(r->request, scan.value.mv_size, iq__u32_at(scan.key.mv_data, 4), out, err);
    }
    iq__scan_close(&scan);
    return rc;
}

static int positions_take(struct run *r, uint32_t request, const struct iq__scan *scan, size_t *n,
                          struct iq_err *err)
{
    size_t len = scan->value.mv_size, count = len / sizeof(struct iq_position);
    if (scan->key.mv_size != 12 || len % sizeof(struct iq_position) || !count || count > IQ__CHUNK)
        return iq_fail(err, IQ_FORMAT, "%s: request %u: a positions record of %zu bytes", r->store->path,
                       request, len);
    uint32_t first = iq__u32_at(scan->key.mv_data, 8) * (uint32_t)IQ__CHUNK;
    if (first != *n)
        return iq_fail(err, IQ_FORMAT, "%s: request %u: position %zu is missing", r->store->path, request,
                       *n);
    IQ_TRY(room(&r->pos, &r->pos_cap, (*n + count) * sizeof *r->pos, err));
    memcpy(r->pos + *n, scan->value.mv_data, len);
    for (size_t i = *n; i < *n + count; i++) {
        const struct iq_position *p = &r->pos[i];
        if (p->request != request || p->pos != i || !p->state || p->state >= IQ_CELL_STATES ||
            p->has_logits > 1)
            return iq_fail(err, IQ_FORMAT, "%s: request %u: position %zu holds another's record or none",
                           r->store->path, request, i);
    }
    *n += count;
    return IQ_OK;
}

static int run_positions(void *self, uint32_t request, const struct iq_position **out, size_t *n,
                         struct iq_err *err)
{
    struct run *r = self;
    struct iq__scan scan;
    *out = NULL;
    *n = 0;
    IQ_TRY(iq__scan_open(r->store, r->txn, IQ__DB_POSITIONS, iq__key2(r->ord, request), &scan, err));
    int rc;
    while ((rc = iq__scan_next(r->store, &scan, err)) == IQ_OK)
        if ((rc = positions_take(r, request, &scan, n, err))) break;
    iq__scan_close(&scan);
    if (rc != IQ_NOT_FOUND) return rc;
    *out = r->pos;
    return *n ? IQ_OK : IQ_NOT_FOUND;
}

static int run_cells(void *self, uint32_t request, uint32_t pos, uint32_t attempt,
                     const struct iq_digest **digest, const uint8_t **state, struct iq_err *err)
{
    struct run *r = self;
    bool any = false;
    memset(r->state, 0, r->n_nodes);
    for (uint32_t first = 0; first < r->n_nodes; first += IQ__PART) {
        uint32_t count = r->n_nodes - first < IQ__PART ? r->n_nodes - first : IQ__PART;
        struct iq__key k =
            iq__key_cell(r->ord, request, pos, (uint16_t)attempt, (uint16_t)(first / IQ__PART));
        MDB_val v;
        int rc = iq__get(r->store, r->txn, IQ__DB_CELLS, &k, &v, err);
        if (rc == IQ_NOT_FOUND) continue;
        if (rc) return rc;
        if (v.mv_size != count * 17u)
            return iq_fail(err, IQ_FORMAT, "%s: request %u position %u: cells of %zu bytes, expected %u",
                           r->store->path, request, pos, v.mv_size, count * 17u);
        memcpy(r->digest + first, v.mv_data, count * 16u);
        memcpy(r->state + first, (const char *)v.mv_data + count * 16u, count);
        any = true;
    }
    *digest = r->digest;
    *state = r->state;
    return any ? IQ_OK : IQ_NOT_FOUND;
}

static int run_tensor(void *self, const struct iq_cell *c, const void **bytes, size_t *n, struct iq_err *err)
{
    struct run *r = self;
    struct iq__tensor_rec rec;
    struct iq__key k = iq__key_cell(r->ord, c->request, c->pos, c->attempt, c->node);
    MDB_val v;
    IQ_TRY(iq__get(r->store, r->txn, IQ__DB_TENSORS, &k, &v, err));
    if (v.mv_size != sizeof rec)
        return iq_fail(err, IQ_FORMAT, "%s: tensors: a record of %zu bytes", r->store->path, v.mv_size);
    memcpy(&rec, v.mv_data, sizeof rec);
    k = iq__key_blob(rec.digest, rec.len);
    int rc = iq__get(r->store, r->txn, IQ__DB_BLOBS, &k, &v, err);
    if (rc == IQ_NOT_FOUND || (!rc && v.mv_size != rec.len))
        return iq_fail(err, IQ_FORMAT, "%s: request %u position %u node %u: its contents are missing or cut",
                       r->store->path, c->request, c->pos, c->node);
    if (rc) return rc;
    IQ_TRY(room(&r->tensor, &r->tensor_cap, rec.len, err));
    memcpy(r->tensor, v.mv_data, rec.len);
    *bytes = r->tensor;
    *n = rec.len;
    return IQ_OK;
}

static int run_firing(void *self, uint64_t seq, struct iq_firing *out, struct iq_err *err)
{
    struct run *r = self;
    if (seq / IQ__FIRINGS > UINT32_MAX) return IQ_NOT_FOUND;
    struct iq__key k = iq__key2(r->ord, (uint32_t)(seq / IQ__FIRINGS));
    MDB_val v;
    IQ_TRY(iq__get(r->store, r->txn, IQ__DB_FIRINGS, &k, &v, err));
    if (v.mv_size % sizeof *out || v.mv_size > IQ__FIRINGS * sizeof *out)
        return iq_fail(err, IQ_FORMAT, "%s: firings: a record of %zu bytes", r->store->path, v.mv_size);
    size_t at = seq % IQ__FIRINGS * sizeof *out;
    if (at >= v.mv_size) return IQ_NOT_FOUND;
    memcpy(out, (const char *)v.mv_data + at, sizeof *out);
    return IQ_OK;
}

static void run_close(void *self)
{
    struct run *r = self;
    if (r->owns_txn) iq__read_end(r->store, r->txn);
    free(r->manifest);
    free(r->message);
    free(r->nodes);
    free(r->request);
    free(r->pos);
    free(r->digest);
    free(r->state);
    free(r->tensor);
    free(r);
}

/* A document as a string with a NUL of its own. */
static int doc_copy(struct run *r, char kind, char **out, size_t *len, struct iq_err *err)
{
    struct iq__key k = iq__key_doc(r->ord, kind);
    MDB_val v = {0, NULL};
    int rc = iq__get(r->store, r->txn, IQ__DB_DOCS, &k, &v, err);
    if (rc == IQ_NOT_FOUND && kind != 'e')
        return iq_fail(err, IQ_FORMAT, "%s: run %s has no %s", r->store->path, r->id,
                       kind == 'm' ? "manifest" : "node table");
    if (rc && rc != IQ_NOT_FOUND) return rc;
    if (!(*out = malloc(v.mv_size + 1)))
        return iq_fail(err, IQ_MEMORY, "%s: no memory for a document", r->store->path);
    if (v.mv_size) memcpy(*out, v.mv_data, v.mv_size);
    (*out)[v.mv_size] = 0;
    *len = v.mv_size;
    return IQ_OK;
}

static int run_load(struct run *r, struct iq_trace *out, struct iq_err *err)
{
    struct iq__run_rec rec;
    char *nodes;
    size_t len;
    IQ_TRY(iq__run_get(r->store, r->txn, r->ord, &rec, err));
    iq_digest_hex(rec.id, r->id);
    IQ_TRY(doc_copy(r, 'm', &r->manifest, &out->manifest_len, err));
    IQ_TRY(doc_copy(r, 'e', &r->message, &len, err));
    IQ_TRY(doc_copy(r, 'n', &nodes, &len, err));
    r->nodes = (struct iq_node *)(void *)nodes;
    r->n_nodes = rec.n_nodes;
    IQ_TRY(iq__check_nodes(nodes, len, rec.n_nodes, err));
    r->digest = calloc(rec.n_nodes, sizeof *r->digest);
    r->state = calloc(rec.n_nodes, 1);
    if (!r->digest || !r->state)
        return iq_fail(err, IQ_MEMORY, "%s: no memory for %u cells", r->store->path, rec.n_nodes);
    out->id = r->id;
    out->manifest = r->manifest;
    out->message = r->message;
    out->nodes = r->nodes;
    out->n_nodes = r->n_nodes;
    out->level = (enum iq_level)rec.level;
    out->state = (enum iq_run_state)rec.state;
    return IQ_OK;
}

int iq__trace_open(struct iq_store *s, MDB_txn *txn, uint32_t ord, bool owns_txn, struct iq_trace *out,
                   struct iq_err *err)
{
    struct run *r = calloc(1, sizeof *r);
    if (!r) {
        if (owns_txn) iq__read_end(s, txn);
        return iq_fail(err, IQ_MEMORY, "%s: no memory", s->path);
    }
    *r = (struct run){.store = s, .txn = txn, .owns_txn = owns_txn, .ord = ord};
    *out = (struct iq_trace){.self = r,
                             .request = run_request,
                             .positions = run_positions,
                             .cells = run_cells,
                             .tensor = run_tensor,
                             .firing = run_firing,
                             .close = run_close};
    int rc = run_load(r, out, err);
    if (rc) iq_trace_close(out);
    return rc;
}

int iq_store_trace(struct iq_store *s, const char *run, struct iq_trace *out, struct iq_err *err)
{
    MDB_txn *txn;
    uint32_t ord;
    *out = (struct iq_trace){0};
    IQ_TRY(iq__read_begin(s, &txn, err));
    int rc = iq__run_find(s, txn, run, &ord, err);
    if (rc) {
        iq__read_end(s, txn);
        return rc;
    }
    return iq__trace_open(s, txn, ord, true, out, err);
}
