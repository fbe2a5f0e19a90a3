#define _GNU_SOURCE
#include "harness/bench/peak.h"
#include "harness/cli/commands.h"
#include "harness/cli/doctor.h"
#include "harness/cli/doctor_variants.h"
#include "harness/cli/version.h"
#include "kernels/base/json.h"

#include <math.h>
#include <sched.h>

enum { ISA_MAX = 8 };

struct measured {
    int threads;
    double fma[ISA_MAX][2]; /* GFLOP/s with 1 and with all threads; NaN where not usable */
    double read[2];         /* GB/s */
    size_t read_bytes;
};

static int allowed_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > 256 ? 256 : n;
}

static int measure(struct measured *m, struct iq_err *err)
{
    struct iq_pool *pool = NULL;
    m->threads = allowed_cores();
    m->read_bytes = iq_peak_read_bytes();
    IQ_TRY(iq_pool_open(m->threads, &pool, err));
    for (int i = 0; iq_peak_isas[i].name; i++) {
        const struct iq_peak_isa *isa = &iq_peak_isas[i];
        m->fma[i][0] = isa->usable() ? iq_peak_fma(isa, NULL) : NAN;
        m->fma[i][1] = isa->usable() ? iq_peak_fma(isa, pool) : NAN;
    }
    int status = iq_peak_read(m->read_bytes, NULL, &m->read[0], err);
    if (!status) status = iq_peak_read(m->read_bytes, pool, &m->read[1], err);
    iq_pool_close(pool);
    return status;
}

static void measured_json(const struct measured *m, struct iq_jw *w)
{
    iq_jw_key(w, "measured");
    iq_jw_begin(w, '{');
    iq_jw_key(w, "threads"), iq_jw_u64(w, (uint64_t)m->threads);
    iq_jw_key(w, "fma_gflops");
    iq_jw_begin(w, '{');
    for (int i = 0; iq_peak_isas[i].name; i++) {
        iq_jw_key(w, iq_peak_isas[i].name);
        iq_jw_begin(w, '[');
        iq_jw_f64(w, m->fma[i][0]), iq_jw_f64(w, m->fma[i][1]);
        iq_jw_end(w, ']');
    }
    iq_jw_end(w, '}');
    iq_jw_key(w, "read_gb_per_s");
    iq_jw_begin(w, '[');
    iq_jw_f64(w, m->read[0]), iq_jw_f64(w, m->read[1]);
    iq_jw_end(w, ']');
    iq_jw_key(w, "read_bytes"), iq_jw_u64(w, m->read_bytes);
    iq_jw_end(w, '}');
}

static void measured_text(const struct measured *m, struct iq_out *out)
{
    for (int i = 0; iq_peak_isas[i].name; i++)
        if (!isnan(m->fma[i][0]))
            iq_out_printf(out, "measured  %-12s %.1f GFLOP/s on 1 thread, %.1f on %d\n", iq_peak_isas[i].name,
                          m->fma[i][0], m->fma[i][1], m->threads);
    iq_out_printf(out, "measured  %-12s %.1f GB/s on 1 thread, %.1f on %d (%zu MiB)\n", "reads", m->read[0],
                  m->read[1], m->threads, m->read_bytes >> 20);
}

static void part_json(const struct iq_part *p, const struct iq_part_report *r, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    iq_jw_key(w, "name"), iq_jw_str(w, p->name);
    iq_jw_key(w, "group"), iq_jw_str(w, iq_part_group_name(p->group));
    iq_jw_key(w, "state"), iq_jw_str(w, iq_part_state_name(r->state));
    iq_jw_key(w, "detail"), iq_jw_str(w, r->detail);
    if (r->value_name) iq_jw_key(w, r->value_name), iq_jw_f64(w, r->value);
    if (r->remedy) iq_jw_key(w, "remedy"), iq_jw_str(w, r->remedy);
    iq_jw_end(w, '}');
}

static void part_text(const struct iq_part *p, const struct iq_part_report *r, struct iq_out *out)
{
    iq_out_printf(out, "%-9s %-12s %s", iq_part_state_name(r->state), p->name, r->detail);
    if (r->remedy) iq_out_printf(out, " (remedy: %s)", r->remedy);
    iq_out_printf(out, "\n");
}

static int run(struct iq_call *call, struct iq_err *err)
{
    bool json = iq_arg_on(call, "json"), only_optional = iq_arg_on(call, "optional");
    struct measured m = {0};
    struct iq_buf line = IQ_BUF(1 << 20);
    struct iq_jw w = IQ_JW(&line);
    const char *broken = NULL;
    if (json) {
        iq_jw_begin(&w, '{');
        iq_jw_key(&w, "version"), iq_jw_str(&w, IQ_VERSION);
        iq_jw_key(&w, "parts"), iq_jw_begin(&w, '[');
    }
    for (const struct iq_part *p = iq_parts; p->name; p++) {
        struct iq_part_report r = {0};
        if (only_optional && p->group != IQ_PART_OPTIONAL) continue;
        p->look(&r);
        if (r.state == IQ_PART_BROKEN) broken = p->name;
        if (json)
            part_json(p, &r, &w);
        else
            part_text(p, &r, call->out);
    }
    if (json) iq_jw_end(&w, ']'), iq_jw_key(&w, "ok"), iq_jw_bool(&w, !broken);
    int status = iq_arg_on(call, "measure") ? measure(&m, err) : IQ_OK;
    if (!status && iq_arg_on(call, "variants")) status = iq_doctor_variants(call->out, json ? &w : NULL, err);
    if (json) {
        if (m.threads) measured_json(&m, &w);
        iq_jw_end(&w, '}');
        if (!status) status = iq_out_line(call->out, &line, err);
    } else if (m.threads) {
        measured_text(&m, call->out);
    }
    iq_buf_free(&line);
    if (!status && broken)
        status = iq_fail(err, IQ_UNSUPPORTED, "%s is broken; golden bits cannot be trusted here", broken);
    return status;
}

static const struct iq_flag flags[] = {
    {.name = "optional", .type = IQ_FLAG_SWITCH, .help = "only the parts that nothing here depends on"},
    {.name = "measure",
     .type = IQ_FLAG_SWITCH,
     .help = "also measure the peak of fused multiply-adds and of reads from memory (about a second)"},
    {.name = "variants",
     .type = IQ_FLAG_SWITCH,
     .help = "also list which really miscompiled variants differ from their reference here, and how: never, "
             "benign or "
             "wrong, by measurement"},
    IQ_FLAG_JSON,
    {0},
};

const struct iq_command iq_cmd_doctor = {
    .name = "doctor",
    .one_line = "say what is there of what inquest needs, and what to do about the rest",
    .about =
        "One line per part: found, missing or broken. A part that is missing is no failure; a broken one is\n"
        "(exit status 2).\n",
    .examples = "inquest doctor\n"
                "inquest doctor --measure --json\n"
                "inquest doctor --variants\n",
    .flags = flags,
    .run = run,
};
