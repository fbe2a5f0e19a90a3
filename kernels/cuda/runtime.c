#include "kernels/cuda/runtime.h"

/* Of cudaError_t, what leaves the process's context unusable. */
int iq_cuda_is_sticky(int code)
{
    static const short sticky[] = {214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721};
    for (size_t i = 0; i < sizeof sticky / sizeof sticky[0]; i++)
        if (sticky[i] == code) return 1;
    return 0;
}

/* Of cudaError_t, what only advice asks for. */
enum { CALL_NEEDS_DRIVER = 36, NO_IMAGE = 209, NEWER_PTX = 222, DRIVER_MISMATCH = 803, NOT_COMPATIBLE = 804 };

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
    } else if (code == NO_IMAGE || code == NEWER_PTX) {
        status = IQ_UNSUPPORTED;
        advice = "this build has no code for this GPU, see `inquest doctor`; or use --device cpu";
    } else if (code == IQ_CUDA_OLD_DRIVER || code == CALL_NEEDS_DRIVER || code == DRIVER_MISMATCH ||
               code == NOT_COMPATIBLE) {
        status = IQ_UNSUPPORTED;
        advice = "install a driver for this CUDA version, or use --device cpu";
    } else if (code == IQ_CUDA_NO_DEVICE || code == IQ_CUDA_INVALID_DEVICE) {
        status = IQ_UNSUPPORTED;
        advice = "use --device cpu, or a machine with the device";
    }
    return iq_fail(err, status, "%s: %s failed with %s (%d), %s; %s", api->name, what, api->error_name(code),
                   code, api->error_detail(code), advice);
}
