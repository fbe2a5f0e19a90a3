#include "kernels/view.h"

#include <string.h>

typedef void cut_fn(struct iq_view *, uint32_t first, uint32_t rows);

static void cut_embed(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_embed *a = &v->args.embed;
    a->rows = rows;
    a->ids += first;
    a->y += first * a->ldy;
}

static void cut_rmsnorm(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_rmsnorm *a = &v->args.rmsnorm;
    a->rows = rows;
    a->x += first * a->ldx;
    a->y += first * a->ldy;
}

static void cut_matmul(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_matmul *a = &v->args.matmul;
    a->rows = rows;
    a->x += first * a->ldx;
    for (uint32_t p = 0; p < a->parts; p++) a->part[p].y += first * a->part[p].ldy;
}

static void cut_rope(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_rope *a = &v->args.rope;
    a->rows = rows;
    a->pos += first;
    for (int p = 0; p < 2; p++) {
        a->part[p].x += first * a->part[p].ldx;
        a->part[p].y += first * a->part[p].ldy;
    }
}

/* The one sequence that the rows are of, cut to them. */
static const struct iq_seq *cut_seq(struct iq_view *v, const struct iq_seq *seq, uint32_t first,
                                    uint32_t rows)
{
    while (first >= seq->first + seq->rows) seq++;
    v->seq = (struct iq_seq){.rows = rows, .pos = seq->pos + (first - seq->first), .blocks = seq->blocks};
    return &v->seq;
}

static void cut_kv_write(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_kv_write *a = &v->args.kv_write;
    a->rows = rows;
    a->k += first * a->ldk;
    a->v += first * a->ldv;
    a->seq = cut_seq(v, a->seq, first, rows);
    a->seqs = 1;
}

static void cut_attention(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_attention *a = &v->args.attention;
    a->rows = rows;
    a->q += first * a->ldq;
    a->y += first * a->ldy;
    a->seq = cut_seq(v, a->seq, first, rows);
    a->seqs = 1;
}

static void cut_all_reduce(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_all_reduce *a = &v->args.all_reduce;
    a->rows = rows;
    a->y += first * a->ldy;
    for (uint32_t p = 0; p < a->pieces; p++) {
        v->piece[p] = a->piece[p];
        v->piece[p].x += first * v->piece[p].ldx;
    }
    a->piece = v->piece;
}

static void cut_add(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_add *a = &v->args.add;
    a->rows = rows;
    a->a += first * a->lda;
    a->b += first * a->ldb;
    a->y += first * a->ldy;
}

static void cut_swiglu(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_swiglu *a = &v->args.swiglu;
    a->rows = rows;
    a->gate += first * a->ldg;
    a->up += first * a->ldu;
    a->y += first * a->ldy;
}

static void cut_temper(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_temper *a = &v->args.temper;
    a->rows = rows;
    a->x += first * a->ldx;
    a->temperature += first;
    a->y += first * a->ldy;
}

static void cut_topk(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_topk *a = &v->args.topk;
    a->rows = rows;
    a->logits += first * a->ld;
    a->ids += (size_t)first * a->k;
    a->values += (size_t)first * a->k;
}

static void cut_sample(struct iq_view *v, uint32_t first, uint32_t rows)
{
    struct iq_sample *a = &v->args.sample;
    a->rows = rows;
    a->logits += first * a->ld;
    a->ids += (size_t)first * a->k;
    a->values += (size_t)first * a->k;
    a->pos += first;
    a->seed += first;
    a->temperature += first;
    a->top_p += first;
    a->min_p += first;
    a->top_k += first;
    a->token += first;
}

static const struct {
    const char *kind;
    cut_fn *cut;
} cuts[] = {{"embed", cut_embed},
            {"rmsnorm", cut_rmsnorm},
            {"matmul", cut_matmul},
            {"rope", cut_rope},
            {"kv_write", cut_kv_write},
            {"attention", cut_attention},
            {"all_reduce", cut_all_reduce},
            {"add", cut_add},
            {"swiglu", cut_swiglu},
            {"temper", cut_temper},
            {"topk", cut_topk},
            {"sample", cut_sample}};

static cut_fn *cut_of(const struct iq_kind *kind)
{
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++)
        if (!strcmp(cuts[i].kind, kind->name)) return cuts[i].cut;
    return NULL;
}

bool iq_view_can(const struct iq_kind *kind) { return cut_of(kind) != NULL; }

const void *iq_view(const struct iq_kind *kind, const void *args, uint32_t first, uint32_t rows,
                    struct iq_view *view)
{
    memcpy(&view->args, args, kind->args_size);
    cut_of(kind)(view, first, rows);
    return &view->args;
}
