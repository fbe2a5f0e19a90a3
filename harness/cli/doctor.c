#define _GNU_SOURCE
#include "harness/bench/peak.h"
#include "harness/bench/sysfile.h"
#include "harness/cli/doctor_look.h"
#include "harness/cli/version.h"
#include "harness/model/child.h"
#include "harness/model/known.h"
#include "kernels/arith.h"
#include "kernels/miscompiled/miscompiled.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <lmdb.h>
#include <openssl/crypto.h>
#include <pcre2.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <utf8proc.h>
#include <xxhash.h>

static void look_version(struct iq_part_report *r) { SAY(r, "inquest %s", IQ_VERSION); }
static void look_build(struct iq_part_report *r) { SAY(r, "%s", IQ_BUILD_FLAGS); }

static void look_compiler(struct iq_part_report *r)
{
#if defined __clang__
    SAY(r, "%s", __VERSION__);
#else
    SAY(r, "GCC %s", __VERSION__);
#endif
}

static void look_other_compiler(struct iq_part_report *r)
{
    if (*iq_miscompiled_version) {
        SAY(r, "%s: variants built by it are there", iq_miscompiled_version);
        return;
    }
    r->state = IQ_PART_MISSING;
    SAY(r, "no %s when this was built: no variants built by another compiler", iq_miscompiled_other);
    r->remedy = "install it and configure the build again";
}

static void look_contract(struct iq_part_report *r)
{
    SAY(r, "ieee %d: units and chunks of %d and %d columns, keys by %d, vector sums in %d lanes",
        IQ_CONTRACT_VERSION, IQ_UNIT, IQ_CHUNK, IQ_KEY_CHUNK, IQ_VECTOR_LANES);
    number(r, "version", IQ_CONTRACT_VERSION);
}

static void look_cpu(struct iq_part_report *r)
{
    char name[128];
    if (!iq_sys_text("/proc/cpuinfo", "model name", name, sizeof name))
        snprintf(name, sizeof name, "unnamed");
#if defined __x86_64__
    SAY(r, "%s (x86-64)", name);
#elif defined __aarch64__
    SAY(r, "%s (aarch64)", name);
#else
    SAY(r, "%s", name);
#endif
}

static void look_isa(struct iq_part_report *r)
{
    int n = 0, at = 0;
    for (const struct iq_peak_isa *i = iq_peak_isas; i->name; i++)
        if (i->usable()) {
            at += snprintf(r->detail + at, sizeof r->detail - (size_t)at, "%s%s", n ? ", " : "", i->name);
            n++;
        }
    number(r, "usable", n);
    if (n) return;
    SAY(r, "no fused multiply-add in hardware; the plain C reference still runs, slowly");
    missing(r, "use a CPU with FMA3 (since 2013)");
}

static void look_cores(struct iq_part_report *r)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    int allowed = sched_getaffinity(0, sizeof set, &set) ? 1 : CPU_COUNT(&set);
    char quota[64] = "";
    double limit = 0, period = 0;
    SAY(r, "%d allowed of %ld", allowed, sysconf(_SC_NPROCESSORS_ONLN));
    if (iq_sys_text("/sys/fs/cgroup/cpu.max", "", quota, sizeof quota) &&
        sscanf(quota, "%lf %lf", &limit, &period) == 2 && period > 0) {
        size_t n = strlen(r->detail);
        snprintf(r->detail + n, sizeof r->detail - n, ", the control group grants %.3g", limit / period);
    }
    number(r, "cores", allowed);
}

static void look_memory(struct iq_part_report *r)
{
    uint64_t total = iq_sys_number("/proc/meminfo", "MemTotal:"),
             free = iq_sys_number("/proc/meminfo", "MemAvailable:");
    uint64_t limit = iq_sys_number("/sys/fs/cgroup/memory.max", "");
    SAY(r, "%.1f GiB, %.1f available%s", (double)total / (1 << 30), (double)free / (1 << 30),
        limit && limit < total ? ", the control group grants less" : "");
    number(r, "bytes", (double)(limit && limit < total ? limit : total));
}

static void look_huge_pages(struct iq_part_report *r)
{
    char modes[64] = "";
    uint64_t reserved = iq_sys_number("/proc/meminfo", "HugePages_Total:");
    bool there = iq_sys_text("/sys/kernel/mm/transparent_hugepage/enabled", "", modes, sizeof modes);
    SAY(r, "transparent: %s; reserved: %" PRIu64, there ? modes : "not in this kernel", reserved);
    if (!there || strstr(modes, "[never]"))
        missing(r, "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled (as root); without it reads "
                   "are slower");
}

static bool float_state_ok(char *detail, unsigned size)
{
#if defined __x86_64__
    unsigned state = __builtin_ia32_stmxcsr();
    bool ftz = state >> 15 & 1, daz = state >> 6 & 1, nearest = !(state >> 13 & 3);
    snprintf(detail, size, "MXCSR %04x: flush-to-zero %s, denormals-are-zero %s, rounding %s", state,
             ftz ? "on" : "off", daz ? "on" : "off", nearest ? "to nearest" : "not to nearest");
    return !ftz && !daz && nearest;
#elif defined __aarch64__
    uint64_t state;
    __asm__ volatile("mrs %0, fpcr" : "=r"(state));
    bool ftz = state >> 24 & 1, nearest = !(state >> 22 & 3);
    snprintf(detail, size, "FPCR %08" PRIx64 ": flush-to-zero %s, rounding %s", state, ftz ? "on" : "off",
             nearest ? "to nearest" : "not to nearest");
    return !ftz && nearest;
#else
    snprintf(detail, size, "not known for this CPU");
    return true;
#endif
}

static void look_float_state(struct iq_part_report *r)
{
    if (float_state_ok(r->detail, sizeof r->detail)) return;
    r->state = IQ_PART_BROKEN;
    r->remedy =
        "a library that was linked with -ffast-math did it (see LD_PRELOAD); golden bits need subnormals and "
        "rounding to nearest";
}

static void look_lmdb(struct iq_part_report *r) { SAY(r, "%s", mdb_version(NULL, NULL, NULL)); }
static void look_cjson(struct iq_part_report *r) { SAY(r, "cJSON %s", cJSON_Version()); }
static void look_crypto(struct iq_part_report *r) { SAY(r, "%s", OpenSSL_version(OPENSSL_VERSION)); }

static void look_xxhash(struct iq_part_report *r)
{
    unsigned v = XXH_versionNumber();
    SAY(r, "xxHash %u.%u.%u", v / 10000, v / 100 % 100, v % 100);
}

static void look_pcre2(struct iq_part_report *r)
{
    char version[64] = "", unicode[64] = "";
    pcre2_config(PCRE2_CONFIG_VERSION, version);
    pcre2_config(PCRE2_CONFIG_UNICODE_VERSION, unicode);
    SAY(r, "PCRE2 %s, Unicode %s", version, unicode);
}

static void look_utf8proc(struct iq_part_report *r)
{
    SAY(r, "utf8proc %s, Unicode %s", utf8proc_version(), utf8proc_unicode_version());
}

/* Runs a line of Python away from the caller's folder, whose files could shadow modules. */
bool iq__look_python(struct iq_part_report *r, const char *const *argv)
{
    struct iq_child_spec spec = {.argv = argv, .cwd = "/", .timeout_ms = 20000};
    struct iq_child_result result = {.out = IQ_BUF(4096)};
    bool ok = !iq_child_run(&spec, &result, NULL) && !result.exit_code && result.out.len;
    if (ok) iq_last_line(result.out.data, r->detail, sizeof r->detail);
    iq_buf_free(&result.out);
    return ok;
}

static void look_pip(struct iq_part_report *r)
{
    const char *argv[] = {"python3", "-m", "pip", "--version", NULL};
    if (iq__look_python(r, argv)) return;
    SAY(r, "`inquest model fetch` needs python3 with pip");
    missing(r, "apt-get install python3-pip");
}

static void look_jinja2(struct iq_part_report *r)
{
    const char *argv[] = {"python3", "-c", "import jinja2; print('jinja2', jinja2.__version__)", NULL};
    if (iq__look_python(r, argv)) return;
    SAY(r, "chat templates outside the ChatML family need it; without it use --raw");
    missing(r, "apt-get install python3-jinja2");
}

static void look_cache(struct iq_part_report *r)
{
    char dir[IQ_PATH_MAX];
    struct iq_err err;
    if (iq_cache_dir(dir, &err)) {
        SAY(r, "%.300s", err.text);
        missing(r, "set INQUEST_CACHE to a folder of yours");
        return;
    }
    SAY(r, "%.280s%s", dir,
        access(dir, F_OK)   ? " (not made yet)"
        : access(dir, W_OK) ? " (not writable)"
                            : "");
}

static void look_model(struct iq_part_report *r)
{
    char path[IQ_PATH_MAX];
    struct iq_err err;
    const struct iq_known_model *m = iq_known_model_find("smollm2");
    int status = iq_known_model_path(m, path, &err);
    if (!status) status = iq_known_model_check(m, path, false, &err);
    SAY(r, "%.280s%s", path,
        status == IQ_MISMATCH ? " is not the right file"
        : status              ? " is not there"
                              : "");
    if (!status) return;
    missing(r, "inquest model fetch smollm2");
}

enum { CAP_SYS_ADMIN_BIT = 21 };

static void look_bpf(struct iq_part_report *r)
{
    char hex[32] = "";
    iq_sys_text("/proc/self/status", "CapEff:", hex, sizeof hex);
    bool btf = !access("/sys/kernel/btf/vmlinux", R_OK);
    /* CAP_BPF and CAP_PERFMON load programs but recent kernels want CAP_SYS_ADMIN for uprobes. */
    bool admin = strtoull(hex, NULL, 16) >> CAP_SYS_ADMIN_BIT & 1;
    SAY(r, "kernel type information (BTF) %s, CAP_SYS_ADMIN %s", btf ? "there" : "missing",
        admin ? "held" : "missing");
    if (!btf || !admin)
        missing(r, "probes of running processes need a kernel with BTF and CAP_SYS_ADMIN (root)");
}

const struct iq_part iq_parts[] = {
    {"version", IQ_PART_BUILD, look_version},
    {"build", IQ_PART_BUILD, look_build},
    {"compiler", IQ_PART_BUILD, look_compiler},
    {"other compiler", IQ_PART_BUILD, look_other_compiler},
    {"contract", IQ_PART_BUILD, look_contract},
    {"cpu", IQ_PART_MACHINE, look_cpu},
    {"isa", IQ_PART_MACHINE, look_isa},
    {"cores", IQ_PART_MACHINE, look_cores},
    {"memory", IQ_PART_MACHINE, look_memory},
    {"huge pages", IQ_PART_MACHINE, look_huge_pages},
    {"float state", IQ_PART_MACHINE, look_float_state},
    {"lmdb", IQ_PART_LIBRARY, look_lmdb},
    {"cjson", IQ_PART_LIBRARY, look_cjson},
    {"xxhash", IQ_PART_LIBRARY, look_xxhash},
    {"libcrypto", IQ_PART_LIBRARY, look_crypto},
    {"pcre2", IQ_PART_LIBRARY, look_pcre2},
    {"utf8proc", IQ_PART_LIBRARY, look_utf8proc},
    {"pip", IQ_PART_MODEL, look_pip},
    {"cache", IQ_PART_MODEL, look_cache},
    {"smollm2", IQ_PART_MODEL, look_model},
    {"jinja2", IQ_PART_OPTIONAL, look_jinja2},
    {"CUDA driver", IQ_PART_OPTIONAL, iq__look_driver},
    {"GPU", IQ_PART_OPTIONAL, iq__look_gpu},
    {"CUDA toolkit", IQ_PART_OPTIONAL, iq__look_toolkit},
    {"cuBLAS", IQ_PART_OPTIONAL, iq__look_cublas},
    {"NCCL", IQ_PART_OPTIONAL, iq__look_nccl},
    {"GPU memcheck", IQ_PART_OPTIONAL, iq__look_memcheck},
    {"BPF", IQ_PART_OPTIONAL, look_bpf},
    {0},
};

const char *iq_part_group_name(enum iq_part_group g)
{
    static const char *const names[] = {"build", "machine", "library", "model", "optional"};
    return names[g];
}

const char *iq_part_state_name(enum iq_part_state s)
{
    static const char *const names[] = {"found", "missing", "broken"};
    return names[s];
}
