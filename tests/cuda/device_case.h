/* A device for tests of kernels: the shim, or with IQ_TEST_DEVICE=cuda the GPU. Arrays are copied to it and back; a call
 * is repeated under every schedule, each time into fresh outputs. */
#ifndef IQ_TESTS_DEVICE_CASE_H
#define IQ_TESTS_DEVICE_CASE_H

#include "kernels/base/rng.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/runtime.h"
#include "kernels/cuda/shim/control.h"
#include "kernels/exec.h"
#include "kernels/op.h"

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DEVICE_ARRAYS = 256 };

struct device {
    const struct iq_cuda_api *api;
    const struct iq_cuda_kernels *kernels;
    bool shim;
    void *array[DEVICE_ARRAYS];
    unsigned arrays;
};

static struct device device;

/* Return code of main where the device that was asked for is not there; 0: go on. */
static inline int device_open(void)
{
    const char *name = getenv("IQ_TEST_DEVICE");
    device.shim = !name || strcmp(name, "cuda") != 0;
    device.api = iq_cuda_shim_api();
    device.kernels = &iq__cuda_shim_kernels;
    if (device.shim) return 0;
#ifdef IQ_TEST_CUDA
    int count = 0;
    device.api = iq_cuda_api();
    device.kernels = &iq__cuda_kernels;
    setenv("CK_FORK", "no", 1); /* CUDA does not outlive a fork */
    if (device.api->device_count(&count) == 0 && count > 0) return 0;
    printf("no GPU: kernels not tested on it\n");
#else
    printf("no nvcc at build time: kernels not tested on a GPU\n");
#endif
    return 77;
}

static inline void device_ok(int code, const char *what)
{
    struct iq_err err = {0};
    iq_cuda_check(device.api, code, what, &err);
    ck_assert_msg(code == 0, "%s\n%s", err.text, iq_shim_report());
}

/* `bytes` of device memory that nobody has written. */
static inline void *device_room(size_t bytes)
{
    void *p;
    ck_assert_uint_lt(device.arrays, DEVICE_ARRAYS);
    device_ok(device.api->malloc(&p, bytes ? bytes : 1), "malloc");
    return device.array[device.arrays++] = p;
}

/* `bytes` of device memory that hold what `from` holds; 0 bytes give an address that nothing may read. */
static inline void *to_device(const void *from, size_t bytes)
{
    void *p = device_room(bytes);
    if (bytes) device_ok(device.api->memcpy_async(p, from, bytes, IQ_CUDA_TO_DEVICE, NULL), "copy");
    device_ok(device.api->stream_sync(NULL), "sync"); /* `from` may go */
    return p;
}

static inline void from_device(void *to, const void *from, size_t bytes)
{
    device_ok(device.api->last_error(), "launch");
    if (bytes) device_ok(device.api->memcpy_async(to, from, bytes, IQ_CUDA_TO_HOST, NULL), "copy back");
    device_ok(device.api->stream_sync(NULL), "kernel");
    ck_assert_msg(!device.shim || iq_shim_findings() == 0, "%s", iq_shim_report());
}

static inline void device_release(void)
{
    device_ok(device.api->stream_sync(NULL), "sync");
    while (device.arrays) device_ok(device.api->free(device.array[--device.arrays]), "free");
}

/* Schedule i; false: there are no more. A GPU has its own, and the race detector needs no luck. */
static inline bool use_schedule(unsigned i, uint64_t seed)
{
    static const char *const fixed[] = {"forward", "reverse", "warp-forward", "warp-reverse"};
    char text[40];
    if (!device.shim || i >= (iq_shim_has_race_detector() ? 1 : 6)) return !device.shim && i == 0;
    snprintf(text, sizeof text, "random:%llu", (unsigned long long)(iq_mix64(seed + i) >> 40));
    struct iq_err err = {0};
    ck_assert_msg(!iq_shim_schedule(i < 4 ? fixed[i] : text, &err), "%s", err.text);
    iq_shim_poison(i % 2 ? IQ_SHIM_POISON_HIGH : IQ_SHIM_POISON_NAN);
    return true;
}

/* An output: what the reference wrote, and the same bytes as they were before it, to write on the device. The gaps between
 * rows are compared too: no kernel writes there. */
struct output {
    void *want, *before, *at; /* at: on the device */
    size_t bytes;
};

static inline struct output output_open(void *host, size_t bytes)
{
    struct output o = {host, malloc(bytes + 1), NULL, bytes};
    memset(host, 0x5a, bytes);
    memcpy(o.before, host, bytes);
    return o;
}

/* Fresh for another run. */
static inline void *output_fresh(struct output *o) { return o->at = to_device(o->before, o->bytes); }

static inline void output_check(const struct output *o, uint64_t seed, unsigned schedule, const char *what)
{
    char *got = malloc(o->bytes + 1);
    from_device(got, o->at, o->bytes);
    size_t at = 0;
    while (at < o->bytes && got[at] == ((char *)o->want)[at]) at++;
    ck_assert_msg(at == o->bytes, "seed %#llx schedule %u: %s differs from the reference at byte %zu of %zu",
                  (unsigned long long)seed, schedule, what, at, o->bytes);
    free(got);
}

static inline void output_close(struct output *o) { free(o->before); }

/* Runs a kind's reference on the host. */
static inline int reference(const char *kind, const void *args)
{
    struct iq_exec x = {0};
    const struct iq_variant *v = iq_variant_find(kind, "reference");
    ck_assert_ptr_nonnull(v);
    int status = v->run(&x, NULL, args, NULL, NULL);
    iq_exec_close(&x);
    return status;
}

/* Random numbers of a case. */
static inline uint32_t dice(uint64_t *seed, uint32_t n)
{
    *seed = iq_mix64(*seed + 0x9e3779b97f4a7c15u);
    return (uint32_t)(*seed >> 33) % n;
}

/* Ordinary values; where `odd`, NaN, infinities, signed zeros and subnormals among them. */
static inline void dice_floats(uint64_t *seed, float *x, size_t n, bool odd)
{
    static const uint32_t special[] = {0x7fc00001, 0xffc00000, 0x7f800000, 0xff800000, 0x80000000,
                                       0x00000000, 0x00000001, 0x807fffff, 0x7f7fffff, 0x7f800001};
    for (size_t i = 0; i < n; i++) {
        x[i] = (float)((int32_t)dice(seed, 1u << 24) - (1 << 23)) * 0x1p-21f;
        if (odd && dice(seed, 8) == 0) memcpy(x + i, &special[dice(seed, 10)], sizeof *x);
    }
}

static inline float *new_floats(uint64_t *seed, size_t n, bool odd)
{
    float *x = malloc((n + 1) * sizeof *x);
    dice_floats(seed, x, n, odd);
    return x;
}

#endif
