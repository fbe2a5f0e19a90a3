/* AdamW over blocks of elements, in place or from where the old values lie apart. */

static void adamw_blocks(const void *ctx, size_t begin, size_t end, int part)
{
    const struct iq_train_adamw *a = ctx;
    const struct iq_train_adamw c = *a;
    const float *g = c.g, shrink = -(c.lr * c.decay), rest1 = 1.0f - c.beta1, rest2 = 1.0f - c.beta2;
    float *restrict w = c.w, *restrict m = c.m, *restrict v = c.v;
    const size_t first = begin * BLOCK, last = least(end * BLOCK, c.n), bytes = (last - first) * sizeof *w;
    (void)part;
    if (c.w0 != c.w) {
        memcpy(w + first, c.w0 + first, bytes);
        memcpy(m + first, c.m0 + first, bytes);
        memcpy(v + first, c.v0 + first, bytes);
    }
    for (size_t i = first; i < last; i++) {
        float slope = g[i] * c.clip;
        m[i] = IQ_FMAF(c.beta1, m[i], rest1 * slope);
        v[i] = IQ_FMAF(c.beta2, v[i], rest2 * slope * slope);
        float kept = IQ_FMAF(shrink, w[i], w[i]);
        w[i] = IQ_FMAF(-c.lr, (m[i] * c.rate1) / (IQ_SQRTF(v[i] * c.rate2) + c.eps), kept);
    }
}

static int adamw(struct iq_exec *x, const struct iq_train_adamw *a)
{
    iq__train_split(x, blocks(a->n), 2.0 * BLOCK, adamw_blocks, a);
    return IQ_OK;
}
