/* Checks of contents: what a store says must follow from what it holds. */
#include "golden/store_env.h"

#include <stdlib.h>

enum { MISSES = 100000, MISSES_EACH = 64 }; /* what a hostile store may make the check look for in vain */

static bool ended(const char *s, size_t n) { return memchr(s, 0, n) != NULL; }

int iq__check_nodes(const void *bytes, size_t len, uint32_t n, struct iq_err *err)
{
    const uint16_t known = IQ_NODE_CHAIN | IQ_NODE_KV | IQ_NODE_READS_KV | IQ_NODE_LOGITS | IQ_NODE_CONTROL;
    if (!n || n > IQ__NODES_MAX || len != n * sizeof(struct iq_node))
        return iq_fail(err, IQ_FORMAT,
                       "a node table of %zu bytes for %u nodes; expected 1 to %d nodes of %zu bytes", len, n,
                       IQ__NODES_MAX, sizeof(struct iq_node));
    for (uint32_t i = 0; i < n; i++) {
        struct iq_node node;
        memcpy(&node, (const char *)bytes + i * sizeof node, sizeof node);
        if (!ended(node.op, sizeof node.op) || !ended(node.kind, sizeof node.kind) ||
            !ended(node.point, sizeof node.point) || node.inputs > IQ_NODE_INPUTS || (node.flags & ~known))
            return iq_fail(err, IQ_FORMAT,
                           "node %u: a name without its end, %u inputs, or flags 0x%x that no node has", i,
                           node.inputs, node.flags);
        for (int j = 0; j < node.inputs; j++)
            if (node.input[j] >= i)
                return iq_fail(err, IQ_FORMAT, "node %u (%s): input %u is not an earlier node", i, node.op,
                               node.input[j]);
    }
    return IQ_OK;
}

struct check {
    struct iq_trace *t;
    struct iq_store_tally *sum;
    int lm_head, topk; /* whole-row nodes, or -1 */
    struct iq_digest *body;
    uint64_t misses; /* attempts that had no cells: preempted before the position, or a lie */
    struct iq_err *err;
};

static int node_find(const struct iq_trace *t, const char *op)
{
    for (uint32_t i = 0; i < t->n_nodes; i++)
        if (!strcmp(t->nodes[i].op, op) && t->nodes[i].rank == IQ_WHOLE) return (int)i;
    return -1;
}

/* The chain cells of one attempt as a body. IQ_NOT_FOUND: that attempt has no cells. */
static int attempt_body(struct check *c, const struct iq_position *p, uint32_t attempt,
                        struct iq_digest *body, const struct iq_digest **d, const uint8_t **state)
{
    size_t n = 0;
    IQ_TRY(c->t->cells(c->t->self, p->request, p->pos, attempt, d, state, c->err));
    for (uint32_t i = 0; i < c->t->n_nodes; i++) {
        if ((*state)[i] >= IQ_CELL_STATES)
            return iq_fail(c->err, IQ_FORMAT, "request %u position %u node %u: cell state %u", p->request,
                           p->pos, i, (*state)[i]);
        c->sum->cells += (*state)[i] != 0;
        uint16_t flags = c->t->nodes[i].flags;
        if ((*state)[i] && (flags & IQ_NODE_CHAIN) && !(flags & IQ_NODE_LOGITS)) c->body[n++] = (*d)[i];
    }
    *body = iq_digest_list(c->body, n);
    return IQ_OK;
}

/* The cell of `node`, where this attempt has it, says what the position says. */
static int head_check(struct check *c, const struct iq_position *p, int node, const struct iq_digest *d,
                      const uint8_t *state, struct iq_digest want, bool *seen)
{
    if (!p->has_logits || node < 0 || state[node] != IQ_CELL_COMPUTED) return IQ_OK;
    *seen = true;
    if (iq_digest_equal(d[node], want)) return IQ_OK;
    return iq_fail(c->err, IQ_MISMATCH,
                   "request %u position %u: what it predicts is not that of its cell of %s", p->request,
                   p->pos, c->t->nodes[node].op);
}

/* A position that was computed again with other bits has both bodies in its digest, folded in order of attempts. */
static int cells_check(struct check *c, const struct iq_position *p)
{
    const struct iq_digest *d;
    const uint8_t *state;
    struct iq_digest body = {0, 0}, now;
    bool any = false, head = false, picks = false;
    for (uint32_t a = 0; a <= p->attempt; a++) {
        int rc = attempt_body(c, p, a, &now, &d, &state);
        if (rc == IQ_NOT_FOUND && ++c->misses < MISSES + MISSES_EACH * c->sum->positions) continue;
        if (rc == IQ_NOT_FOUND)
            return iq_fail(c->err, IQ_FORMAT,
                           "request %u position %u: attempt %u, and hardly any attempt has cells", p->request,
                           p->pos, p->attempt);
        IQ_TRY(rc);
        body = !any || iq_digest_equal(body, now) ? now : iq_digest_list((struct iq_digest[]){body, now}, 2);
        any = true;
        /* The prediction is that of the first attempt that made one. */
        if (!head) IQ_TRY(head_check(c, p, c->lm_head, d, state, p->logits, &head));
        if (!picks) IQ_TRY(head_check(c, p, c->topk, d, state, p->candidates, &picks));
    }
    if (!any)
        return iq_fail(c->err, IQ_MISMATCH, "request %u position %u: its cells are missing", p->request,
                       p->pos);
    if (!iq_digest_equal(body, p->body))
        return iq_fail(c->err, IQ_MISMATCH,
                       "request %u position %u: its body is not the digest of its chain cells", p->request,
                       p->pos);
    return IQ_OK;
}

static int request_check(struct check *c, const struct iq_request_end *e)
{
    const struct iq_position *p;
    struct iq_digest chain = {0, 0};
    size_t n;
    int rc = c->t->positions(c->t->self, e->request, &p, &n, c->err);
    if (rc == IQ_NOT_FOUND) n = 0, rc = IQ_OK;
    IQ_TRY(rc);
    for (size_t i = 0; i < n; i++) {
        if (i < e->n_ids && p[i].token != e->ids[i])
            return iq_fail(c->err, IQ_MISMATCH, "request %u position %zu: token %u, its ids say %u",
                           e->request, i, p[i].token, e->ids[i]);
        chain = iq_digest_chain(chain, p[i].token, iq_position_digest(&p[i]));
        if (c->t->level >= IQ_LEVEL_OPS) IQ_TRY(cells_check(c, &p[i]));
    }
    if (!iq_digest_equal(chain, e->chain))
        return iq_fail(c->err, IQ_MISMATCH,
                       "request %u ('%.80s'): its chain is not that of its %zu positions", e->request, e->id,
                       n);
    c->sum->requests++;
    c->sum->positions += n;
    return IQ_OK;
}

static int requests_check(struct check *c, uint64_t *requests, uint64_t *positions)
{
    struct iq_request_end e;
    uint64_t before = c->sum->positions;
    uint32_t at = 0;
    int rc;
    while ((rc = c->t->request(c->t->self, at, &e, c->err)) == IQ_OK) {
        IQ_TRY(request_check(c, &e));
        ++*requests;
        if ((at = e.request + 1) == 0) break;
    }
    *positions = c->sum->positions - before;
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int tensors_check(struct check *c, struct iq_store *s, MDB_txn *txn, uint32_t ord)
{
    struct iq__scan scan;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_TENSORS, iq__key1(ord), &scan, c->err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, c->err)) == IQ_OK) {
        struct iq__tensor_rec rec;
        const void *bytes;
        size_t n;
        if (scan.key.mv_size != 16 || scan.value.mv_size != sizeof rec) {
            rc = iq_fail(c->err, IQ_FORMAT, "%s: tensors: a key of %zu and a value of %zu bytes", s->path,
                         scan.key.mv_size, scan.value.mv_size);
            break;
        }
        memcpy(&rec, scan.value.mv_data, sizeof rec);
        const char *k = scan.key.mv_data;
        struct iq_cell cell = {.request = iq__u32_at(k, 4),
                               .pos = iq__u32_at(k, 8),
                               .attempt = iq__u16_at(k, 12),
                               .node = iq__u16_at(k, 14)};
        uint32_t width = cell.node < c->t->n_nodes ? c->t->nodes[cell.node].width : 0;
        if ((rc = c->t->tensor(c->t->self, &cell, &bytes, &n, c->err))) break;
        if (!width || n % width || !iq_digest_equal(iq_digest_row(bytes, width, n / width), rec.digest)) {
            rc = iq_fail(c->err, IQ_MISMATCH,
                         "request %u position %u node %u: its contents are not those of its digest",
                         cell.request, cell.pos, cell.node);
            break;
        }
        c->sum->tensors++;
    }
    iq__scan_close(&scan);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int run_check(struct check *c, struct iq_store *s, MDB_txn *txn, uint32_t ord)
{
    struct iq__run_rec rec;
    struct iq_firing f;
    uint64_t requests = 0, positions = 0, firings = 0;
    IQ_TRY(iq__run_get(s, txn, ord, &rec, c->err));
    if (!iq_digest_equal(iq_digest_bytes(c->t->manifest, c->t->manifest_len), rec.id))
        return iq_fail(c->err, IQ_MISMATCH, "its manifest is not the one that its id is the digest of");
    if (!(c->body = calloc(c->t->n_nodes, sizeof *c->body)))
        return iq_fail(c->err, IQ_MEMORY, "no memory for a check");
    c->lm_head = node_find(c->t, "lm_head");
    c->topk = node_find(c->t, "topk");
    IQ_TRY(requests_check(c, &requests, &positions));
    int rc;
    while ((rc = c->t->firing(c->t->self, firings, &f, c->err)) == IQ_OK) firings++;
    if (rc != IQ_NOT_FOUND) return rc;
    if (requests != rec.requests || positions != rec.positions || firings != rec.firings)
        return iq_fail(c->err, IQ_MISMATCH,
                       "it says %llu requests, %llu positions, %llu firings and holds %llu, %llu, %llu",
                       (unsigned long long)rec.requests, (unsigned long long)rec.positions,
                       (unsigned long long)rec.firings, (unsigned long long)requests,
                       (unsigned long long)positions, (unsigned long long)firings);
    c->sum->firings += firings;
    return tensors_check(c, s, txn, ord);
}

int iq__check_run(struct iq_store *s, MDB_txn *txn, uint32_t ord, struct iq_store_tally *sum,
                  struct iq_err *err)
{
    struct iq_trace t;
    IQ_TRY(iq__trace_open(s, txn, ord, false, &t, err));
    struct check c = {.t = &t, .sum = sum, .err = err};
    int rc = run_check(&c, s, txn, ord);
    if (rc) iq_err_prefix(err, "%s: run %s: ", s->path, t.id);
    free(c.body);
    iq_trace_close(&t);
    sum->runs++;
    return rc;
}
