#include "kernels/cuda/runtime.h"

/* Of cudaError_t, what leaves the process's context unusable. */
int iq_cuda_is_sticky(int code)
{
    static const short sticky[] = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721};
    for (size_t i = 0; i < sizeof sticky / sizeof sticky[0]; i++)
        if (sticky[i] == code) return 1;
    return 0;
}

int iq_cuda_check(const struct iq_cuda_api *api, int code, const char *what, struct iq_err *err)
{
    if (code == IQ_CUDA_OK) return IQ_OK;
    int status = IQ_INTERNAL;
    const char *advice = "this is a bug in inquest";
    if (iq_cuda_is_sticky(code)) {
        status = IQ_CRASHED;
        advice = "the device is lost to this process; what was recorded before stays";
    } else if (code == IQ_CUDA_NO_MEMORY) {
        status = IQ_MEMORY;
        advice = "fewer KV blocks or a smaller batch need less device memory";
    } else if (code == IQ_CUDA_OLD_DRIVER) {
        status = IQ_UNSUPPORTED;
        advice = "install a driver for this CUDA version, or use --device cpu";
    } else if (code == IQ_CUDA_NO_DEVICE || code == IQ_CUDA_INVALID_DEVICE) {
        status = IQ_UNSUPPORTED;
        advice = "use --device cpu, or a machine with the device";
    }
    return iq_fail(err, status, "%s: %s failed with %s (%d), %s; %s", api->name, what, api->error_name(code),
                   code, api->error_detail(code), advice);
}
