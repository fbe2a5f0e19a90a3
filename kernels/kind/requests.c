/* The kinds of the control ops over requests: what firing logs and triggers see of them, and their invariants. */
#include "kernels/ops/requests.h"
#include "kernels/op.h"

#include <string.h>

/* One decision a call. */
static uint32_t one_row(const void *args) { return (void)args, 1; }

/* Where a point's decision lies, and its bytes; 0: there is no such point. */
#define KIND_BYTES(name)                                                                                     \
    static size_t name##_bytes(const void *args, unsigned point)                                             \
    {                                                                                                        \
        size_t n = 0;                                                                                        \
        name##_at(args, point, &n);                                                                          \
        return n;                                                                                            \
    }                                                                                                        \
    static const void *name##_get(const void *args, unsigned point, uint32_t r, void *scratch)               \
    {                                                                                                        \
        size_t n;                                                                                            \
        (void)r, (void)scratch;                                                                              \
        return name##_at(args, point, &n);                                                                   \
    }

/* ---- assemble ---- */

static void *assemble_at(const struct iq_assemble *a, unsigned point, size_t *n)
{
    *n = point == 0 ? a->n * sizeof *a->ids : point == 1 ? sizeof *a->sampling : 0;
    return point ? (void *)a->sampling : a->ids;
}
KIND_BYTES(assemble)

static void assemble_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_assemble *a = args;
    size_t n;
    (void)r;
    void *at = assemble_at(a, point, &n);
    memcpy(at, bytes, n);
    if (point) return;
    *a->n_ids = 0;
    while (*a->n_ids < a->n && a->ids[*a->n_ids] != UINT32_MAX) ++*a->n_ids;
}

static const char *const assemble_fields[] = {"tokens", "special", "parts", "truncate", NULL};

static uint64_t assemble_field(const void *args, unsigned index)
{
    const struct iq_assemble *a = args;
    const uint64_t value[] = {a->n, a->special, a->parts, a->truncate};
    return value[index];
}

static bool same_sampling(const struct iq_sampling *a, const struct iq_sampling *b)
{
    return a->seed == b->seed && a->temperature == b->temperature && a->top_p == b->top_p &&
           a->min_p == b->min_p && a->top_k == b->top_k;
}

static int assemble_check(const void *args, struct iq_err *err)
{
    const struct iq_assemble *a = args;
    uint32_t kept = a->truncate && a->n > a->truncate ? a->truncate : a->n, lost = a->n - kept;
    if (*a->n_ids != kept)
        return iq_fail(err, IQ_MISMATCH, "request %u: %u of %u prompt tokens are left, expected %u",
                       a->request, *a->n_ids, a->n, kept);
    for (uint32_t i = 0; i < kept; i++) {
        uint32_t from = i < a->special ? i : i + lost;
        if (a->ids[i] != a->prompt[from])
            return iq_fail(err, IQ_MISMATCH, "request %u: token %u is %u, but the prompt has %u there",
                           a->request, i, a->ids[i], a->prompt[from]);
    }
    if (same_sampling(a->sampling, &a->asked)) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH,
                   "request %u: it samples with temperature %g, top_k %u, top_p %g, min_p %g, seed %llu, but "
                   "asked for others",
                   a->request, (double)a->sampling->temperature, a->sampling->top_k,
                   (double)a->sampling->top_p, (double)a->sampling->min_p,
                   (unsigned long long)a->sampling->seed);
}

/* ---- place ---- */

static void *place_at(const struct iq_place *a, unsigned point, size_t *n)
{
    *n = point == 0 ? sizeof *a->pool : 0;
    return a->pool;
}
KIND_BYTES(place)

static void place_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    (void)point, (void)r;
    memcpy(((const struct iq_place *)args)->pool, bytes, sizeof(uint32_t));
}

static const char *const place_fields[] = {"tokens", "pools", "limit", NULL};

static uint64_t place_field(const void *args, unsigned index)
{
    const struct iq_place *a = args;
    const uint64_t value[] = {a->tokens, a->pools, a->limit};
    return value[index];
}

static int place_check(const void *args, struct iq_err *err)
{
    const struct iq_place *a = args;
    uint32_t right = a->pools > 1 && a->tokens > a->limit;
    if (*a->pool == right) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH,
                   "request %u of %u tokens: pool %u serves it, expected pool %u (long contexts from more "
                   "than %u tokens on)",
                   a->request, a->tokens, *a->pool, right, a->limit);
}

/* ---- identity ---- */

static void *identity_at(const struct iq_identity *a, unsigned point, size_t *n)
{
    *n = point == 0 ? sizeof *a->root : 0;
    return a->root;
}
KIND_BYTES(identity)

static void identity_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    (void)point, (void)r;
    memcpy(((const struct iq_identity *)args)->root, bytes, sizeof(struct iq_digest));
}

/* Two requests share KV only where no part differs: a root that leaves one out is not that of all. */
static int identity_check(const void *args, struct iq_err *err)
{
    const struct iq_identity *a = args;
    if (iq_digest_equal(*a->root, iq_digest_list(a->part, IQ_IDENTITY_PARTS))) return IQ_OK;
    return iq_fail(err, IQ_MISMATCH,
                   "request %u: the root of its prefix keys is not that of its weights, contract, position "
                   "settings, adapter and tenant",
                   a->request);
}

/* ---- form ---- */

static void *form_at(const struct iq_form *a, unsigned point, size_t *n)
{
    *n = point == 0 ? a->n * sizeof *a->pick : 0;
    return a->pick;
}
KIND_BYTES(form)

static void form_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_form *a = args;
    (void)r;
    memcpy(a->pick, bytes, form_bytes(args, point));
}

static const char *const form_fields[] = {"joining", "seats", "budget", NULL};

static uint64_t form_field(const void *args, unsigned index)
{
    const struct iq_form *a = args;
    const uint64_t value[] = {a->joining, a->n, a->budget};
    return value[index];
}

/* In order, each with what it lacks or what is left. */
static int form_check(const void *args, struct iq_err *err)
{
    const struct iq_form *a = args;
    uint32_t left = a->budget;
    for (uint32_t i = 0; i < a->n; i++) {
        const struct iq_form_pick *p = &a->pick[i];
        uint32_t most = a->joining || a->seat[i].lacking > left ? left : a->seat[i].lacking;
        uint32_t seat = left ? i : UINT32_MAX;
        if (p->seat != seat || p->tokens != most)
            return iq_fail(err, IQ_MISMATCH,
                           "place %u of the step: seat %d with %u tokens, expected seat %d with %u", i,
                           (int)p->seat, p->tokens, (int)seat, most);
        if (!a->joining) left -= most;
    }
    return IQ_OK;
}

#define KIND(op, words, value)                                                                               \
    const struct iq_kind iq__kind_##op = {.name = #op,                                                       \
                                          .args_size = sizeof(struct iq_##op),                               \
                                          .rows = one_row,                                                   \
                                          .row_bytes = op##_bytes,                                           \
                                          .get = op##_get,                                                   \
                                          .put = op##_put,                                                   \
                                          .elem = sizeof(uint32_t),                                          \
                                          .fields = words,                                                   \
                                          .field = value,                                                    \
                                          .check = op##_check}
KIND(assemble, assemble_fields, assemble_field);
KIND(place, place_fields, place_field);
KIND(identity, NULL, NULL);
KIND(form, form_fields, form_field);
