/* Attention: the paged cache, gathered into one run of keys a sequence. */
#include "kernels/abi/laid.h"
#include "kernels/ops/kv.h"

static uint64_t keys_of(const struct iq_seq *s) { return (uint64_t)s->pos + s->rows; }

/* Keys [0, n) of a sequence, (n, kv_heads, head_dim), of the call's heads. */
static void gather(const struct iq_attention *a, const struct iq_seq *s, float *k, float *v)
{
    const struct iq_kv_layer *c = a->cache;
    uint32_t dim = c->head_dim;
    for (uint64_t key = 0; key < keys_of(s); key++)
        for (uint32_t h = 0; h < a->kv_heads; h++) {
            size_t block = iq_kv_k_at(c, s->blocks[key / IQ_KV_BLOCK], a->kv_head0 + h);
            uint32_t slot = (uint32_t)(key % IQ_KV_BLOCK);
            for (uint32_t d = 0; d < dim; d++) {
                *k++ = c->k[block + (size_t)d * IQ_KV_BLOCK + slot];
                *v++ = c->v[block + (size_t)slot * dim + d];
            }
        }
}

void iq__abi_lay_attention(struct iq_abi_laid *l, const void *args, uint32_t call)
{
    const struct iq_attention *a = args;
    uint32_t dim = a->cache->head_dim;
    uint64_t keys = 0, width = (uint64_t)a->kv_heads * dim;
    (void)call;
    l->act = a->act;
    l->scalar[INQUEST_ATTENTION_SCALE] = (double)a->scale;
    l->scalar[INQUEST_ATTENTION_WINDOW] = a->window;
    for (uint32_t s = 0; s < a->seqs; s++) keys += keys_of(&a->seq[s]);
    iq__abi_in(l, INQUEST_ATTENTION_Q, INQUEST_F32, a->q, a->ldq, IQ_DIM(a->rows, a->heads, dim));
    iq__abi_room(l, INQUEST_ATTENTION_K, INQUEST_F32, IQ_DIM(keys, a->kv_heads, dim));
    iq__abi_room(l, INQUEST_ATTENTION_V, INQUEST_F32, IQ_DIM(keys, a->kv_heads, dim));
    uint32_t *line = iq__abi_room(l, INQUEST_ATTENTION_SEQ, INQUEST_U32, IQ_DIM(a->seqs, 4));
    /* Addresses only now: each reservation may have moved the area. */
    char *base = l->memory->area[IQ_ABI_IN].base;
    float *k = (float *)(base + l->in[INQUEST_ATTENTION_K].at),
          *v = (float *)(base + l->in[INQUEST_ATTENTION_V].at);
    uint64_t first = 0;
    for (uint32_t s = 0; !l->failed && s < a->seqs; first += keys_of(&a->seq[s++])) {
        line[4 * (size_t)s] = a->seq[s].first;
        line[4 * (size_t)s + 1] = a->seq[s].rows;
        line[4 * (size_t)s + 2] = a->seq[s].pos;
        line[4 * (size_t)s + 3] = (uint32_t)first;
        gather(a, &a->seq[s], k + first * width, v + first * width);
    }
    iq__abi_out(l, INQUEST_ATTENTION_Y, INQUEST_F32, a->y, a->ldy, IQ_DIM(a->rows, a->heads, dim));
}
