#define _GNU_SOURCE
#include "kernels/cuda/search.h"
#include "kernels/nccl/api.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <stdio.h>

#define SONAME "libnccl.so.2"

static void *open_path(const char *path, char *found, size_t size)
{
    struct link_map *map;
    void *lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) return NULL;
    if (dlinfo(lib, RTLD_DI_LINKMAP, &map)) map = NULL;
    snprintf(found, size, "%s", map && map->l_name && *map->l_name ? map->l_name : path);
    return lib;
}

/* The loader's own search comes first, and only its complaint is worth keeping. */
void *iq__nccl_library(char *found, size_t size)
{
    struct iq_cuda_folders folders;
    struct iq_err err = {0};
    void *lib = NULL;
    if (iq_cuda_folders("nccl", &folders, &err)) {
        snprintf(found, size, "%s", err.text);
        return NULL;
    }
    for (size_t i = 0; i < folders.n && !lib; i++) {
        char path[PATH_MAX];
        const char *folder = folders.at[i];
        if (snprintf(path, sizeof path, "%s%s" SONAME, folder, *folder ? "/" : "") >= (int)sizeof path)
            continue;
        lib = open_path(path, found, size);
        const char *said = lib || *folder ? NULL : dlerror();
        if (said) snprintf(found, size, "%s", said);
    }
    iq_cuda_folders_free(&folders);
    return lib;
}
