/* What runs beneath a wrong variant: the variant that serves golden at the site, so that a trial runs at
 * speed. */
#ifndef IQ_BENEATH_H
#define IQ_BENEATH_H

#include "kernels/dispatch.h"

static inline int iq__run_golden(struct iq_exec *x, const struct iq_site *site, const char *kind,
                                 const void *args)
{
    const struct iq_variant *v = site->slot ? site->slot->variant : iq_variant_golden(kind, NULL);
    if (v->supports && !v->supports(site, args)) v = iq_variant_find(kind, x->cuda ? "cuda" : "reference");
    return v->run(x, site, args, NULL, NULL);
}

#endif
