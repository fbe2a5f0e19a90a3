#include "kernels/abi/laid.h"
#include "kernels/arith.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PATTERN = 0xa5, UNWRITTEN = 0xff, NEAR = 1 << 20 };

int iq_abi_memory_open(struct iq_abi_memory *m, struct iq_err *err)
{
    static const char *const name[IQ_ABI_AREAS] = {"inquest-in", "inquest-kept", "inquest-out"};
    int status = IQ_OK;
    *m = (struct iq_abi_memory){0};
    for (int a = 0; a < IQ_ABI_AREAS; a++) m->area[a].fd = -1;
    for (int a = 0; a < IQ_ABI_AREAS && status == IQ_OK; a++)
        status = iq_abi_area_open(name[a], &m->area[a], err);
    if (status != IQ_OK) iq_abi_memory_close(m);
    return status;
}

void iq_abi_memory_close(struct iq_abi_memory *m)
{
    for (int a = 0; a < IQ_ABI_AREAS; a++) iq_abi_area_close(&m->area[a]);
    free(m->kept);
    m->kept = NULL;
    m->n_kept = m->cap_kept = 0;
}

static char *at(const struct iq_abi_laid *l, const struct iq_abi_operand *o)
{
    return l->memory->area[o->area].base + o->at;
}

static size_t element(uint32_t dtype) { return dtype == INQUEST_U8 ? 1 : 4; }

/* Contiguous bytes of a row, bytes from row to row, rows. */
struct rows {
    size_t bytes, ld, n;
};

static struct rows rows_of(const struct iq_abi_operand *o)
{
    struct rows r = {element(o->dtype), element(o->dtype) * o->stride[0], o->dim[0]};
    for (uint32_t d = 1; d < o->dims; d++) r.bytes *= o->dim[d];
    if (o->dims == 1) r = (struct rows){r.bytes * o->dim[0], r.bytes * o->dim[0], 1};
    return r;
}

static size_t span(const struct iq_abi_operand *o)
{
    struct rows r = rows_of(o);
    return r.n ? (r.n - 1) * r.ld + r.bytes : 0;
}

/* ld: elements from row to row; 0: contiguous. */
static struct iq_abi_operand view(uint32_t area, uint32_t dtype, size_t ld, uint32_t dims,
                                  const uint64_t *dim)
{
    struct iq_abi_operand o = {.area = area, .dtype = dtype, .dims = dims, .present = 1};
    uint64_t stride = 1;
    for (uint32_t d = dims; d-- > 0; stride *= dim[d]) {
        o.dim[d] = dim[d];
        o.stride[d] = stride;
    }
    if (ld && dims > 1) o.stride[0] = ld;
    return o;
}

void *iq__abi_room(struct iq_abi_laid *l, unsigned i, uint32_t dtype, uint32_t dims, const uint64_t *dim)
{
    l->in[i] = view(IQ_ABI_IN, dtype, 0, dims, dim);
    l->in[i].at = iq_abi_area_take(&l->memory->area[IQ_ABI_IN], span(&l->in[i]));
    if (l->in[i].at == SIZE_MAX) l->failed = true;
    return l->failed ? NULL : at(l, &l->in[i]);
}

void iq__abi_in(struct iq_abi_laid *l, unsigned i, uint32_t dtype, const void *x, size_t ld, uint32_t dims,
                const uint64_t *dim)
{
    struct iq_abi_operand *o = &l->in[i];
    *o = view(IQ_ABI_IN, dtype, ld, dims, dim);
    struct rows r = rows_of(o);
    o->at = iq_abi_area_take(&l->memory->area[IQ_ABI_IN], span(o));
    if (o->at == SIZE_MAX) l->failed = true;
    if (l->failed) return;
    /* Padding holds what no kernel may read: a NaN, another one than outputs begin as. */
    uint32_t *pad = (uint32_t *)at(l, o);
    for (size_t e = 0; r.ld > r.bytes && e < span(o) / sizeof *pad; e++) pad[e] = IQ_NAN_BITS;
    for (size_t row = 0; row < r.n; row++)
        memcpy(at(l, o) + row * r.ld, (const char *)x + row * r.ld, r.bytes);
}

void iq__abi_out(struct iq_abi_laid *l, unsigned i, uint32_t dtype, void *y, size_t ld, uint32_t dims,
                 const uint64_t *dim)
{
    struct iq_abi_operand *o = &l->out[i];
    *o = view(IQ_ABI_OUT, dtype, ld, dims, dim);
    struct rows r = rows_of(o);
    l->to[i] = y;
    size_t whole = span(o) + 2 * (size_t)IQ_ABI_GUARD;
    o->at = iq_abi_area_take(&l->memory->area[IQ_ABI_OUT], whole);
    if (o->at == SIZE_MAX) l->failed = true;
    if (l->failed) return;
    memset(at(l, o), PATTERN, whole);
    o->at += IQ_ABI_GUARD;
    for (size_t row = 0; row < r.n; row++) memset(at(l, o) + row * r.ld, UNWRITTEN, r.bytes);
}

void iq_abi_lay(const struct iq_abi_kind *kind, struct iq_abi_laid *l, const void *args, uint32_t call)
{
    struct iq_abi_memory *memory = l->memory;
    *l = (struct iq_abi_laid){.memory = memory, .packed = l->packed};
    memory->area[IQ_ABI_IN].used = memory->area[IQ_ABI_OUT].used = 0;
    /* A line of its own for what a dying process says of itself. */
    if (iq_abi_area_take(&memory->area[IQ_ABI_OUT], IQ_ABI_GUARD) == SIZE_MAX) l->failed = true;
    kind->lay(l, args, call);
}

void iq_abi_give(const struct iq_abi_laid *l)
{
    for (int i = 0; i < IQ_ABI_OUTS; i++) {
        const struct iq_abi_operand *o = &l->out[i];
        if (!o->present) continue;
        struct rows r = rows_of(o);
        for (size_t row = 0; row < r.n; row++)
            memcpy((char *)l->to[i] + row * r.ld, at(l, o) + row * r.ld, r.bytes);
    }
}

/* ---- what strayed ---- */

/* The first and the last byte of [p, p + n) that is not the pattern's; false: all are. */
static bool touched(const char *p, size_t n, size_t *first, size_t *last)
{
    bool found = false;
    for (size_t i = 0; i < n; i++) {
        if ((unsigned char)p[i] == PATTERN) continue;
        if (!found) *first = i;
        found = true;
        *last = i;
    }
    return found;
}

static bool strayed(const struct iq_abi_laid *l, const struct iq_abi_operand *o, const char *name, char *out,
                    size_t size)
{
    struct rows r = rows_of(o);
    const char *base = at(l, o);
    size_t first, last;
    if (touched(base + span(o), IQ_ABI_GUARD, &first, &last)) {
        snprintf(out, size, "wrote %zu bytes past the end of %s", last + 1, name);
        return true;
    }
    if (touched(base - IQ_ABI_GUARD, IQ_ABI_GUARD, &first, &last)) {
        snprintf(out, size, "wrote %zu bytes before the start of %s", IQ_ABI_GUARD - first, name);
        return true;
    }
    for (size_t row = 0; row + 1 < r.n; row++)
        if (touched(base + row * r.ld + r.bytes, r.ld - r.bytes, &first, &last)) {
            snprintf(out, size, "wrote %zu bytes into the padding behind row %zu of %s", last - first + 1,
                     row, name);
            return true;
        }
    return false;
}

bool iq_abi_strayed(const struct iq_abi_kind *kind, const struct iq_abi_laid *l, char *out, size_t size)
{
    for (int i = 0; i < IQ_ABI_OUTS; i++)
        if (l->out[i].present && strayed(l, &l->out[i], kind->out[i], out, size)) return true;
    return false;
}

/* No sum, product or id has these bits. */
static bool unwritten(const struct iq_abi_laid *l, const struct iq_abi_operand *o, const char *name,
                      char *out, size_t size)
{
    struct rows r = rows_of(o);
    size_t n = 0, first = 0;
    for (size_t row = 0; row < r.n; row++)
        for (size_t e = 0; e < r.bytes / sizeof(uint32_t); e++) {
            uint32_t bits;
            memcpy(&bits, at(l, o) + row * r.ld + e * sizeof bits, sizeof bits);
            if (bits == UINT32_MAX && !n++) first = row;
        }
    if (n) snprintf(out, size, "left %zu elements of %s unwritten, the first in row %zu", n, name, first);
    return n != 0;
}

bool iq_abi_unwritten(const struct iq_abi_kind *kind, const struct iq_abi_laid *l, char *out, size_t size)
{
    for (int i = 0; i < IQ_ABI_OUTS; i++)
        if (l->out[i].present && unwritten(l, &l->out[i], kind->out[i], out, size)) return true;
    return false;
}

static bool beside(const struct iq_abi_operand *o, const char *name, uint64_t base, uint64_t address,
                   char *out, size_t size)
{
    uint64_t begin = base + o->at, end = begin + span(o);
    if (address >= begin && address < end)
        snprintf(out, size, "inside %s, byte %llu of %llu", name, (unsigned long long)(address - begin),
                 (unsigned long long)(end - begin));
    else if (address >= end && address - end < NEAR)
        snprintf(out, size, "%llu bytes past the end of %s", (unsigned long long)(address - end), name);
    else if (address < begin && begin - address < NEAR)
        snprintf(out, size, "%llu bytes before the start of %s", (unsigned long long)(begin - address), name);
    else
        return false;
    return true;
}

bool iq_abi_locate(const struct iq_abi_kind *kind, const struct iq_abi_laid *l,
                   const uint64_t base[IQ_ABI_AREAS], uint64_t address, char *out, size_t size)
{
    for (int inside = 1; inside >= 0; inside--)
        for (int i = 0; i < IQ_ABI_OUTS + IQ_ABI_INS; i++) {
            bool is_out = i < IQ_ABI_OUTS;
            const struct iq_abi_operand *o = is_out ? &l->out[i] : &l->in[i - IQ_ABI_OUTS];
            const char *name = is_out ? kind->out[i] : kind->in[i - IQ_ABI_OUTS];
            if (!o->present || !base[o->area]) continue;
            uint64_t begin = base[o->area] + o->at;
            if (inside && !(address >= begin && address < begin + span(o))) continue;
            if (beside(o, name, base[o->area], address, out, size)) return true;
        }
    return false;
}
