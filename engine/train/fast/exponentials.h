/* What needs an exponential, in vectors: SwiGLU's gradient and cross entropy, and the weights of attention's. */

#define UNROLL _Pragma("GCC unroll 16")

/* iq_max over n; the order is free. */
static float vector_maximum(const float *x, size_t n)
{
    float max = -INFINITY, lane[VL];
    size_t i = 0;
    if (n >= VL) {
        vf most = v_load(x);
        for (i = VL; i + VL <= n; i += VL) most = v_max(most, v_load(x + i));
        v_store(lane, most);
        for (int l = 0; l < VL; l++) max = iq_max(max, lane[l]);
    }
    for (; i < n; i++) max = iq_max(max, x[i]);
    return max;
}

enum { LANES = IQ_VECTOR_LANES / VL };

/* iq_fold32 of lanes in vectors. */
static float fold_lanes(vf lane[LANES])
{
    float last[VL];
    for (int half = LANES / 2; half; half /= 2)
        for (int i = 0; i < half; i++) lane[i] = v_add(lane[i], lane[i + half]);
    v_store(last, lane[0]);
    for (int half = VL / 2; half; half /= 2)
        for (int i = 0; i < half; i++) last[i] = last[i] + last[i + half];
    return last[0];
}

/* exp(x - max) in place, of n; returns their sum by the vector rule. What a part vector adds to absent lanes is +0. */
static float vector_exponentials(float *x, size_t n, float max)
{
    vf lane[LANES] = {0}, shift = v_set1(max);
    size_t i = 0;
    for (; i + VL <= n; i += VL) v_store(x + i, v_exp(v_sub(v_load(x + i), shift)));
    if (i < n) v_store_part(x + i, v_exp(v_sub(v_load_part(x + i, n - i), shift)), n - i);
    for (i = 0; i + IQ_VECTOR_LANES <= n; i += IQ_VECTOR_LANES)
        UNROLL for (int l = 0; l < LANES; l++) lane[l] = v_add(lane[l], v_load(x + i + l * VL));
    for (int l = 0; i < n; l++, i += VL)
        lane[l] = v_add(lane[l], n - i < VL ? v_load_part(x + i, n - i) : v_load(x + i));
    return fold_lanes(lane);
}

/* fold_products of whole vectors; a part's absent lanes would turn a sum of -0 into +0. */
static float vector_products(const float *a, const float *b, uint32_t n)
{
    vf lane[LANES] = {0};
    if (n % VL) return fold_products(a, b, n);
    for (size_t i = 0; i < n; i += VL) {
        vf *sum = &lane[i / VL % LANES];
        *sum = v_fma(v_load(a + i), v_load(b + i), *sum);
    }
    return fold_lanes(lane);
}

static inline void swiglu_vector(vf gate, vf up, vf dy, vf *dgate, vf *dup)
{
    vf one = v_set1(1.0f), minus = (vf)((vi)gate ^ 0x80000000u);
    vf sig = v_div(one, v_add(one, v_exp(minus)));
    *dup = v_mul(dy, v_mul(gate, sig));
    *dgate = v_mul(v_mul(dy, up), v_mul(sig, v_fma(gate, v_sub(one, sig), one)));
}

static void swiglu_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_swiglu_back *a = ctx;
    (void)part;
    for (size_t r = begin; r < end; r++) {
        const float *gate = a->gate + r * a->ld, *up = a->up + r * a->ld, *dy = a->dy + r * a->lddy;
        float *dgate = a->dgate + r * a->ld, *dup = a->dup + r * a->ld;
        vf g, u;
        size_t i = 0, rest;
        for (; i + VL <= a->n; i += VL) {
            swiglu_vector(v_load(gate + i), v_load(up + i), v_load(dy + i), &g, &u);
            v_store(dgate + i, g);
            v_store(dup + i, u);
        }
        if (!(rest = a->n - i)) continue;
        swiglu_vector(v_load_part(gate + i, rest), v_load_part(up + i, rest), v_load_part(dy + i, rest), &g,
                      &u);
        v_store_part(dgate + i, g, rest);
        v_store_part(dup + i, u, rest);
    }
}

static int swiglu_back(struct iq_exec *x, const struct iq_train_swiglu_back *a)
{
    iq__train_split(x, a->rows, 2.0 * a->n, swiglu_rows, a);
    return IQ_OK;
}

static void loss_rows(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_loss *a = ctx;
    (void)part;
    for (size_t r = begin; r < end; r++) {
        float *row = a->x + r * a->vocab;
        uint32_t target = a->target[r], first = 0;
        a->loss[r] = 0.0f;
        a->hit[r] = 0;
        if (target == IQ_TRAIN_NO_TARGET) {
            memset(row, 0, a->vocab * sizeof *row);
            continue;
        }
        float max = vector_maximum(row, a->vocab), logit = row[target] - max;
        while (first < target && row[first] < max) first++;
        a->hit[r] = first == target && row[target] == max;
        float sum = vector_exponentials(row, a->vocab, max), over = 1.0f / sum;
        a->loss[r] = iq_log(sum) - logit;
        row[target] = row[target] * over - 1.0f; /* its own order of steps: p first, then p - 1 */
        float own = row[target] * a->scale;
        for (uint32_t j = 0; j < a->vocab; j++) row[j] = row[j] * over * a->scale;
        row[target] = own;
    }
}

static int loss(struct iq_exec *x, const struct iq_train_loss *a)
{
    iq__train_split(x, a->rows, 2.0 * a->vocab, loss_rows, a);
    return IQ_OK;
}
