#define _GNU_SOURCE
#include "kernels/cuda/search.h"

#include "kernels/base/grow.h"

#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int add(struct iq_cuda_folders *f, const char *folder, struct iq_err *err)
{
    for (size_t i = 0; i < f->n; i++)
        if (!strcmp(f->at[i], folder)) return IQ_OK;
    IQ_TRY(iq_grow(&f->at, &f->cap, f->n + 1, sizeof *f->at, err));
    f->at[f->n] = strdup(folder);
    if (!f->at[f->n]) return iq_fail(err, IQ_MEMORY, "no memory for a folder's name");
    f->n++;
    return IQ_OK;
}

/* Every folder that matches, the last in the alphabet first: of several versions the newest. */
static int add_matches(struct iq_cuda_folders *f, const char *pattern, struct iq_err *err)
{
    glob_t g;
    int status = IQ_OK;
    if (glob(pattern, GLOB_ONLYDIR, NULL, &g)) return IQ_OK; /* none, or none that may be read */
    for (size_t i = g.gl_pathc; i-- && !status;) status = add(f, g.gl_pathv[i], err);
    globfree(&g);
    return status;
}

/* Folders of a toolkit, then of wheels in the Pythons, under a prefix. */
static int add_toolkit(struct iq_cuda_folders *f, const char *prefix, struct iq_err *err)
{
    static const char *const parts[] = {"lib64", "lib", "targets/*-linux/lib"};
    char pattern[PATH_MAX];
    if (!prefix || !*prefix) return IQ_OK;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (snprintf(pattern, sizeof pattern, "%s/%s", prefix, parts[i]) < (int)sizeof pattern)
            IQ_TRY(add_matches(f, pattern, err));
    return IQ_OK;
}

static int add_wheels(struct iq_cuda_folders *f, const char *prefix, const char *wheel, struct iq_err *err)
{
    static const char *const pythons[] = {"python3*/site-packages", "python3*/dist-packages"};
    char pattern[PATH_MAX];
    if (!prefix || !*prefix) return IQ_OK;
    for (size_t i = 0; i < sizeof pythons / sizeof *pythons; i++) {
        if (snprintf(pattern, sizeof pattern, "%s/lib/%s/nvidia/cu[1-9]*/lib", prefix, pythons[i]) <
            (int)sizeof pattern)
            IQ_TRY(add_matches(f, pattern, err));
        if (snprintf(pattern, sizeof pattern, "%s/lib/%s/nvidia/%s/lib", prefix, pythons[i], wheel) <
            (int)sizeof pattern)
            IQ_TRY(add_matches(f, pattern, err));
    }
    return IQ_OK;
}

/* The prefix of the first python3 on PATH: its folder's parent. A virtual environment's is a link to another's, so both. */
static int add_python(struct iq_cuda_folders *f, const char *wheel, struct iq_err *err)
{
    char list[8192], file[PATH_MAX], *save = NULL;
    const char *path = getenv("PATH");
    if (!path || strlen(path) >= sizeof list) return IQ_OK;
    memcpy(list, path, strlen(path) + 1);
    for (char *dir = strtok_r(list, ":", &save); dir; dir = strtok_r(NULL, ":", &save)) {
        if (snprintf(file, sizeof file, "%s/python3", dir) >= (int)sizeof file || access(file, X_OK))
            continue;
        char real[PATH_MAX], up[PATH_MAX];
        if (snprintf(up, sizeof up, "%s/..", dir) < (int)sizeof up && realpath(up, real))
            IQ_TRY(add_wheels(f, real, wheel, err));
        if (!realpath(file, real)) return IQ_OK;
        for (int i = 0; i < 2; i++) {
            char *slash = strrchr(real, '/');
            if (slash) *slash = 0;
        }
        return add_wheels(f, real, wheel, err);
    }
    return IQ_OK;
}

static int fill(const char *wheel, struct iq_cuda_folders *f, struct iq_err *err)
{
    char user[PATH_MAX] = "";
    const char *home = getenv("HOME");
    IQ_TRY(add(f, "", err));
    IQ_TRY(add_toolkit(f, getenv("CUDA_HOME"), err));
    IQ_TRY(add_toolkit(f, getenv("CUDA_PATH"), err));
    IQ_TRY(add_toolkit(f, "/usr/local/cuda", err));
    IQ_TRY(add_matches(f, "/usr/local/cuda-1[2-9]*/lib64", err));
    IQ_TRY(add_wheels(f, getenv("VIRTUAL_ENV"), wheel, err));
    IQ_TRY(add_toolkit(f, getenv("CONDA_PREFIX"), err));
    IQ_TRY(add_wheels(f, getenv("CONDA_PREFIX"), wheel, err));
    IQ_TRY(add_python(f, wheel, err));
    if (home && snprintf(user, sizeof user, "%s/.local", home) < (int)sizeof user)
        IQ_TRY(add_wheels(f, user, wheel, err));
    IQ_TRY(add_wheels(f, "/usr/local", wheel, err));
    return add_wheels(f, "/usr", wheel, err);
}

int iq_cuda_folders(const char *wheel, struct iq_cuda_folders *out, struct iq_err *err)
{
    *out = (struct iq_cuda_folders){0};
    int status = fill(wheel, out, err);
    if (status) iq_cuda_folders_free(out);
    return status;
}

void iq_cuda_folders_free(struct iq_cuda_folders *f)
{
    for (size_t i = 0; i < f->n; i++) free(f->at[i]);
    free(f->at);
    *f = (struct iq_cuda_folders){0};
}
