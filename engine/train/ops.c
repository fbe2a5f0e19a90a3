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

const struct iq_train_ops *iq_train_ops_find(const char *name)
{
    for (size_t i = ROWS; i-- > 0;) {
        const struct iq_train_ops *o = table[i];
        if ((!name || !strcmp(name, o->name)) && (!o->usable || o->usable())) return o;
    }
    return NULL;
}
