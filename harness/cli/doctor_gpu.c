#define _GNU_SOURCE
#include "harness/cli/doctor_look.h"
#include "harness/model/child.h"
#include "kernels/cublas/api.h"
#include "kernels/cuda/search.h"
#include "kernels/nccl/api.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Opened, never linked, so that inquest starts where it is missing. The driver is asked by itself and not through CUDA's
 * runtime: it answers in every build, and no context is made on a device. */
static void *driver(void) { return dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL); }

/* CUDA's versions: 13020 is 13.2. */
static int version_of(void *lib, const char *name)
{
    int (*ask)(int *) = (int (*)(int *))dlsym(lib, name);
    int v = 0;
    return ask && !ask(&v) ? v : 0;
}

void iq__look_driver(struct iq_part_report *r)
{
    void *lib = driver();
    if (!lib) {
        SAY(r, "libcuda.so.1 not found");
        missing(r,
                "needed only for GPUs: install NVIDIA's driver (Debian: nvidia-driver in non-free; Ubuntu: "
                "ubuntu-drivers install), start a container with --gpus all");
        return;
    }
    int v = version_of(lib, "cuDriverGetVersion");
    number(r, "version", v);
    if (!v) {
        SAY(r, "libcuda.so.1 tells no version: a toolkit's stub, not a driver");
        missing(r, "take the stub out of LD_LIBRARY_PATH");
        return;
    }
    SAY(r, "for CUDA up to %d.%d", v / 1000, v % 1000 / 10);
    if (v / 1000 >= IQ_CUDA_BUILD_MAJOR) return;
    SAY(r, "for CUDA up to %d.%d only, and this build's kernels are made by CUDA %d", v / 1000, v % 1000 / 10,
        IQ_CUDA_BUILD_MAJOR);
    missing(r, "install a newer driver, or build with a toolkit that is no newer than the driver");
}

/* Of the driver's API, what is asked. */
struct asked {
    int (*init)(unsigned);
    int (*count)(int *);
    int (*get)(int *, int);
    int (*name)(char *, int, int);
    int (*attribute)(int *, int, int);
    int (*memory)(size_t *, int);
    int (*error_name)(int, const char **);
};

static bool ask(struct asked *a, void *lib)
{
    a->init = (int (*)(unsigned))dlsym(lib, "cuInit");
    a->count = (int (*)(int *))dlsym(lib, "cuDeviceGetCount");
    a->get = (int (*)(int *, int))dlsym(lib, "cuDeviceGet");
    a->name = (int (*)(char *, int, int))dlsym(lib, "cuDeviceGetName");
    a->attribute = (int (*)(int *, int, int))dlsym(lib, "cuDeviceGetAttribute");
    a->memory = (int (*)(size_t *, int))dlsym(lib, "cuDeviceTotalMem_v2");
    a->error_name = (int (*)(int, const char **))dlsym(lib, "cuGetErrorName");
    return a->init && a->count && a->get && a->name && a->attribute && a->memory && a->error_name;
}

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76 }; /* of CUdevice_attribute */

static int one_gpu(const struct asked *a, int ordinal, char *text, size_t size, int *sm)
{
    int device = 0, major = 0, minor = 0;
    size_t bytes = 0;
    char name[128] = "";
    int code = a->get(&device, ordinal);
    if (!code) code = a->name(name, sizeof name, device);
    if (!code) code = a->attribute(&major, CAPABILITY_MAJOR, device);
    if (!code) code = a->attribute(&minor, CAPABILITY_MINOR, device);
    if (!code) code = a->memory(&bytes, device);
    *sm = 10 * major + minor;
    snprintf(text, size, "%s%d: %.100s, sm_%d, %.1f GiB", ordinal ? "; " : "", ordinal, name, *sm,
             (double)bytes / (1 << 30));
    return code;
}

void iq__look_gpu(struct iq_part_report *r)
{
    void *lib = driver();
    struct asked a;
    int n = 0, best = 0;
    number(r, "devices", 0);
    if (!lib || !ask(&a, lib)) {
        SAY(r, "no driver to ask");
        missing(r, "see the driver's line; --device cpu needs none");
        return;
    }
    int code = a.init(0);
    if (!code) code = a.count(&n);
    size_t at = 0;
    for (int i = 0; !code && i < n && at < sizeof r->detail - 1; i++) {
        int sm = 0;
        code = one_gpu(&a, i, r->detail + at, sizeof r->detail - at, &sm);
        at = strlen(r->detail);
        if (sm > best) best = sm;
    }
    if (code) {
        const char *name = NULL;
        (void)a.error_name(code, &name);
        SAY(r, "the driver shows no device: %s (%d)", name ? name : "an error without a name", code);
        missing(r, "see `nvidia-smi` and `dmesg`; --device cpu needs none");
    } else if (!n) {
        SAY(r, "the driver shows no device");
        missing(r, "see `nvidia-smi` and CUDA_VISIBLE_DEVICES; --device cpu needs none");
    } else if (best < IQ_CUDA_OLDEST) {
        missing(r, "kernels are built for sm_80 (A100, RTX 30) and later; --device cpu needs none");
    }
    number(r, "devices", n);
}

static int devices(void)
{
    struct asked a;
    void *lib = driver();
    int n = 0;
    return lib && ask(&a, lib) && !a.init(0) && !a.count(&n) ? n : 0;
}

static bool runnable(char *file, size_t size, const char *folder, const char *within)
{
    snprintf(file, size, "%s/%s", folder, within);
    return !access(file, X_OK);
}

/* A program of NVIDIA's: on PATH, or beside the folders of its libraries. */
static bool find_program(const char *name, char file[PATH_MAX])
{
    char list[8192], within[64], found[PATH_MAX];
    const char *path = getenv("PATH");
    snprintf(list, sizeof list, "%s", path ? path : "");
    char *save = NULL;
    for (char *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save))
        if (runnable(file, PATH_MAX, dir, name)) return true;
    struct iq_cuda_folders folders;
    if (iq_cuda_folders("cuda_nvcc", &folders, NULL)) return false;
    snprintf(within, sizeof within, "../bin/%s", name);
    bool there = false;
    for (size_t i = 0; i < folders.n && !there; i++)
        there =
            *folders.at[i] && runnable(found, sizeof found, folders.at[i], within) && realpath(found, file);
    iq_cuda_folders_free(&folders);
    return there;
}

/* "13.0.88" of `nvcc --version`; "?" where it says nothing of the kind. */
static void nvcc_version(const char *file, char *out, size_t size)
{
    const char *argv[] = {file, "--version", NULL};
    struct iq_child_spec spec = {.argv = argv, .cwd = "/", .timeout_ms = 10000};
    struct iq_child_result result = {.out = IQ_BUF(4096)};
    snprintf(out, size, "?");
    if (!iq_child_run(&spec, &result, NULL) && !result.exit_code && result.out.len) {
        const char *v = strstr(result.out.data, ", V");
        size_t n = v ? strspn(v + 3, "0123456789.") : 0;
        if (n && n < size) snprintf(out, size, "%.*s", (int)n, v + 3);
    }
    iq_buf_free(&result.out);
}

void iq__look_toolkit(struct iq_part_report *r)
{
    char file[PATH_MAX] = "", version[32] = "", found[220] = "nvcc not found";
    const char *build = IQ_CUDA_BUILD;
    if (find_program("nvcc", file)) {
        nvcc_version(file, version, sizeof version);
        snprintf(found, sizeof found, "nvcc %s, %.160s", version, file);
    }
    SAY(r, "%s; this build %s%s", found, *build ? "has kernels by " : "has no kernels for GPUs", build);
    if (!*build)
        missing(r, *version ? "build again, without sanitizers: CMake says in one line what it makes of nvcc"
                            : "needed only to build for GPUs: apt-get install nvidia-cuda-toolkit (Debian, "
                              "Ubuntu), NVIDIA's own packages, or pip install nvidia-cuda-nvcc");
}

void iq__look_cublas(struct iq_part_report *r)
{
    const struct iq_cublas_api *api;
    struct iq_err err = {0};
    int v = 0;
    if (iq_cublas_api(&api, &err)) {
        SAY(r, "%.310s", err.text);
        missing(r, "needed only for its products, as variants of matmul");
        return;
    }
    (void)api->version(NULL, &v); /* works without a handle, so without a device */
    SAY(r, "cuBLAS %d.%d.%d, %.280s", v / 10000, v / 100 % 100, v % 100, api->name);
    number(r, "version", v);
}

void iq__look_nccl(struct iq_part_report *r)
{
    struct iq_err err = {0};
    if (!iq_nccl_describe(devices(), r->detail, sizeof r->detail, &err)) return;
    SAY(r, "%.310s", err.text);
    missing(r,
            "needed only for collectives between GPUs: apt-get install libnccl2 (NVIDIA's packages), or pip "
            "install nvidia-nccl-cu13");
}

void iq__look_memcheck(struct iq_part_report *r)
{
    /* Its wheel may stand alone, without a folder of libraries beside it. */
    static const char wheel[] =
        "import glob, sysconfig; "
        "print(*glob.glob(sysconfig.get_path('platlib') + '/nvidia/cu*/bin/compute-sanitizer')[-1:])";
    const char *argv[] = {"python3", "-I", "-c", wheel, NULL};
    char file[PATH_MAX];
    if (find_program("compute-sanitizer", file)) {
        SAY(r, "%.310s", file);
        return;
    }
    if (iq__look_python(r, argv) && *r->detail) return;
    SAY(r, "compute-sanitizer not found");
    missing(r, "needed only by tests/gpu.sh: NVIDIA's toolkit (cuda-sanitizer), or pip install "
               "nvidia-cuda-sanitizer-api");
}
