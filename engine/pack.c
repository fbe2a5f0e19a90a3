/* Packing the weights into panels. */
#include "engine/model_parts.h"
#include "kernels/base/grow.h"
#include "kernels/base/pool.h"

#include <stdatomic.h>
#include <stdlib.h>

/* ---- packing: a list of jobs, made in order, done by all threads ---- */

/* Rows that are packed at once: then their file pages are let go, so that memory never holds much of the file beside
 * the panels. A whole number of panels. */
enum { SLICE = 64 * IQ_PANEL };

struct job {
    const struct iq_tensor *tensor;
    struct iq_matrix *matrix; /* whole; its data is set by plan */
    struct iq_matrix_source source;
    uint32_t row, rows; /* of the matrix */
};

struct pack {
    struct iq_model *m;
    struct job *job;
    size_t jobs, cap;
    const struct iq_matrix **matrix; /* in canonical order, for the digest */
    size_t matrices, matrix_cap;
    size_t bytes; /* of the arena */
    bool measuring;
    atomic_size_t next;
    atomic_int status;
    struct iq_err *err;
};

static int put_job(struct pack *p, struct job job, struct iq_err *err)
{
    IQ_TRY(iq_grow(&p->job, &p->cap, p->jobs + 1, sizeof *p->job, err));
    p->job[p->jobs++] = job;
    return IQ_OK;
}

static int put_matrix(struct pack *p, const struct iq_matrix *matrix, struct iq_err *err)
{
    IQ_TRY(iq_grow(&p->matrix, &p->matrix_cap, p->matrices + 1, sizeof *p->matrix, err));
    p->matrix[p->matrices++] = matrix;
    return IQ_OK;
}

/* Plans rows [row0, row0 + n), columns [k0, k0 + k) of a tensor as one matrix: measures it, or takes its memory. Rows of a
 * stack of matrices are counted on from one to the next. */
static int plan(struct pack *p, struct iq_matrix *matrix, const struct iq_tensor *t, uint32_t row0,
                uint32_t n, uint32_t k0, uint32_t k, uint32_t unit, struct iq_err *err)
{
    size_t bytes = iq_matrix_bytes(t->format, n, k);
    if (!bytes)
        return iq_fail(err, IQ_SHAPE,
                       "%s: %u columns from %u are no whole blocks of %s; use a smaller tensor-parallel size "
                       "or weights in f32, f16 or bf16",
                       t->name, k, k0, t->type);
    bytes = (bytes + IQ_MATRIX_ALIGN - 1) / IQ_MATRIX_ALIGN * IQ_MATRIX_ALIGN;
    if (p->measuring) {
        p->bytes += bytes;
        return IQ_OK;
    }
    void *into = iq_arena_take(&p->m->arena, bytes);
    if (!into) return iq_fail(err, IQ_MEMORY, "%s: the weights' arena is full", t->name);
    *matrix = (struct iq_matrix){.format = t->format,
                                 .n = n,
                                 .k = k,
                                 .unit = unit,
                                 .panels = (n + IQ_PANEL - 1) / IQ_PANEL,
                                 .panel_bytes = iq__panel_at(t->format, k),
                                 .data = into};
    struct iq_matrix_source s = {.raw = t->bytes,
                                 .row_bytes = iq_format_row_bytes(t->format, (uint32_t)t->dim[t->rank - 1]),
                                 .k0 = k0,
                                 .row0 = row0};
    IQ_TRY(put_matrix(p, matrix, err));
    for (uint32_t row = 0; row < n; row += SLICE)
        IQ_TRY(put_job(p, (struct job){t, matrix, s, row, n - row < SLICE ? n - row : SLICE}, err));
    return IQ_OK;
}

/* Expert e's (n, k) matrix of a role, from a tensor of its own or from the layer's stack. */
static int plan_expert(struct pack *p, struct iq_matrix *matrix, const struct iq_tensor *t, uint32_t e,
                       uint32_t n, uint32_t k, uint32_t unit, struct iq_err *err)
{
    return plan(p, matrix, t, t->rank == 3 ? e * n : 0, n, 0, k, unit, err);
}

static int plan_experts(struct pack *p, uint32_t l, struct iq_err *err)
{
    struct iq_model *m = p->m;
    const struct iq_model_config *c = &m->config;
    const struct iq_layer_tensors *t = &m->tensors.layer[l];
    struct iq_expert_weights *w = &m->layer[l].experts;
    IQ_TRY(plan(p, &w->router, t->router, 0, c->experts, 0, c->hidden, IQ_UNIT, err));
    for (uint32_t e = 0; e < c->experts; e++) {
        IQ_TRY(plan_expert(p, &w->gate[e], t->expert[e].gate, e, c->ffn, c->hidden, IQ_UNIT, err));
        IQ_TRY(plan_expert(p, &w->up[e], t->expert[e].up, e, c->ffn, c->hidden, IQ_UNIT, err));
        IQ_TRY(plan_expert(p, &w->down[e], t->expert[e].down, e, c->hidden, c->ffn, m->ffn_unit, err));
    }
    return IQ_OK;
}

static int plan_layer(struct pack *p, uint32_t l, struct iq_err *err)
{
    struct iq_model *m = p->m;
    const struct iq_model_config *c = &m->config;
    const struct iq_layer_tensors *t = &m->tensors.layer[l];
    uint32_t d = c->head_dim, group = m->attn_unit;
    for (uint32_t r = 0; r < m->tp; r++) {
        struct iq_rank_weights *w = &m->layer[l].rank[r];
        uint32_t kv0 = m->attn[r].unit * d, kvs = m->attn[r].units * d;
        uint32_t q0 = m->attn[r].unit * group, qs = m->attn[r].units * group;
        IQ_TRY(plan(p, &w->q, t->q, q0, qs, 0, c->hidden, IQ_UNIT, err));
        IQ_TRY(plan(p, &w->k, t->k, kv0, kvs, 0, c->hidden, IQ_UNIT, err));
        IQ_TRY(plan(p, &w->v, t->v, kv0, kvs, 0, c->hidden, IQ_UNIT, err));
        for (uint32_t i = 0; i < m->attn[r].nodes; i++) {
            const struct iq_shard_node *n = &m->attn[r].node[i];
            IQ_TRY(plan(p, &w->out[i], t->o, 0, c->hidden, n->unit * group, n->units * group, group, err));
        }
        if (c->experts) continue;
        uint32_t f0 = m->ffn[r].unit * m->ffn_unit, f1 = (m->ffn[r].unit + m->ffn[r].units) * m->ffn_unit;
        if (f1 > c->ffn) f1 = c->ffn;
        IQ_TRY(plan(p, &w->gate, t->gate, f0, f1 - f0, 0, c->hidden, IQ_UNIT, err));
        IQ_TRY(plan(p, &w->up, t->up, f0, f1 - f0, 0, c->hidden, IQ_UNIT, err));
        for (uint32_t i = 0; i < m->ffn[r].nodes; i++) {
            const struct iq_shard_node *n = &m->ffn[r].node[i];
            uint32_t k0 = n->unit * m->ffn_unit, k1 = (n->unit + n->units) * m->ffn_unit;
            if (k1 > c->ffn) k1 = c->ffn;
            IQ_TRY(plan(p, &w->down[i], t->down, 0, c->hidden, k0, k1 - k0, m->ffn_unit, err));
        }
    }
    return c->experts ? plan_experts(p, l, err) : IQ_OK;
}

static int plan_all(struct pack *p, struct iq_err *err)
{
    struct iq_model *m = p->m;
    const struct iq_model_config *c = &m->config;
    IQ_TRY(plan(p, &m->embed, m->tensors.embed, 0, c->vocab, 0, c->hidden, IQ_UNIT, err));
    if (!c->tied) IQ_TRY(plan(p, &m->head, m->tensors.head, 0, c->vocab, 0, c->hidden, IQ_UNIT, err));
    for (uint32_t l = 0; l < c->layers; l++) IQ_TRY(plan_layer(p, l, err));
    return IQ_OK;
}

static int do_job(struct pack *p, const struct job *j)
{
    struct iq_matrix slice;
    struct iq_matrix_source s = j->source;
    s.row0 += j->row;
    int status =
        iq_matrix_pack(&slice, j->matrix->format, j->rows, j->matrix->k, j->matrix->unit, &s,
                       (uint8_t *)j->matrix->data + j->row / IQ_PANEL * j->matrix->panel_bytes, p->err);
    iq_model_tensor_release(p->m->file, j->tensor);
    return status;
}

static void work(void *ctx, int part, int parts)
{
    struct pack *p = ctx;
    (void)parts;
    /* The file's SHA-256 takes about as long as all packing: it is the last thread's first job. */
    if (part == parts - 1) {
        int status = iq_model_digest(p->m, p->err);
        if (status != IQ_OK) atomic_store(&p->status, status);
    }
    for (size_t i; (i = atomic_fetch_add(&p->next, 1)) < p->jobs && !atomic_load(&p->status);) {
        int status = do_job(p, &p->job[i]);
        if (status != IQ_OK) atomic_store(&p->status, status);
    }
}

/* A fault maps pages around the one it needs: those of tensors that were let go before. Measured: a tenth of the file. */
static void release_all(const struct pack *p)
{
    for (size_t i = 0; i < p->jobs; i++)
        if (!p->job[i].row) iq_model_tensor_release(p->m->file, p->job[i].tensor);
}

/* The digest of all that will be computed with. */
static void seal(struct pack *p)
{
    struct iq_digest d[2] = {{0, 0}, {0, 0}};
    for (size_t i = 0; i < p->matrices; i++) {
        const struct iq_matrix *w = p->matrix[i];
        d[1] = iq_digest_bytes(w->data, w->panels * w->panel_bytes);
        d[0] = iq_digest_list(d, 2);
    }
    p->m->packed_digest = d[0];
}

int iq__model_pack(struct iq_model *m, uint32_t threads, struct iq_err *err)
{
    struct pack p = {.m = m, .measuring = true, .err = err};
    struct iq_pool *pool = NULL;
    int status = plan_all(&p, err);
    p.measuring = false;
    if (status == IQ_OK) status = iq_arena_open(p.bytes, &m->arena, err);
    if (status == IQ_OK) status = plan_all(&p, err);
    if (status == IQ_OK) status = iq_pool_open((int)threads, &pool, err);
    if (status == IQ_OK) {
        iq_pool_run(pool, work, &p);
        status = atomic_load(&p.status);
    }
    iq_pool_close(pool);
    release_all(&p);
    if (status == IQ_OK) seal(&p);
    if (status == IQ_OK && m->config.tied) m->head = m->embed;
    free(p.job);
    free(p.matrix);
    return status;
}
