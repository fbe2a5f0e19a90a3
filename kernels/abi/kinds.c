/* Kinds that a user's kernel may stand for: how kernels/abi/kernel.h's operands are made of an op's arguments. */
#include "kernels/abi/laid.h"
#include "kernels/ops/matmul.h"
#include "kernels/ops/reduce.h"
#include "kernels/ops/rmsnorm.h"
#include "kernels/ops/rope.h"
#include "kernels/ops/sampling.h"
#include "kernels/ops/vector.h"

#include <string.h>

static void lay_rmsnorm(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_rmsnorm *a = args;
    (void)call;
    l->act = a->act;
    l->scalar[INQUEST_RMSNORM_EPS] = (double)a->eps;
    iq__abi_in(l, INQUEST_RMSNORM_X, INQUEST_F32, a->x, a->ldx, IQ_DIM(a->rows, a->groups, a->n));
    iq__abi_in(l, INQUEST_RMSNORM_WEIGHT, INQUEST_F32, a->weight, 0, IQ_DIM(a->n));
    iq__abi_out(l, INQUEST_RMSNORM_Y, INQUEST_F32, a->y, a->ldy, IQ_DIM(a->rows, a->groups, a->n));
}

static void lay_topk(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_topk *a = args;
    (void)call;
    l->scalar[INQUEST_TOPK_SHARDS] = a->shards;
    iq__abi_in(l, INQUEST_TOPK_LOGITS, INQUEST_F32, a->logits, a->ld, IQ_DIM(a->rows, a->vocab));
    iq__abi_out(l, INQUEST_TOPK_IDS, INQUEST_U32, a->ids, a->k, IQ_DIM(a->rows, a->k));
    iq__abi_out(l, INQUEST_TOPK_VALUES, INQUEST_F32, a->values, a->k, IQ_DIM(a->rows, a->k));
}

/* The table's lines of the rows' positions. */
static void gather_table(struct iq_abi_laid *l, const struct iq_rope *a)
{
    float *into = iq__abi_room(l, INQUEST_ROPE_TABLE, INQUEST_F32, IQ_DIM(a->rows, a->rotary / 2, 2));
    for (uint32_t r = 0; into && r < a->rows; r++)
        memcpy(into + (size_t)r * a->rotary, a->table + (size_t)a->pos[r] * a->rotary,
               a->rotary * sizeof *into);
}

static void lay_rope(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_rope *a = args;
    (void)call;
    l->act = a->act;
    l->scalar[INQUEST_ROPE_ROTARY] = a->rotary;
    l->scalar[INQUEST_ROPE_INTERLEAVED] = a->interleaved;
    for (unsigned p = 0; p < 2; p++) {
        const struct iq_rope_part *part = &a->part[p];
        iq__abi_in(l, INQUEST_ROPE_Q + p, INQUEST_F32, part->x, part->ldx,
                   IQ_DIM(a->rows, part->heads, a->dim));
        iq__abi_out(l, INQUEST_ROPE_Q_OUT + p, INQUEST_F32, part->y, part->ldy,
                    IQ_DIM(a->rows, part->heads, a->dim));
    }
    iq__abi_in(l, INQUEST_ROPE_POS, INQUEST_U32, a->pos, 0, IQ_DIM(a->rows));
    gather_table(l, a);
}

static void lay_all_reduce(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_all_reduce *a = args;
    (void)call;
    l->act = a->act;
    float *x = iq__abi_room(l, INQUEST_ALL_REDUCE_X, INQUEST_F32, IQ_DIM(a->pieces, a->rows, a->n));
    for (uint32_t p = 0; x && p < a->pieces; p++)
        for (uint32_t r = 0; r < a->rows; r++)
            memcpy(x + ((size_t)p * a->rows + r) * a->n, a->piece[p].x + r * a->piece[p].ldx,
                   a->n * sizeof *x);
    uint32_t *line = iq__abi_room(l, INQUEST_ALL_REDUCE_PIECE, INQUEST_U32, IQ_DIM(a->pieces, 3));
    for (uint32_t p = 0; line && p < a->pieces; p++) {
        const uint32_t is[3] = {a->piece[p].unit, a->piece[p].units, a->piece[p].rank};
        memcpy(line + (size_t)p * 3, is, sizeof is);
    }
    iq__abi_out(l, INQUEST_ALL_REDUCE_Y, INQUEST_F32, a->y, a->ldy, IQ_DIM(a->rows, a->n));
}

static void lay_swiglu(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_swiglu *a = args;
    (void)call;
    l->act = a->act;
    iq__abi_in(l, INQUEST_SWIGLU_GATE, INQUEST_F32, a->gate, a->ldg, IQ_DIM(a->rows, a->n));
    iq__abi_in(l, INQUEST_SWIGLU_UP, INQUEST_F32, a->up, a->ldu, IQ_DIM(a->rows, a->n));
    iq__abi_out(l, INQUEST_SWIGLU_Y, INQUEST_F32, a->y, a->ldy, IQ_DIM(a->rows, a->n));
}

static void lay_add(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_add *a = args;
    (void)call;
    l->act = a->act;
    iq__abi_in(l, INQUEST_ADD_A, INQUEST_F32, a->a, a->lda, IQ_DIM(a->rows, a->n));
    iq__abi_in(l, INQUEST_ADD_B, INQUEST_F32, a->b, a->ldb, IQ_DIM(a->rows, a->n));
    iq__abi_out(l, INQUEST_ADD_Y, INQUEST_F32, a->y, a->ldy, IQ_DIM(a->rows, a->n));
}

static uint32_t matmul_calls(const void *args) { return ((const struct iq_matmul *)args)->parts; }

const struct iq_abi_kind iq_abi_kinds[] = {
    {"matmul", {"x", "w", "bias"}, {"y"}, {"format", "unit"}, matmul_calls, iq__abi_lay_matmul},
    {"rmsnorm", {"x", "weight"}, {"y"}, {"eps"}, NULL, lay_rmsnorm},
    {"topk", {"logits"}, {"ids", "values"}, {"shards"}, NULL, lay_topk},
    {"attention", {"q", "k", "v", "seq"}, {"y"}, {"scale", "window"}, NULL, iq__abi_lay_attention},
    {"rope", {"q", "k", "pos", "table"}, {"q_out", "k_out"}, {"rotary", "interleaved"}, NULL, lay_rope},
    {"all_reduce", {"x", "piece"}, {"y"}, {NULL}, NULL, lay_all_reduce},
    {"swiglu", {"gate", "up"}, {"y"}, {NULL}, NULL, lay_swiglu},
    {"add", {"a", "b"}, {"y"}, {NULL}, NULL, lay_add},
    {.kind = NULL},
};

const struct iq_abi_kind *iq_abi_kind_find(const char *kind)
{
    const struct iq_abi_kind *k = iq_abi_kinds;
    while (k->kind && strcmp(k->kind, kind)) k++;
    return k->kind ? k : NULL;
}
