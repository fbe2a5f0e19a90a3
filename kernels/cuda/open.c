/* Opening a device: the one place that knows both builds of the kernels. */
#include "kernels/cuda/device.h"

#include <stdlib.h>

static int pick_build(struct iq_cuda *c, bool shim, struct iq_err *err)
{
    (void)err;
    c->shim = shim;
    if (shim) {
        c->api = iq_cuda_shim_api();
        c->kernels = &iq__cuda_shim_kernels;
        return IQ_OK;
    }
#ifdef IQ_HAVE_CUDA
    c->api = iq_cuda_api();
    c->kernels = &iq__cuda_kernels;
    return IQ_OK;
#else
    return iq_fail(
        err, IQ_UNSUPPORTED,
        "cuda: this inquest was built without nvcc; build it where the CUDA toolkit is installed, or use "
        "--device cuda-shim (the same kernels on the CPU)");
#endif
}

static int check(struct iq_cuda *c, int code, const char *what, struct iq_err *err)
{
    return iq_cuda_check(c->api, code, what, err);
}

static int start(struct iq_cuda *c, int ordinal, struct iq_err *err)
{
    int count;
    IQ_TRY(check(c, c->api->device_count(&count), "counting the devices", err));
    if (ordinal >= count)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "%s: device %d was asked for, this machine has %d; use --device cpu", c->api->name,
                       ordinal, count);
    IQ_TRY(check(c, c->api->device_use(ordinal), "choosing a device", err));
    IQ_TRY(check(c, c->api->device_describe(ordinal, &c->what), "describing the device", err));
    if (!c->shim && c->what.major < 8)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "cuda: %s has compute capability %d.%d; the kernels are built for 8.0 and newer",
                       c->what.name, c->what.major, c->what.minor);
    return check(c, c->api->stream_create(&c->stream), "creating a stream", err);
}

int iq_cuda_open(bool shim, int ordinal, struct iq_cuda **out, struct iq_err *err)
{
    *out = NULL;
    struct iq_cuda *c = calloc(1, sizeof *c);
    if (!c) return iq_fail(err, IQ_MEMORY, "no memory for a device");
    int status = pick_build(c, shim, err);
    if (status == IQ_OK) status = start(c, ordinal, err);
    if (status != IQ_OK) {
        free(c);
        return status;
    }
    *out = c;
    return IQ_OK;
}

void iq_cuda_close(struct iq_cuda *c)
{
    if (!c) return;
    c->api->stream_sync(c->stream);
    for (unsigned i = 0; i < IQ_CUDA_LIBRARIES && c->library[i]; i++) c->library[i]->close(c);
    iq_cuda_room_close(c, &c->scratch);
    iq_cuda_room_close(c, &c->above);
    c->api->stream_destroy(c->stream);
    free(c);
}
