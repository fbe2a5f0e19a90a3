#define _GNU_SOURCE
#include "harness/trial/manifest.h"

#include "engine/graph.h"
#include "harness/cli/version.h"
#include "kernels/base/sha256.h"
#include "kernels/cuda/device.h"

#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

static void hex(struct iq_jw *w, const char *key, struct iq_digest d)
{
    iq_jw_key(w, key);
    iq_jw_hex(w, d.hi, d.lo);
}

static void str(struct iq_jw *w, const char *key, const char *s)
{
    iq_jw_key(w, key);
    iq_jw_str(w, s);
}

static void write_model(const struct iq_manifest_parts *m, struct iq_jw *w)
{
    const struct iq_model *model = m->model;
    iq_jw_key(w, "model");
    iq_jw_begin(w, '{');
    str(w, "path", m->model_path);
    str(w, "sha256", model->sha256);
    hex(w, "packed", model->packed_digest);
    iq_jw_key(w, "layout"), iq_jw_u64(w, model->tp); /* packed digests compare within one sharding */
    str(w, "arch", iq_arch_name(model->config.arch));
    /* What in vitro needs to make operands of the model's shapes. */
    const struct iq_model_config *c = &model->config;
    const struct {
        const char *key;
        uint64_t value;
    } dims[] = {{"layers", c->layers},     {"hidden", c->hidden},     {"ffn", c->ffn},    {"heads", c->heads},
                {"kv_heads", c->kv_heads}, {"head_dim", c->head_dim}, {"vocab", c->vocab}};
    for (size_t i = 0; i < sizeof dims / sizeof *dims; i++)
        iq_jw_key(w, dims[i].key), iq_jw_u64(w, dims[i].value);
    if (c->experts) {
        iq_jw_key(w, "experts"), iq_jw_u64(w, c->experts);
        iq_jw_key(w, "active_experts"), iq_jw_u64(w, c->active);
        iq_jw_key(w, "renormalised"), iq_jw_bool(w, c->renormalise);
    }
    str(w, "weights", iq_format_info((enum iq_format)model->layer[0].rank[0].q.format)->name);
    iq_jw_end(w, '}');
}

/* The variant of each kind that golden runs on this machine; the plan says what strikes on top. */
static void write_variants(const struct iq_manifest_parts *m, struct iq_jw *w)
{
    iq_jw_key(w, "variants");
    iq_jw_begin(w, '{');
    for (int op = 0; op < IQ_OPS; op++) {
        const char *kind = iq_op_kind((enum iq_op_id)op)->name;
        bool seen = !iq_engine_has(m->engine, (enum iq_op_id)op);
        for (int before = 0; before < op; before++)
            seen |= iq_engine_has(m->engine, (enum iq_op_id)before) &&
                    !strcmp(iq_op_kind((enum iq_op_id)before)->name, kind);
        if (seen) continue;
        str(w, kind, iq_engine_variant(m->engine, (enum iq_op_id)op)->name);
    }
    iq_jw_end(w, '}');
}

static void cpu_name(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512];
    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof line, f)) {
        char *colon = strchr(line, ':');
        if (strncmp(line, "model name", 10) || !colon) continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = 0;
        snprintf(out, size, "%s", colon);
        break;
    }
    if (f) fclose(f);
}

static void write_device(const struct iq_cuda *c, struct iq_jw *w)
{
    const struct iq_cuda_device *d = &c->what;
    char version[24];
    iq_jw_key(w, "device");
    iq_jw_begin(w, '{');
    str(w, "backend", c->api->name);
    str(w, "name", d->name);
    snprintf(version, sizeof version, "%d.%d", d->major, d->minor);
    str(w, "capability", version);
    iq_jw_key(w, "driver"), iq_jw_u64(w, (uint64_t)d->driver_version);
    iq_jw_key(w, "runtime"), iq_jw_u64(w, (uint64_t)d->runtime_version);
    iq_jw_end(w, '}');
}

static void write_machine(const struct iq_cuda *device, struct iq_jw *w)
{
    struct utsname u;
    char cpu[256], binary[IQ_SHA256_HEX];
    struct iq_err ignored;
    cpu_name(cpu, sizeof cpu);
    iq_jw_key(w, "machine");
    iq_jw_begin(w, '{');
    str(w, "cpu", cpu);
    if (!uname(&u)) str(w, "kernel", u.release);
    if (device) write_device(device, w);
    iq_jw_end(w, '}');
    iq_jw_key(w, "build");
    iq_jw_begin(w, '{');
    str(w, "version", IQ_VERSION);
    str(w, "compiler", __VERSION__);
    str(w, "flags", IQ_BUILD_FLAGS);
    /* Object code of every variant: they are all in this one file. */
    if (iq_sha256_file("/proc/self/exe", binary, &ignored) == IQ_OK) str(w, "binary", binary);
    iq_jw_end(w, '}');
}

int iq_manifest_write(const struct iq_manifest_parts *m, struct iq_buf *out, struct iq_err *err)
{
    struct iq_jw w = IQ_JW(out);
    iq_jw_begin(&w, '{');
    write_model(m, &w);
    if (m->draft) {
        iq_jw_key(&w, "draft");
        iq_jw_begin(&w, '{');
        str(&w, "path", m->draft_path);
        str(&w, "sha256", m->draft->sha256);
        iq_jw_end(&w, '}');
    }
    iq_adapters_write(&m->prompts->adapters, &w);
    if (m->updates) iq_updates_write(m->updates, &w);
    hex(&w, "contract", iq_engine_contract(m->engine));
    hex(&w, "prompts", iq_prompts_digest(m->prompts));
    iq_jw_key(&w, "requests"), iq_jw_u64(&w, m->prompts->n);
    iq_jw_key(&w, "engine"), iq_settings_write(m->settings, &w);
    write_variants(m, &w);
    if (m->plan) iq_jw_key(&w, "plan"), iq_plan_write(m->plan, &w);
    if (m->golden) str(&w, "golden", m->golden);
    if (m->trajectory) str(&w, "trajectory", m->trajectory);
    write_machine(iq_engine_device(m->engine), &w);
    iq_jw_end(&w, '}');
    return out->failed ? iq_fail(err, IQ_MEMORY, "no memory for the manifest") : IQ_OK;
}
