/* Near ties that ship: one set for each embedded canary, made by `canary search`. */
#ifndef IQ_HARNESS_NEAR_TIES_H
#define IQ_HARNESS_NEAR_TIES_H

#include "harness/incidents/incident.h"

/* Those of a model by the name or path that --model takes. IQ_NOT_FOUND: none ship for it, with what to do. */
int iq_near_ties_find(const char *model, const struct iq_shipped **out, struct iq_err *err);

#endif
