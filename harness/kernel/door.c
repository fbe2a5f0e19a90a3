/* Calls of users' kernels. A variant's run is not told which variant it is, so each kernel gets a door of its own. */
#include "harness/kernel/user_parts.h"

#include "kernels/base/cell.h"

#include <stdio.h>
#include <string.h>

static struct iq_user_kernel *behind[IQ__DOORS];
static uint32_t n_behind;
static struct iq_err failure;

const char *iq_user_failure(void) { return failure.text; }

int iq_user_explain(int status, struct iq_err *err)
{
    return status == IQ_CRASHED && *failure.text ? iq_fail(err, status, "%s", failure.text) : status;
}

static int fail(const struct iq_user_kernel *k, const struct iq_site *site, int status,
                const struct iq_err *why)
{
    char layer[24] = "";
    if (status != IQ_MEMORY) status = IQ_CRASHED;
    if (site->layer != IQ_NO_LAYER) snprintf(layer, sizeof layer, ", layer %u", site->layer);
    return iq_fail(&failure, status, "kernel %s of %s %s (op %s%s, step %llu, rows %u)", k->name,
                   k->library->name, why->text, iq_op_name(site->op), layer,
                   (unsigned long long)site->step->step, site->rows);
}

static int one_call(struct iq_user_kernel *k, const struct iq_site *site, const void *args,
                    const void *params, uint32_t i, bool *declined, struct iq_err *err)
{
    struct iq_kernel_process *p = &k->library->process;
    struct iq_abi_laid laid = {.memory = &p->memory, .packed = k->packed};
    iq_abi_lay(k->kind, &laid, args, i);
    if (laid.failed)
        return iq_fail(err, IQ_MEMORY, "was not called: there is no memory to share its operands in");
    struct iq_abi_call c = {.magic = IQ_ABI_MAGIC,
                            .kernel = k->index,
                            .layer = site->layer == IQ_NO_LAYER ? INQUEST_NO_LAYER : site->layer,
                            .rank = site->rank,
                            .batch = site->step->batch,
                            .rows = site->rows,
                            .act = laid.act,
                            .n_params = k->n_params,
                            .step = site->step->step};
    while (k->kind->in[c.n_in]) c.n_in++;
    while (k->kind->out[c.n_out]) c.n_out++;
    while (k->kind->scalar[c.n_scalars]) c.n_scalars++;
    snprintf(c.op, sizeof c.op, "%s", iq_op_name(site->op));
    memcpy(c.scalar, laid.scalar, sizeof c.scalar);
    memcpy(c.in, laid.in, sizeof c.in);
    memcpy(c.out, laid.out, sizeof c.out);
    if (k->n_params) memcpy(c.param, params, k->n_params * sizeof *c.param);
    IQ_TRY(iq_kernel_process_call(p, k->kind, &laid, &c, declined, err));
    if (!*declined) iq_abi_give(&laid);
    return IQ_OK;
}

static int call(unsigned door, struct iq_exec *x, const struct iq_site *site, const void *args,
                const void *params)
{
    struct iq_user_kernel *k = behind[door];
    struct iq_err err = {0};
    uint32_t calls = k->kind->calls ? k->kind->calls(args) : 1;
    bool declined = false;
    int status = iq__user_ensure(k->library, &err);
    for (uint32_t i = 0; status == IQ_OK && i < calls && !declined; i++)
        status = one_call(k, site, args, params, i, &declined, &err);
    if (status != IQ_OK) return fail(k, site, status, &err);
    if (!declined) return IQ_OK;
    return iq_variant_find(k->kind->kind, "reference")->run(x, site, args, NULL, NULL);
}

/* EACH(X): X(0) to X(63) */
#define EACH8(X, n) X(n##0) X(n##1) X(n##2) X(n##3) X(n##4) X(n##5) X(n##6) X(n##7)
#define EACH(X)                                                                                              \
    EACH8(X, 0) EACH8(X, 01) EACH8(X, 02) EACH8(X, 03) EACH8(X, 04) EACH8(X, 05) EACH8(X, 06) EACH8(X, 07)

#define DOOR(n)                                                                                              \
    static int door_##n(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params, \
                        void *state)                                                                         \
    {                                                                                                        \
        (void)state;                                                                                         \
        return call(n, x, site, args, params);                                                               \
    }
EACH(DOOR)

iq_run_fn *iq__user_door(struct iq_user_kernel *k)
{
#define NAME(n) door_##n,
    static iq_run_fn *const doors[IQ__DOORS] = {EACH(NAME)};
    behind[n_behind] = k;
    return doors[n_behind++];
}

uint32_t iq__user_doors_left(void) { return IQ__DOORS - n_behind; }
