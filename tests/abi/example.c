/* An example of a library of kernels: a plain form of every kind, and an rmsnorm and a matmul that are wrong when the number of rows is odd.
 * cc -O2 -ffp-contract=off -fPIC -shared -o example.so example.c -lm */
#include <inquest/kernel.h>

#include <math.h>
#include <stddef.h>

static float *at(const struct inquest_tensor *t, uint64_t i, uint64_t j, uint64_t k)
{
    float *x = t->data;
    return x + i * t->stride[0] + (t->dims > 1 ? j * t->stride[1] : 0) + (t->dims > 2 ? k * t->stride[2] : 0);
}

/* ---- rmsnorm ---- */

/* Golden's order: 32 strided lanes, folded 16, 8, 4, 2, 1; then a division, an addition, a root and a division. */
static float golden_scale(const float *x, uint64_t n, double eps)
{
    float lane[32] = {0};
    for (uint64_t i = 0; i < n; i++) lane[i % 32] = fmaf(x[i], x[i], lane[i % 32]);
    for (int half = 16; half; half /= 2)
        for (int i = 0; i < half; i++) lane[i] += lane[i + half];
    return 1.0f / sqrtf(lane[0] / (float)n + (float)eps);
}

static float plain_scale(const float *x, uint64_t n, double eps)
{
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
    return (float)(1 / sqrt(sum / (double)n + eps));
}

/* shift: places that the weights are off. */
static int norm(const struct inquest_call *c, float (*scale)(const float *, uint64_t, double), uint64_t shift)
{
    const struct inquest_tensor *x = &c->in[INQUEST_RMSNORM_X], *w = &c->in[INQUEST_RMSNORM_WEIGHT];
    uint64_t n = x->dim[2];
    if (c->act != INQUEST_ACT_F32) return INQUEST_DECLINED;
    for (uint64_t row = 0; row < x->dim[0]; row++)
        for (uint64_t g = 0; g < x->dim[1]; g++) {
            const float *in = at(x, row, g, 0);
            float *out = at(&c->out[INQUEST_RMSNORM_Y], row, g, 0),
                  r = scale(in, n, c->scalar[INQUEST_RMSNORM_EPS]);
            for (uint64_t i = 0; i < n; i++) out[i] = in[i] * r * *at(w, (i + shift) % n, 0, 0);
        }
    return INQUEST_OK;
}

static int golden_norm(const struct inquest_call *c) { return norm(c, golden_scale, 0); }
static int plain_norm(const struct inquest_call *c) { return norm(c, plain_scale, 0); }

/* An odd number of rows is multiplied by weights that are some places off. */
static int odd_norm(const struct inquest_call *c)
{
    return norm(c, golden_scale, c->in[INQUEST_RMSNORM_X].dim[0] % 2 ? (uint64_t)c->param[0] : 0);
}

/* ---- matmul ---- */

static float chain(const float *x, const float *w, uint64_t k)
{
    float sum = 0;
    for (uint64_t i = 0; i < k; i++) sum = fmaf(x[i], w[i], sum);
    return sum;
}

/* Golden's order: chains over 128 columns, combined by a tree that halves the list; units of columns likewise. */
static float tree(const float *x, const float *w, uint64_t k, uint64_t unit)
{
    uint64_t piece = k > unit ? unit : 128, n = (k + piece - 1) / piece, left = (n - n / 2) * piece;
    if (n <= 1) return chain(x, w, k);
    return tree(x, w, left, unit) + tree(x + left, w + left, k - left, unit);
}

static float straight(const float *x, const float *w, uint64_t k, uint64_t unit)
{
    float sum = 0;
    for (uint64_t i = 0; i < k && unit; i++) sum += x[i] * w[i];
    return sum;
}

/* lost: columns that are left out. */
static int matmul(const struct inquest_call *c,
                  float (*dot)(const float *, const float *, uint64_t, uint64_t), uint64_t lost)
{
    const struct inquest_tensor *x = &c->in[INQUEST_MATMUL_X], *w = &c->in[INQUEST_MATMUL_W];
    const struct inquest_tensor *bias = &c->in[INQUEST_MATMUL_BIAS];
    uint64_t unit = (uint64_t)c->scalar[INQUEST_MATMUL_UNIT];
    if (c->act != INQUEST_ACT_F32) return INQUEST_DECLINED;
    for (uint64_t r = 0; r < x->dim[0]; r++)
        for (uint64_t o = 0; o < w->dim[0]; o++) {
            float sum = dot(at(x, r, 0, 0), at(w, o, 0, 0), x->dim[1] - lost, unit);
            *at(&c->out[INQUEST_MATMUL_Y], r, o, 0) = bias->data ? sum + *at(bias, o, 0, 0) : sum;
        }
    return INQUEST_OK;
}

static int golden_matmul(const struct inquest_call *c) { return matmul(c, tree, 0); }
static int plain_matmul(const struct inquest_call *c) { return matmul(c, straight, 0); }

/* An odd number of rows loses the last column. */
static int odd_matmul(const struct inquest_call *c)
{
    return matmul(c, tree, c->in[INQUEST_MATMUL_X].dim[0] % 2);
}

/* Of packed weights: float32 alone. */
static int packed_matmul(const struct inquest_call *c)
{
    const struct inquest_tensor *x = &c->in[INQUEST_MATMUL_X], *w = &c->in[INQUEST_MATMUL_W];
    const struct inquest_tensor *y = &c->out[INQUEST_MATMUL_Y];
    if (c->scalar[INQUEST_MATMUL_FORMAT] != 0 || c->in[INQUEST_MATMUL_BIAS].data) return INQUEST_DECLINED;
    for (uint64_t r = 0; r < x->dim[0]; r++)
        for (uint64_t o = 0; o < y->dim[1]; o++) {
            const float *panel = (const float *)((const char *)w->data + o / 64 * w->stride[0]) + o % 64;
            float sum = 0;
            for (uint64_t k = 0; k < x->dim[1]; k++) sum += *at(x, r, k, 0) * panel[64 * k];
            *at(y, r, o, 0) = sum;
        }
    return INQUEST_OK;
}

/* ---- the other kinds ---- */

static int before(float a, float b) { return a > b || (b != b && a == a); }

static int plain_topk(const struct inquest_call *c)
{
    const struct inquest_tensor *x = &c->in[INQUEST_TOPK_LOGITS], *ids = &c->out[INQUEST_TOPK_IDS];
    uint64_t k = ids->dim[1];
    for (uint64_t r = 0; r < x->dim[0]; r++) {
        uint32_t *id = (uint32_t *)ids->data + r * ids->stride[0];
        float *value = at(&c->out[INQUEST_TOPK_VALUES], r, 0, 0);
        uint64_t n = 0;
        for (uint64_t v = 0; v < x->dim[1]; v++) {
            float f = *at(x, r, v, 0);
            uint64_t i = n < k ? n++ : k;
            if (i == k && (!k || !before(f, value[--i]))) continue;
            for (; i > 0 && before(f, value[i - 1]); i--) value[i] = value[i - 1], id[i] = id[i - 1];
            value[i] = f, id[i] = (uint32_t)v;
        }
    }
    return INQUEST_OK;
}

static void attend(const struct inquest_call *c, uint64_t row, uint64_t head, uint64_t first, uint64_t keys)
{
    const struct inquest_tensor *q = &c->in[INQUEST_ATTENTION_Q], *k = &c->in[INQUEST_ATTENTION_K];
    const struct inquest_tensor *v = &c->in[INQUEST_ATTENTION_V], *y = &c->out[INQUEST_ATTENTION_Y];
    uint64_t dim = q->dim[2], kv = head / (q->dim[1] / k->dim[1]);
    double top = -INFINITY, sum = 0, out[512] = {0};
    for (uint64_t key = first; key < first + keys; key++) {
        double s = 0;
        for (uint64_t d = 0; d < dim; d++) s += (double)*at(q, row, head, d) * (double)*at(k, key, kv, d);
        s *= c->scalar[INQUEST_ATTENTION_SCALE];
        double next = s > top ? s : top, old = exp(top - next), fresh = exp(s - next);
        for (uint64_t d = 0; d < dim; d++) out[d] = out[d] * old + fresh * (double)*at(v, key, kv, d);
        sum = sum * old + fresh;
        top = next;
    }
    for (uint64_t d = 0; d < dim; d++) *at(y, row, head, d) = (float)(out[d] / sum);
}

static int plain_attention(const struct inquest_call *c)
{
    const struct inquest_tensor *q = &c->in[INQUEST_ATTENTION_Q], *seq = &c->in[INQUEST_ATTENTION_SEQ];
    uint64_t window = (uint64_t)c->scalar[INQUEST_ATTENTION_WINDOW];
    if (q->dim[2] > 512) return INQUEST_DECLINED;
    for (uint64_t s = 0; s < seq->dim[0]; s++) {
        const uint32_t *line = (const uint32_t *)seq->data + s * seq->stride[0];
        for (uint64_t i = 0; i < line[1]; i++) {
            uint64_t keys = line[2] + i + 1, skip = window && keys > window ? keys - window : 0;
            for (uint64_t h = 0; h < q->dim[1]; h++) attend(c, line[0] + i, h, line[3] + skip, keys - skip);
        }
    }
    return INQUEST_OK;
}

static int plain_rope(const struct inquest_call *c)
{
    const struct inquest_tensor *table = &c->in[INQUEST_ROPE_TABLE];
    uint64_t half = (uint64_t)c->scalar[INQUEST_ROPE_ROTARY] / 2;
    int together = c->scalar[INQUEST_ROPE_INTERLEAVED] != 0;
    for (int part = 0; part < 2; part++) {
        const struct inquest_tensor *x = &c->in[INQUEST_ROPE_Q + part],
                                    *y = &c->out[INQUEST_ROPE_Q_OUT + part];
        for (uint64_t r = 0; r < x->dim[0]; r++)
            for (uint64_t h = 0; h < x->dim[1]; h++) {
                for (uint64_t i = 0; i < half; i++) {
                    uint64_t a = together ? 2 * i : i, b = together ? 2 * i + 1 : i + half;
                    float cosine = *at(table, r, i, 0), sine = *at(table, r, i, 1);
                    *at(y, r, h, a) = *at(x, r, h, a) * cosine - *at(x, r, h, b) * sine;
                    *at(y, r, h, b) = *at(x, r, h, b) * cosine + *at(x, r, h, a) * sine;
                }
                for (uint64_t i = 2 * half; i < x->dim[2]; i++) *at(y, r, h, i) = *at(x, r, h, i);
            }
    }
    return INQUEST_OK;
}

static int plain_all_reduce(const struct inquest_call *c)
{
    const struct inquest_tensor *x = &c->in[INQUEST_ALL_REDUCE_X], *y = &c->out[INQUEST_ALL_REDUCE_Y];
    for (uint64_t r = 0; r < y->dim[0]; r++)
        for (uint64_t i = 0; i < y->dim[1]; i++) {
            float sum = 0;
            for (uint64_t p = 0; p < x->dim[0]; p++) sum += *at(x, p, r, i);
            *at(y, r, i, 0) = sum;
        }
    return INQUEST_OK;
}

static int plain_swiglu(const struct inquest_call *c)
{
    const struct inquest_tensor *y = &c->out[INQUEST_SWIGLU_Y];
    for (uint64_t r = 0; r < y->dim[0]; r++)
        for (uint64_t i = 0; i < y->dim[1]; i++) {
            double g = (double)*at(&c->in[INQUEST_SWIGLU_GATE], r, i, 0);
            *at(y, r, i, 0) = (float)(g / (1 + exp(-g)) * (double)*at(&c->in[INQUEST_SWIGLU_UP], r, i, 0));
        }
    return INQUEST_OK;
}

static int plain_add(const struct inquest_call *c)
{
    const struct inquest_tensor *y = &c->out[INQUEST_ADD_Y];
    if (c->act != INQUEST_ACT_F32) return INQUEST_DECLINED;
    for (uint64_t r = 0; r < y->dim[0]; r++)
        for (uint64_t i = 0; i < y->dim[1]; i++)
            *at(y, r, i, 0) = *at(&c->in[INQUEST_ADD_A], r, i, 0) + *at(&c->in[INQUEST_ADD_B], r, i, 0);
    return INQUEST_OK;
}

/* ---- what inquest sees ---- */

static const struct inquest_param odd_params[] = {{"shift", "places that the weights are off", 1, 0, 64}};

static const struct inquest_kernel kernels[] = {
    {"rmsnorm", "golden_norm", "golden's order", INQUEST_GOLDEN, 0, NULL, golden_norm},
    {"rmsnorm", "plain_norm", "one sum, in double", INQUEST_BENIGN, 0, NULL, plain_norm},
    {"rmsnorm", "odd_norm", "an odd number of rows takes other weights", INQUEST_FAULTY, 1, odd_params,
     odd_norm},
    {"matmul", "golden_matmul", "golden's order", INQUEST_GOLDEN, 0, NULL, golden_matmul},
    {"matmul", "plain_matmul", "one chain over k", INQUEST_BENIGN, 0, NULL, plain_matmul},
    {"matmul", "odd_matmul", "an odd number of rows loses the last column", INQUEST_FAULTY, 0, NULL,
     odd_matmul},
    {"matmul", "packed_matmul", "one chain over k, of packed float32 weights",
     INQUEST_BENIGN | INQUEST_PACKED, 0, NULL, packed_matmul},
    {"topk", "plain_topk", "insertion", INQUEST_GOLDEN, 0, NULL, plain_topk},
    {"attention", "plain_attention", "one pass over the keys, in double", INQUEST_BENIGN, 0, NULL,
     plain_attention},
    {"rope", "plain_rope", "products rounded each", INQUEST_BENIGN, 0, NULL, plain_rope},
    {"all_reduce", "plain_all_reduce", "pieces in order", INQUEST_BENIGN, 0, NULL, plain_all_reduce},
    {"swiglu", "plain_swiglu", "in double, rounded once", INQUEST_BENIGN, 0, NULL, plain_swiglu},
    {"add", "plain_add", "element by element", INQUEST_GOLDEN, 0, NULL, plain_add},
};

static const struct inquest_kernel_library library = {INQUEST_ABI, sizeof(struct inquest_kernel),
                                                      sizeof kernels / sizeof *kernels, 0, kernels};

const struct inquest_kernel_library *inquest_kernels(uint32_t abi)
{
    return abi == INQUEST_ABI ? &library : NULL;
}
