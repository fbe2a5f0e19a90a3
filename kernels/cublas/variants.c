/* matmul by cuBLAS: `cublas` (cublasGemmEx chooses) and `cublaslt` (the choice is ours to see and to pin).
 *
 * Weights are unpacked into scratch memory in each call, never kept: a fault may change them where they lie, and a captured
 * graph has to read what is there when it runs. That is two passes over memory more than the product has itself. */
#include "kernels/cublas/variants.h"

#include "kernels/base/grow.h"
#include "kernels/cublas/handle.h"
#include "kernels/cublas/unpack.h"
#include "kernels/exec.h"
#include "kernels/matrix.h"
#include "kernels/ops/matmul.h"

#include <inttypes.h>
#include <string.h>

/* ---- parameters ---- */

struct params {
    double type, bucket, choice;
#define X(field, theirs, attribute, bits) double field;
    IQ_CUBLAS_ALGO_MAP(X)
#undef X
};

#define AT(field) offsetof(struct params, field)
#define TYPE                                                                                                 \
    {                                                                                                        \
        "type", "numbers that x and the weights are rounded to: 0 fp32, 1 tf32, 2 bf16, 3 fp16",             \
            IQ_CUBLAS_BF16, 0, IQ_CUBLAS_TYPES - 1, AT(type)                                                 \
    }
static const struct iq_param gemm_params[] = {TYPE, {0}};

enum { ROWS_MAX = 1 << 20 };
static const struct iq_param lt_params[] = {
    TYPE,
    {"bucket", "choose as for this number of rows, whatever the call's; 0: as for the call's", 0, 0, ROWS_MAX,
     AT(bucket)},
    {"choice", "which of the heuristic's list, 0 being what the library takes", 0, 0, IQ_CUBLAS_CHOICES - 1,
     AT(choice)},
    {"algo", "pins an algorithm, by its number; -1: choose", -1, -1, INT32_MAX, AT(algo)},
    {"tile", "of the pinned algorithm, as in its id", 0, 0, INT32_MAX, AT(tile)},
    {"stages", "likewise", 0, 0, INT32_MAX, AT(stages)},
    {"split_k", "likewise: into how many sums K is cut", 1, 0, INT32_MAX, AT(split_k)},
    {"reduction", "likewise: 1 in place, 2 in the compute type, 4 in the output's", 0, 0, 7, AT(reduction)},
    {"swizzle", "likewise", 0, 0, INT32_MAX, AT(swizzle)},
    {"custom", "likewise", 0, 0, INT32_MAX, AT(custom)},
    {"inner", "likewise", 0, 0, UINT16_MAX, AT(inner)},
    {"cluster", "likewise", 0, 0, UINT16_MAX, AT(cluster)},
    {0}};

static struct iq_cublas_algo pinned(const struct params *p)
{
    return (struct iq_cublas_algo){
#define X(field, theirs, attribute, bits) (uint32_t) p->field,
        IQ_CUBLAS_ALGO_MAP(X)
#undef X
    };
}

/* ---- the algorithm of a call ---- */

/* What a use is found by; the rest of it is what came of that. */
static bool same_use(const struct iq_cublas_use *u, const struct iq_cublas_use *key)
{
    return u->shape.rows == key->shape.rows && u->shape.n == key->shape.n && u->shape.k == key->shape.k &&
           u->shape.type == key->shape.type && u->bucket == key->bucket && u->place == key->place &&
           u->pinned == key->pinned &&
           (!u->pinned || !memcmp(&u->choice.id, &key->choice.id, sizeof u->choice.id));
}

static int decide(struct iq_cublas *b, struct iq_cublas_use *u, struct iq_err *err)
{
    struct iq_cublas_choice list[IQ_CUBLAS_CHOICES];
    struct iq_cublas_shape as = u->shape;
    unsigned found;
    if (!u->bucket) return IQ_OK; /* the library will */
    if (u->pinned) {
        struct iq_cublas_algo id = u->choice.id;
        return iq_cublas_pin(b, &u->shape, &id, &u->choice, err);
    }
    as.rows = u->bucket;
    IQ_TRY(iq_cublas_choose(b, &as, u->place + 1, list, &found, err));
    if (found <= u->place)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "cuBLAS offers %u algorithms for %" PRIu32 " rows, n %" PRIu32 ", k %" PRIu32
                       " in %s, so there is no choice %u; take a smaller one, or another type",
                       found, as.rows, as.n, as.k, iq_cublas_types[as.type].name, u->place);
    u->choice = list[u->place];
    return u->bucket == u->shape.rows ? IQ_OK : iq_cublas_fit(b, &u->shape, &u->choice, err);
}

/* The use that fits, decided at the first call of its kind. */
static int use_of(struct iq_cublas *b, struct iq_cublas_use *key, struct iq_cublas_use **out,
                  struct iq_err *err)
{
    for (size_t i = 0; i < b->uses; i++)
        if (same_use(&b->use[i], key)) {
            *out = &b->use[i];
            return IQ_OK;
        }
    IQ_TRY(iq_grow(&b->use, &b->cap, b->uses + 1, sizeof *b->use, err));
    IQ_TRY(decide(b, key, err));
    *out = &b->use[b->uses++];
    **out = *key;
    return IQ_OK;
}

/* ---- a call ---- */

/* Scratch memory of a call, for one part after the other. */
struct room {
    size_t w, x, y; /* bytes */
    char *at;
};

static bool room_for(size_t *bytes, uint64_t rows, uint64_t width, unsigned element)
{
    uint64_t n;
    if (__builtin_mul_overflow(rows, width, &n) || __builtin_mul_overflow(n, element, &n) || n > SIZE_MAX / 4)
        return false;
    n = (n + 255) / 256 * 256; /* each begins where a fast kernel may ask for it */
    if (n > *bytes) *bytes = n;
    return true;
}

static int room_open(struct iq_cuda *c, const struct iq_matmul *m, unsigned type, struct room *room)
{
    unsigned bytes = iq_cublas_types[type].bytes;
    bool fits = true;
    *room = (struct room){0};
    for (uint32_t p = 0; p < m->parts && fits; p++) {
        const struct iq_matrix *w = m->part[p].w;
        uint32_t ld = iq_cublas_ld(type, w->k);
        fits = room_for(&room->w, w->n, ld, bytes) && room_for(&room->x, m->rows, ld, bytes) &&
               room_for(&room->y, m->rows, w->n, sizeof(float));
    }
    if (!fits)
        return iq_fail(&c->err, IQ_LIMIT, "cuBLAS: a product of %" PRIu32 " rows is too large", m->rows);
    room->at = iq_cuda_scratch(c, room->w + room->x + room->y);
    return room->at ? IQ_OK : IQ_MEMORY;
}

static int part_run(struct iq_cublas *b, const struct iq_matmul *m, uint32_t p, struct iq_cublas_use *key,
                    const struct room *room)
{
    const struct iq_matmul_part *part = &m->part[p];
    struct iq_cuda *c = b->cuda;
    struct iq_cublas_use *use;
    enum iq_cublas_element element = iq_cublas_types[key->shape.type].element;
    void *w = room->at, *x = room->at + room->w;
    float *sum = (float *)(room->at + room->w + room->x);
    struct iq_cublas_shape *s = &key->shape;
    s->rows = m->rows, s->n = part->w->n, s->k = part->w->k, s->ld = iq_cublas_ld(s->type, s->k);
    IQ_TRY(use_of(b, key, &use, &c->err));

    const struct iq_cublas_unpack unpack = {part->w, w, s->ld, element};
    const struct iq_cublas_take take = {m->x + part->x_at, m->ldx, s->rows, s->k, s->ld, element, x};
    const struct iq_cublas_finish finish = {sum, part->bias, part->y, part->ldy, s->rows, s->n, m->act};
    IQ_TRY(iq_cuda_launched(c, IQ_CUDA_PICK(c, cublas_unpack)(&unpack, c->stream), "unpacking weights"));
    IQ_TRY(iq_cuda_launched(c, IQ_CUDA_PICK(c, cublas_take)(&take, c->stream), "taking x"));
    IQ_TRY(use->bucket ? iq_cublas_lt_product(b, &use->shape, &use->choice, w, x, sum, &c->err)
                       : iq_cublas_product(b, &use->shape, w, x, sum, &c->err));
    IQ_TRY(iq_cuda_launched(c, IQ_CUDA_PICK(c, cublas_finish)(&finish, c->stream), "finishing a product"));
    use->calls++;
    return IQ_OK;
}

static int run(struct iq_exec *x, const struct iq_matmul *m, const struct iq_cublas_use *first,
               const struct params *pin, bool bucket_is_rows)
{
    struct iq_cuda *c = x->cuda;
    struct iq_cublas *b;
    struct room room;
    IQ_TRY(iq_cublas_of(c, &b, &c->err));
    if (m->rows == 0) return IQ_OK;
    IQ_TRY(room_open(c, m, first->shape.type, &room));
    for (uint32_t p = 0; p < m->parts; p++) {
        struct iq_cublas_use key = *first;
        if (m->part[p].w->n == 0) continue;
        if (bucket_is_rows) key.bucket = m->rows;
        if (key.pinned) key.choice.id = pinned(pin);
        IQ_TRY(part_run(b, m, p, &key, &room));
    }
    return IQ_OK;
}

static int run_gemm(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    (void)site, (void)state;
    const struct params *p = params;
    const struct iq_cublas_use key = {.variant = "cublas",
                                      .shape.type = p ? (unsigned)p->type : IQ_CUBLAS_BF16};
    return run(x, args, &key, NULL, false);
}

static int run_lt(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                  void *state)
{
    (void)site, (void)state;
    static const struct params defaults = {.type = IQ_CUBLAS_BF16, .algo = -1, .split_k = 1};
    const struct params *p = params ? params : &defaults;
    const struct iq_cublas_use key = {.variant = "cublaslt",
                                      .shape.type = (unsigned)p->type,
                                      .bucket = (uint32_t)p->bucket,
                                      .place = p->algo < 0 ? (unsigned)p->choice : 0,
                                      .pinned = p->algo >= 0};
    return run(x, args, &key, p, p->bucket == 0);
}

/* Rows are coupled: how many there are decides on the kernel, and so on the bits of each. */
static const struct iq_variant by_gemm = {
    .kind = "matmul",
    .name = "cublas",
    .device = "cuda",
    .flags = IQ_V_BENIGN | IQ_V_COUPLES_ROWS | IQ_V_HARDWARE,
    .run = run_gemm,
    .params = gemm_params,
    .params_size = sizeof(double),
    .what = "the product by cublasGemmEx, which takes another kernel for another number of rows",
    .needs = "a GPU and NVIDIA's cuBLAS 12 or 13",
};
static const struct iq_variant by_lt = {
    .kind = "matmul",
    .name = "cublaslt",
    .device = "cuda",
    .flags = IQ_V_BENIGN | IQ_V_COUPLES_ROWS | IQ_V_HARDWARE,
    .run = run_lt,
    .params = lt_params,
    .params_size = sizeof(struct params),
    .what =
        "the product by cublasLtMatmul, with the algorithm recorded, or chosen for another batch, or pinned",
    .needs = "a GPU and NVIDIA's cuBLAS 12 or 13",
};

const struct iq_variant *const iq_cublas_variants[] = {&by_gemm, &by_lt, NULL};
