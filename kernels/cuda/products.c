/* The variants of matmul that multiply on a device's tensor cores: "sm90.cuda" is to "sm90" what an instruction set's form
 * is. A GPU has one arithmetic; asked for another it refuses, for bits under a wrong name are worse than none. */
#include "kernels/cuda/products.h"
#include "kernels/exec.h"
#include "kernels/tables.h"

#include <string.h>

static const struct {
    const char *name;
    enum iq_tc_profile_id profile;
} known[] = {
#define X(id, name, profile, format) {name, IQ_TC_##profile},
    IQ_TC_PRODUCTS_MAP(X)
#undef X
};

int iq_cuda_products_of(int major, int minor)
{
    static const struct {
        int major;
        enum iq_tc_profile_id profile;
    } generation[] = {{8, IQ_TC_SM80}, {9, IQ_TC_SM90}, {10, IQ_TC_SM100}};
    (void)minor; /* within a generation no source tells of a difference */
    for (size_t i = 0; i < sizeof generation / sizeof *generation; i++)
        if (generation[i].major == major) return (int)generation[i].profile;
    return -1;
}

int iq_cuda_products(const struct iq_cuda *c, const char *products, struct iq_err *err)
{
    size_t i = 0;
    while (i < sizeof known / sizeof *known && strcmp(known[i].name, products)) i++;
    if (i == sizeof known / sizeof *known)
        return iq_fail(err, IQ_NOT_FOUND, "products: \"%s\" is not known", products);
    const int own = iq_cuda_products_of(c->what.major, c->what.minor);
    if (c->shim || own == (int)known[i].profile) return IQ_OK;
    if (own < 0)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "products %s: %s has compute capability %d.%d, whose tensor cores are not known; "
                       "expected 8.x, 9.x or 10.x; use --device cpu",
                       products, c->what.name, c->what.major, c->what.minor);
    return iq_fail(err, IQ_UNSUPPORTED,
                   "products %s: %s has compute capability %d.%d and makes %s products; use those, or "
                   "--device cpu, which makes all",
                   products, c->what.name, c->what.major, c->what.minor, iq_tc_profiles[own].name);
}

int iq__cuda_products_run(struct iq_cuda *c, const char *products, unsigned profile, unsigned format,
                          const struct iq_matmul *args)
{
    IQ_TRY(iq_cuda_products(c, products, &c->err));
    return iq_cuda_launched(c, c->kernels->products(args, profile, format, c->stream), products);
}

#define DEFINE(id, products, profile, format)                                                                \
    static int run_##id(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params, \
                        void *state)                                                                         \
    {                                                                                                        \
        (void)site, (void)params, (void)state;                                                               \
        return iq__cuda_products_run(x->cuda, products, IQ_TC_##profile, IQ_TC_##format, args);              \
    }                                                                                                        \
    static const struct iq_variant variant_##id = {.kind = "matmul",                                         \
                                                   .name = products ".cuda",                                 \
                                                   .device = "cuda",                                         \
                                                   .flags = IQ_V_BENIGN,                                     \
                                                   .run = run_##id};
IQ_TC_PRODUCTS_MAP(DEFINE)

#define ENTRY(id, ...) &variant_##id,
const struct iq_variant *const iq__variants_cuda_products[] = {IQ_TC_PRODUCTS_MAP(ENTRY) NULL};
