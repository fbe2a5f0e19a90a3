/* The shim's settings from the environment, and the calls that are planned to fail (control.h). */
#ifndef IQ_CUDA_SHIM_SETTINGS_H
#define IQ_CUDA_SHIM_SETTINGS_H

#include "kernels/cuda/shim/state.h"

/* The table's fields, and the launch of a kernel. */
#define IQ__CALL_MAP(X) IQ_CUDA_API_MAP(X) X(launch, )
enum iq__call_id {
#define X(name, params) IQ__CALL_##name,
    IQ__CALL_MAP(X)
#undef X
        IQ__CALLS
};

/* Counts this call: 0, or the code that it is planned to fail with. */
int iq__plan_due(enum iq__call_id call);
void iq__plans_forget(void);

/* 0, or a code where a setting wasn't understood: never a run under other settings than those that were asked for. */
int iq__settings_read(void);

#endif
