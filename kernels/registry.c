/* Kinds, ops and the process's variants. */
#include "kernels/op.h"
#include "kernels/tables.h"

#include <stdio.h>
#include <string.h>

enum { VARIANTS_MAX = 1024 };

static const struct iq_variant *registered[VARIANTS_MAX];
static size_t n_registered;

static const struct iq_kind *const kinds[] = {
    &iq__kind_prefix,     &iq__kind_embed,          &iq__kind_rmsnorm,
    &iq__kind_matmul,     &iq__kind_rope,           &iq__kind_kv_write,
    &iq__kind_attention,  &iq__kind_all_reduce,     &iq__kind_add,
    &iq__kind_swiglu,     &iq__kind_temper,         &iq__kind_topk,
    &iq__kind_sample,     &iq__kind_route,          &iq__kind_moe_dispatch,
    &iq__kind_all_to_all, &iq__kind_grouped_matmul, &iq__kind_combine,
    &iq__kind_seed,       &iq__kind_product,        &iq__kind_adamw,
    &iq__kind_mask,       &iq__kind_lora,           &iq__kind_weights,
    &iq__kind_assemble,   &iq__kind_place,          &iq__kind_identity,
    &iq__kind_form,       &iq__kind_kv_alloc,       &iq__kind_kv_evict,
    &iq__kind_kv_free,    &iq__kind_kv_land,        &iq__kind_kv_move,
    &iq__kind_draft,      &iq__kind_accept,         &iq__kind_rollback,
};

static const struct iq_variant *const *const tables[] = {
    iq__variants_matmul,   iq__variants_tensor_core,  iq__variants_vector, iq__variants_attention,
    iq__variants_sampling, iq__variants_moe,          iq__variants_train,  iq__variants_blocks,
    iq__variants_requests, iq__variants_speculate,    iq__variants_lora,   iq__variants_weights,
    iq__variants_cuda,     iq__variants_cuda_products};

enum { POINTS_MAX = 17 }; /* and a NULL */

static const struct {
    const char *name, *kind, *point[POINTS_MAX];
} ops[] = {
#define X(id, name, kind, ...) {name, kind, {__VA_ARGS__}},
    IQ_OP_MAP(X) IQ_TRAIN_OP_MAP(X) IQ_CONTROL_OP_MAP(X)
#undef X
};

const struct iq_kind *iq_kind_find(const char *name)
{
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (!strcmp(kinds[i]->name, name)) return kinds[i];
    return NULL;
}

const struct iq_kind *iq_op_kind(enum iq_op_id op) { return iq_kind_find(ops[op].kind); }
const char *iq_op_name(unsigned op) { return op < IQ_ALL_OPS ? ops[op].name : "?"; }
const char *const *iq_op_points(enum iq_op_id op) { return ops[op].point; }

/* Those that were added when draws had been published, in the order in which they came. */
static const enum iq_op_id later[] = {IQ_OP_MASK,         IQ_OP_LORA_QKV,  IQ_OP_LORA_OUT,
                                      IQ_OP_LORA_GATE_UP, IQ_OP_LORA_DOWN, IQ_OP_WEIGHTS};
enum { LATER = sizeof later / sizeof *later };

uint32_t iq_op_number(unsigned op)
{
    uint32_t number = op;
    for (uint32_t i = 0; i < LATER; i++) {
        if (later[i] == op) return IQ_ALL_OPS - LATER + i;
        number -= later[i] < op;
    }
    return number;
}

int iq_op_find(const char *name)
{
    for (int i = 0; i < IQ_ALL_OPS; i++)
        if (!strcmp(ops[i].name, name)) return i;
    return -1;
}

const struct iq_variant *iq_variant_find(const char *kind, const char *name)
{
    for (size_t i = 0; i < n_registered; i++)
        if (!strcmp(registered[i]->kind, kind) && !strcmp(registered[i]->name, name)) return registered[i];
    return NULL;
}

const struct iq_variant *iq_variant_at(size_t index)
{
    return index < n_registered ? registered[index] : NULL;
}

int iq_variant_register(const struct iq_variant *v, struct iq_err *err)
{
    if (!iq_kind_find(v->kind))
        return iq_fail(err, IQ_NOT_FOUND, "variant %s: no kind is named %s", v->name, v->kind);
    if (iq_variant_find(v->kind, v->name))
        return iq_fail(err, IQ_EXISTS, "variant %s of %s is registered already", v->name, v->kind);
    if (!(v->flags & IQ_V_REFERENCE) && !iq_variant_find(v->kind, "reference"))
        return iq_fail(err, IQ_NO_REFERENCE, "variant %s of %s comes before its reference", v->name, v->kind);
    if (n_registered == VARIANTS_MAX) return iq_fail(err, IQ_LIMIT, "more than %d variants", VARIANTS_MAX);
    registered[n_registered++] = v;
    return IQ_OK;
}

int iq_kernels_register(struct iq_err *err)
{
    for (size_t t = 0; t < sizeof tables / sizeof *tables; t++)
        for (const struct iq_variant *const *v = tables[t]; *v; v++)
            if (!iq_variant_find((*v)->kind, (*v)->name)) IQ_TRY(iq_variant_register(*v, err));
    return IQ_OK;
}

static const char *const order[] = {"scalar", "avx2", "avx512"};

const struct iq_variant *iq_variant_golden(const char *kind, const char *isa)
{
    const struct iq_variant *best = iq_variant_find(kind, "reference");
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct iq_variant *v = iq_variant_find(kind, order[i]);
        if (v && (v->flags & IQ_V_GOLDEN) && (!v->usable || v->usable())) best = v;
        if (isa && !strcmp(order[i], isa)) break;
    }
    return best;
}

const struct iq_variant *iq_variant_products(const char *products, const char *isa)
{
    const struct iq_variant *best = NULL;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        char name[40];
        snprintf(name, sizeof name, "%s.%s", products, order[i]);
        const struct iq_variant *v = iq_variant_find("matmul", name);
        if (v && v->usable()) best = v;
        if (isa && !strcmp(order[i], isa)) break;
    }
    return best;
}

const struct iq_variant *iq_variant_products_cuda(const char *products)
{
    char name[40];
    snprintf(name, sizeof name, "%s.cuda", products);
    return iq_variant_find("matmul", name);
}
