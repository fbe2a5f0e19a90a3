/* What a recipe may say, and the learning rate it gives. */
#include "engine/train/parts.h"
#include "kernels/arith.h"

int iq_train_recipe_check(const struct iq_train_recipe *r, struct iq_err *err)
{
#define X(type, field, least, most, what)                                                                    \
    if (!((double)r->field >= (least) && (double)r->field <= (most)))                                        \
        return iq_fail(err, IQ_FORMAT, "recipe: found %s %g, expected %g to %g (%s)", #field,                \
                       (double)r->field, (double)(least), (double)(most), what);
    IQ_TRAIN_RECIPE_MAP(X)
#undef X
    if (r->head_dim % 2)
        return iq_fail(err, IQ_FORMAT, "recipe: found head_dim %u, expected an even number", r->head_dim);
    if (r->heads % r->kv_heads)
        return iq_fail(err, IQ_FORMAT,
                       "recipe: found %u heads and kv_heads %u, expected a divisor of the heads", r->heads,
                       r->kv_heads);
    if (r->experts && (!r->active || r->active > r->experts))
        return iq_fail(err, IQ_FORMAT, "recipe: found active %u, expected 1 to the %u experts", r->active,
                       r->experts);
    if (!r->experts && (r->active || r->balance > 0 || r->init_router > 0))
        return iq_fail(err, IQ_FORMAT,
                       "recipe: found active %u, balance %g and init_router %g without experts, expected 0",
                       r->active, r->balance, r->init_router);
    if (r->schedule == IQ_TRAIN_LINEAR && !(r->tail > 0))
        return iq_fail(err, IQ_FORMAT, "recipe: found tail 0 with the linear schedule, expected more than 0");
    if (r->schedule == IQ_TRAIN_COSINE && r->warmup >= r->steps)
        return iq_fail(err, IQ_FORMAT, "recipe: found warmup %u, expected less than the %u steps", r->warmup,
                       r->steps);
    if (!r->encore != !(r->encore_rate > 0))
        return iq_fail(err, IQ_FORMAT, "recipe: found encore %u at rate %g, expected both or neither",
                       r->encore, r->encore_rate);
    return IQ_OK;
}

typedef double shape_fn(const struct iq_train_recipe *, uint32_t step);

static double flat(const struct iq_train_recipe *r, uint32_t step)
{
    (void)r, (void)step;
    return 1.0;
}

static double linear(const struct iq_train_recipe *r, uint32_t step)
{
    double left = 1.0 - (double)step / (double)r->steps, share = left / r->tail;
    return share < 1.0 ? share : 1.0;
}

static double cosine(const struct iq_train_recipe *r, uint32_t step)
{
    if (step < r->warmup) return 1.0;
    double q = (double)(step - r->warmup) / (double)(r->steps - r->warmup);
    return 0.5 * (1.0 + (double)iq_cos((float)(2.0 * IQ_PIO2_HI * q)));
}

static shape_fn *const shapes[IQ_TRAIN_SCHEDULES] = {
    [IQ_TRAIN_FLAT] = flat, [IQ_TRAIN_LINEAR] = linear, [IQ_TRAIN_COSINE] = cosine};

double iq_train_rate(const struct iq_train_recipe *r, uint32_t step)
{
    if (step >= r->steps)
        return r->encore_rate * (1.0 - (double)(step - r->steps) / (double)(r->encore ? r->encore : 1));
    double share = shapes[r->schedule](r, step), warm = 1.0;
    if (step < r->warmup) warm = ((double)step + 1.0) / (double)r->warmup;
    return r->rate * (warm < share ? warm : share);
}
