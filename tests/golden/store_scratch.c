#include "tests/golden/store_scratch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct scratch dir;
struct iq_err err;

static void make(struct scratch *s, bool in_memory)
{
    err = (struct iq_err){0};
    const char *tmp = getenv("TMPDIR");
    if (!tmp && in_memory && !access("/dev/shm", W_OK)) tmp = "/dev/shm";
    snprintf(s->dir, sizeof s->dir, "%.30s/iq-golden-XXXXXX", tmp ? tmp : "/tmp");
    ck_assert_ptr_nonnull(mkdtemp(s->dir));
    snprintf(s->store, sizeof s->store, "%s/store", s->dir);
    snprintf(s->file, sizeof s->file, "%s/run.iqrun", s->dir);
}

static void drop(const char *path)
{
    DIR *d = opendir(path);
    struct dirent *e;
    while (d && (e = readdir(d))) {
        char inner[512];
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(inner, sizeof inner, "%s/%.200s", path, e->d_name);
        if (unlink(inner)) drop(inner);
    }
    if (d) closedir(d);
    rmdir(path);
}

void scratch_on_disk(void) { make(&dir, false); }
void scratch_in_memory(void) { make(&dir, true); }
void scratch_drop(void) { drop(dir.dir); }

struct iq_store *scratch_open(const struct scratch *s, uint64_t max_bytes)
{
    struct iq_store_options o = {.create = true, .map_bytes = 1 << 20, .max_bytes = max_bytes};
    struct iq_store *store;
    OK(iq_store_open(s->store, &o, &store, &err));
    return store;
}

struct iq_writer *scratch_begin(struct iq_store *store, const struct synth *s, const char *manifest,
                                enum iq_level level, const char *name)
{
    uint32_t n;
    struct iq_node *nodes = synth_nodes(s, &n);
    char *own = synth_manifest(s);
    struct iq_writer *w;
    struct iq_write_spec spec = {.manifest = manifest ? manifest : own,
                                 .nodes = nodes,
                                 .n_nodes = n,
                                 .level = level,
                                 .mode = IQ_WRITE_TRIAL,
                                 .name = name};
    OK(iq_store_begin(store, &spec, &w, &err));
    free(nodes);
    free(own);
    return w;
}

uint64_t scratch_seed(void)
{
    const char *given = getenv("IQ_TEST_SEED");
    uint64_t seed = given ? strtoull(given, NULL, 0) : (uint64_t)time(NULL);
    printf("IQ_TEST_SEED=%llu repeats this\n", (unsigned long long)seed);
    return seed;
}
