#include "harness/plan/variants.h"

#include "engine/train/ops.h"
#include "faults/families.h"
#include "kernels/cublas/variants.h"
#include "kernels/miscompiled/miscompiled.h"
#include "kernels/nccl/nccl.h"

int iq_variants_register(struct iq_err *err)
{
    static const struct iq_variant *const over_nccl[] = {&iq__k16_nccl_stale, NULL};
    const struct iq_variant *const *const more[] = {iq_cublas_variants, iq_nccl_variants, over_nccl,
                                                    iq_miscompiled_variants};
    IQ_TRY(iq_train_register(err));
    IQ_TRY(iq_faults_register(err));
    for (size_t t = 0; t < sizeof more / sizeof *more; t++)
        for (const struct iq_variant *const *v = more[t]; *v; v++)
            if (!iq_variant_find((*v)->kind, (*v)->name)) IQ_TRY(iq_variant_register(*v, err));
    return IQ_OK;
}
