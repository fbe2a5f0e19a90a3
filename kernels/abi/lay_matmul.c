/* Products: a call per matrix. Weights are laid out once and kept; what they are read from is digested in each call, since a
 * model's weights may be updated in place. */
#include "kernels/abi/laid.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <stdlib.h>
#include <string.h>

static size_t bytes_of(const struct iq_matrix *w, bool packed)
{
    return packed ? w->panels * w->panel_bytes : (size_t)w->n * w->k * sizeof(float);
}

/* The entry of these panels, made if it is new; NULL: no memory. *fresh: it must be filled. */
static struct iq_abi_kept *keep(struct iq_abi_laid *l, const struct iq_matrix *w, bool *fresh)
{
    struct iq_abi_memory *m = l->memory;
    struct iq_digest digest = iq_digest_bytes(w->data, w->panels * w->panel_bytes);
    size_t bytes = bytes_of(w, l->packed), i = 0;
    while (i < m->n_kept &&
           (m->kept[i].data != w->data || m->kept[i].packed != l->packed || m->kept[i].bytes != bytes))
        i++;
    *fresh = i == m->n_kept || !iq_digest_equal(m->kept[i].digest, digest);
    if (i == m->cap_kept) {
        size_t cap = m->cap_kept ? 2 * m->cap_kept : 64;
        struct iq_abi_kept *grown = realloc(m->kept, cap * sizeof *grown);
        if (!grown) return NULL;
        m->kept = grown;
        m->cap_kept = cap;
    }
    if (i == m->n_kept) {
        size_t at = iq_abi_area_take(&m->area[IQ_ABI_KEPT], bytes);
        if (at == SIZE_MAX) return NULL;
        m->kept[m->n_kept++] =
            (struct iq_abi_kept){.data = w->data, .at = at, .bytes = bytes, .packed = l->packed};
    }
    m->kept[i].digest = digest;
    return &m->kept[i];
}

static void lay_weights(struct iq_abi_laid *l, const struct iq_matrix *w)
{
    bool fresh;
    const struct iq_abi_kept *k = keep(l, w, &fresh);
    if (!k) {
        l->failed = true;
        return;
    }
    char *into = l->memory->area[IQ_ABI_KEPT].base + k->at;
    struct iq_abi_operand o = {.area = IQ_ABI_KEPT, .dims = 2, .present = 1, .at = k->at, .stride = {0, 1}};
    if (l->packed) {
        o.dtype = INQUEST_U8;
        o.dim[0] = w->panels, o.dim[1] = o.stride[0] = w->panel_bytes;
        if (fresh) memcpy(into, w->data, k->bytes);
    } else {
        o.dtype = INQUEST_F32;
        o.dim[0] = w->n, o.dim[1] = o.stride[0] = w->k;
        for (uint32_t row = 0; fresh && row < w->n; row++)
            iq_matrix_row(w, row, (float *)into + (size_t)row * w->k);
    }
    l->in[INQUEST_MATMUL_W] = o;
}

void iq__abi_lay_matmul(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_matmul *m = args;
    const struct iq_matmul_part *part = &m->part[call];
    const struct iq_matrix *w = part->w;
    l->act = m->act;
    l->scalar[INQUEST_MATMUL_FORMAT] = w->format;
    l->scalar[INQUEST_MATMUL_UNIT] = w->unit;
    iq__abi_in(l, INQUEST_MATMUL_X, INQUEST_F32, m->x + part->x_at, m->ldx, IQ_DIM(m->rows, w->k));
    lay_weights(l, w);
    if (part->bias) iq__abi_in(l, INQUEST_MATMUL_BIAS, INQUEST_F32, part->bias, 0, IQ_DIM(w->n));
    iq__abi_out(l, INQUEST_MATMUL_Y, INQUEST_F32, part->y, part->ldy, IQ_DIM(m->rows, w->n));
}
