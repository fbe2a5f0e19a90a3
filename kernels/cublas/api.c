#include "kernels/cublas/api.h"

#include "kernels/cublas/load.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OLDEST = 120000 }; /* the first with cluster shapes, which are part of an algorithm's id */

static const struct iq_cublas_api *replaced;

void iq_cublas_replace(const struct iq_cublas_api *api) { replaced = api; }

int iq_cublas_version_check(const char *library, uint64_t version, struct iq_err *err)
{
    if (version >= OLDEST) return IQ_OK;
    return iq_fail(
        err, IQ_UNSUPPORTED,
        "%s is version %u.%u, expected %d.0 or later; pip install nvidia-cublas, or a newer CUDA toolkit",
        library, (unsigned)(version / 10000), (unsigned)(version / 100 % 100), OLDEST / 10000);
}

/* ---- opening ---- */

/* One library; NULL: not in this folder. `why` keeps the loader's words about a file that is there and can't be opened. */
static void *open_one(const char *folder, const char *library, int major, char path[PATH_MAX], char *why,
                      size_t why_bytes)
{
    int n = *folder ? snprintf(path, PATH_MAX, "%s/lib%s.so.%d", folder, library, major)
                    : snprintf(path, PATH_MAX, "lib%s.so.%d", library, major);
    if (n >= PATH_MAX || (*folder && access(path, F_OK))) return NULL;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *said = lib ? NULL : dlerror();
    if (said && *folder) snprintf(why, why_bytes, "%s", said);
    return lib;
}

static void *symbol_of(void *lt, void *blas, const char *library, const char *symbol)
{
    return dlsym(strcmp(library, "cublasLt") ? blas : lt, symbol);
}

/* Name of the symbol that is missing, or NULL. */
static const char *fill(void *lt, void *blas, struct iq_cublas_api *out)
{
#define X(library, result, field, symbol, params, args)                                                      \
    out->field = (result(*) params)symbol_of(lt, blas, #library, #symbol);                                   \
    if (!out->field) return #symbol;
    IQ_CUBLAS_API_MAP(X)
#undef X
    return NULL;
}

static int take(void *lt, void *blas, const char *path, struct iq_cublas_api *out, struct iq_err *err)
{
    int version = 0;
    const char *missing = fill(lt, blas, out);
    if (missing)
        return iq_fail(
            err, IQ_UNSUPPORTED,
            "%.300s has no function %s, so it is not the cuBLAS that its name says; remove it, or put the "
            "right one's folder first in LD_LIBRARY_PATH",
            path, missing);
    IQ_TRY(iq_cublas_check(out, out->version(NULL, &version), "asking for the version", err));
    IQ_TRY(iq_cublas_version_check(path, (uint64_t)version, err));
    IQ_TRY(iq_cublas_version_check("libcublasLt", out->lt_version(), err));
    out->name = strdup(path);
    return out->name ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for the name of cuBLAS's file");
}

int iq__cublas_load(const struct iq_cuda_folders *folders, struct iq_cublas_api *out, struct iq_err *err)
{
    char path[PATH_MAX], why[300] = "";
    memset(out, 0, sizeof *out);
    for (int major = 13; major >= 12; major--)
        for (size_t i = 0; i < folders->n; i++) {
            /* Lt first: the other one needs it, and finds by its name the one that is open already. */
            void *lt = open_one(folders->at[i], "cublasLt", major, path, why, sizeof why);
            void *blas = lt ? open_one(folders->at[i], "cublas", major, path, why, sizeof why) : NULL;
            if (!blas) continue;
            return take(lt, blas, path, out, err);
        }
    if (*why)
        return iq_fail(err, IQ_UNSUPPORTED,
                       "cuBLAS is there but the loader can't open it: %s; reinstall it: pip install "
                       "nvidia-cublas, or the CUDA toolkit",
                       why);
    return iq_fail(
        err, IQ_UNSUPPORTED,
        "libcublas.so.13 and .12 were not found by the loader, under CUDA_HOME, /usr/local/cuda or in "
        "python3's site-packages (%zu folders); pip install nvidia-cublas, or add their folder to "
        "LD_LIBRARY_PATH",
        folders->n);
}

int iq_cublas_api(const struct iq_cublas_api **out, struct iq_err *err)
{
    static struct iq_cublas_api real;
    static bool loaded;
    *out = NULL;
    if (!replaced && !loaded) {
        struct iq_cuda_folders folders;
        IQ_TRY(iq_cuda_folders("cublas", &folders, err));
        int status = iq__cublas_load(&folders, &real, err);
        iq_cuda_folders_free(&folders);
        IQ_TRY(status);
        loaded = true;
    }
    *out = replaced ? replaced : &real;
    return IQ_OK;
}

/* ---- statuses ---- */

static const struct {
    int code, status;
    const char *advice;
} remedies[] = {
    {IQ_CUBLAS_NOT_INITIALIZED, IQ_UNSUPPORTED,
     "it needs a GPU and a driver that nvidia-smi shows; use golden's variant or a machine with a GPU"},
    {IQ_CUBLAS_ALLOC_FAILED, IQ_MEMORY, "fewer KV blocks or a smaller batch leave more device memory to it"},
    {IQ_CUBLAS_ARCH_MISMATCH, IQ_UNSUPPORTED,
     "this version has no kernel for this GPU: install another, or take another type or algorithm"},
    {IQ_CUBLAS_MAPPING_ERROR, IQ_INTERNAL,
     "an earlier kernel may have broken the device: run this variant alone"},
    {IQ_CUBLAS_EXECUTION_FAILED, IQ_INTERNAL,
     "an earlier kernel may have broken the device: run this variant alone, then under compute-sanitizer"},
    {IQ_CUBLAS_INTERNAL_ERROR, IQ_INTERNAL,
     "the library gives no reason: try another algorithm (parameter choice), then another version of it"},
    {IQ_CUBLAS_NOT_SUPPORTED, IQ_UNSUPPORTED, "take another type, choice or pinned algorithm"},
    {IQ_CUBLAS_LICENSE_ERROR, IQ_UNSUPPORTED, "install a licensed version"},
};

static int fail(const struct iq_cublas_api *api, int code, const char *what, int status, const char *advice,
                struct iq_err *err)
{
    return iq_fail(err, status, "cuBLAS: %s failed with %s (%d), %s; %s", what, api->status_name(code), code,
                   api->status_text(code), advice);
}

int iq_cublas_check(const struct iq_cublas_api *api, int code, const char *what, struct iq_err *err)
{
    if (code == IQ_CUBLAS_OK) return IQ_OK;
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++)
        if (remedies[i].code == code)
            return fail(api, code, what, remedies[i].status, remedies[i].advice, err);
    return fail(api, code, what, IQ_INTERNAL, "this is a bug in inquest", err);
}

int iq_cublas_check_setting(const struct iq_cublas_api *api, int code, const char *what, struct iq_err *err)
{
    if (code != IQ_CUBLAS_INVALID_VALUE && code != IQ_CUBLAS_NOT_SUPPORTED)
        return iq_cublas_check(api, code, what, err);
    return fail(
        api, code, what, IQ_UNSUPPORTED,
        "this version of it has no such algorithm here; pin one that a run on this machine has recorded",
        err);
}
