#include "engine/train/parts.h"

#include <string.h>

/* Reference first, then the faster the later. */
static const struct iq_train_ops *const table[] = {
    &iq__train_reference,
    &iq__train_scalar,
#if defined __x86_64__
    &iq__train_avx2,
    &iq__train_avx512,
#endif
};

enum { ROWS = sizeof table / sizeof *table };

const struct iq_train_ops *iq_train_ops_at(size_t index) { return index < ROWS ? table[index] : NULL; }

int iq_train_register(struct iq_err *err)
{
    IQ_TRY(iq_kernels_register(err));
    for (size_t i = 1; i < ROWS; i++)
        for (const struct iq_variant *v = table[i]->variant; v < table[i]->variant + 2; v++)
            if (!iq_variant_find(v->kind, v->name)) IQ_TRY(iq_variant_register(v, err));
    return IQ_OK;
}

const struct iq_train_ops *iq_train_ops_find(const char *name)
{
    for (size_t i = ROWS; i-- > 0;) {
        const struct iq_train_ops *o = table[i];
        if ((!name || !strcmp(name, o->name)) && (!o->usable || o->usable())) return o;
    }
    return NULL;
}
