#define _GNU_SOURCE
#include "harness/plan/settings.h"

#include "kernels/base/rng.h"
#include "kernels/ops/kv.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

static const char *const isas[] = {"best", "scalar", "avx2", "avx512", NULL};
static const char *const devices[] = {"cpu", "cuda", "cuda-shim", NULL};
static const char *const dtypes[] = {"f32", "bf16", "f16", NULL};
static const char *const products[] = {"ieee",
#define X(id, name, ...) name,
                                       IQ_TC_PRODUCTS_MAP(X)
#undef X
                                           NULL};
static const char *const levels[] = {
#define X(name, text) text,
    IQ_LEVEL_MAP(X)
#undef X
        NULL};
static const char *const booleans[] = {"false", "true", NULL};

static const struct setting {
    const char *key, *flag;
    size_t at;
    const char *const *words; /* NULL: a number */
    double lo, hi;
    bool late; /* younger than recorded runs: 0 is not written, so that a run without it keeps its id */
} table[] = {
#define ROW(field, flag, words, lo, hi, late)                                                                \
    {                                                                                                        \
#field, flag, offsetof(struct iq_settings, field), words, lo, hi, late                               \
    }
#define S(field, flag, words, lo, hi) ROW(field, flag, words, lo, hi, false)
    S(threads, "threads", NULL, 1, 256),
    S(tp, "tp", NULL, 1, 64),
    S(expert_parallel, "expert-parallel", NULL, 1, 64),
    S(batch, "batch", NULL, 1, 4096),
    S(chunk, "chunk", NULL, 0, 1048576),
    S(kv_blocks, "kv-blocks", NULL, 0, 16777216),
    S(prefix_min, "prefix-min", NULL, 0, 1048576),
    S(prefix_cache, "prefix-cache", booleans, 0, 0),
    S(captured, "captured", booleans, 0, 0),
    ROW(remote_kv, "remote-kv", booleans, 0, 0, true),
    ROW(defragment, "defragment", NULL, 0, 1048576, true),
    ROW(long_factor, "long-factor", NULL, 0, 64, true),
    ROW(long_from, "long-from", NULL, 0, 16777216, true),
    S(arrivals, "arrivals", NULL, 0, 1e9),
    S(seed, "arrival-seed", NULL, 0, 4294967295.0),
    S(device, "device", devices, 0, 0),
    S(isa, "isa", isas, 0, 0),
    S(dtype, "dtype", dtypes, 0, 0),
    S(products, "products", products, 0, 0),
    S(positions, "positions", NULL, 0, 16777216),
    S(logits, "logits", NULL, 0, 4194304),
    S(level, "level", levels, 0, 0),
    ROW(start_s, "start-s", NULL, 0, 86399, true),
#undef S
#undef ROW
};
enum { SETTINGS = sizeof table / sizeof *table };

static uint32_t *field(struct iq_settings *s, const struct setting *row)
{
    return (uint32_t *)((char *)s + row->at);
}

static uint32_t cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    if (sched_getaffinity(0, sizeof set, &set)) return 1;
    int n = CPU_COUNT(&set);
    return n < 1 ? 1 : n > 16 ? 16 : (uint32_t)n;
}

void iq_settings_init(struct iq_settings *s)
{
    *s = (struct iq_settings){.threads = cores(),
                              .tp = 1,
                              .expert_parallel = 1,
                              .batch = 8,
                              .prefix_min = IQ_KV_BLOCK,
                              .prefix_cache = 1,
                              .level = IQ_LEVEL_CHAIN};
}

static int find_word(const char *const *words, const char *word)
{
    for (int i = 0; words[i]; i++)
        if (!strcmp(words[i], word)) return i;
    return -1;
}

static int read_one(const cJSON *obj, const struct setting *row, const char *where, uint32_t *out,
                    struct iq_err *err)
{
    if (row->words == booleans) {
        bool b = *out;
        IQ_TRY(iq_json_bool_opt(obj, row->key, where, &b, err));
        *out = b;
    } else if (row->words) {
        const char *word = NULL;
        IQ_TRY(iq_json_str_opt(obj, row->key, where, &word, err));
        int i = word ? find_word(row->words, word) : (int)*out;
        if (i < 0) return iq_not_among(row->key, word, row->words, where, IQ_FORMAT, err);
        *out = (uint32_t)i;
    } else {
        uint64_t v = *out;
        IQ_TRY(iq_json_u64_opt(obj, row->key, (uint64_t)row->lo, (uint64_t)row->hi, where, &v, err));
        *out = (uint32_t)v;
    }
    return IQ_OK;
}

int iq_settings_json(const cJSON *obj, const char *where, struct iq_settings *s, struct iq_err *err)
{
    const char *known[SETTINGS + 1] = {0};
    for (int i = 0; i < SETTINGS; i++) known[i] = table[i].key;
    IQ_TRY(iq_json_known(obj, known, where, err));
    for (int i = 0; i < SETTINGS; i++) IQ_TRY(read_one(obj, &table[i], where, field(s, &table[i]), err));
    return IQ_OK;
}

static bool has_flag(const struct iq_call *call, const char *name)
{
    for (const struct iq_flag *f = call->command->flags; f->name; f++)
        if (!strcmp(f->name, name)) return true;
    return false;
}

void iq_settings_args(const struct iq_call *call, struct iq_settings *s)
{
    for (int i = 0; i < SETTINGS; i++) {
        const struct setting *row = &table[i];
        if (!has_flag(call, row->flag) || !iq_arg_given(call, row->flag)) continue;
        if (row->words == booleans)
            *field(s, row) = iq_arg_on(call, row->flag);
        else if (row->words)
            *field(s, row) = (uint32_t)find_word(row->words, iq_arg_str(call, row->flag));
        else
            *field(s, row) = (uint32_t)iq_arg_int(call, row->flag);
    }
}

void iq_settings_write(const struct iq_settings *s, struct iq_jw *w)
{
    iq_jw_begin(w, '{');
    for (int i = 0; i < SETTINGS; i++) {
        uint32_t v = *field((struct iq_settings *)s, &table[i]);
        if (table[i].late && !v) continue;
        iq_jw_key(w, table[i].key);
        if (table[i].words == booleans)
            iq_jw_bool(w, v);
        else if (table[i].words)
            iq_jw_str(w, table[i].words[v]);
        else
            iq_jw_u64(w, v);
    }
    iq_jw_end(w, '}');
}

void iq_settings_engine(const struct iq_settings *s, struct iq_engine_config *c)
{
    *c = (struct iq_engine_config){.threads = s->threads,
                                   .batch = s->batch,
                                   .chunk = s->chunk,
                                   .kv_blocks = s->kv_blocks,
                                   .start_s = s->start_s,
                                   .prefix_min = s->prefix_min,
                                   .prefix_cache = s->prefix_cache,
                                   .remote_kv = s->remote_kv,
                                   .defragment = s->defragment,
                                   .long_from = s->long_from,
                                   .captured = s->captured,
                                   .act = (enum iq_act)s->dtype,
                                   .device = devices[s->device],
                                   .isa = s->isa ? isas[s->isa] : NULL,
                                   .products = s->products ? products[s->products] : NULL,
                                   .level = (enum iq_level)s->level,
                                   .top = s->logits};
}

void iq_settings_model(const struct iq_settings *s, struct iq_model_options *o)
{
    *o = (struct iq_model_options){.tp = s->tp,
                                   .expert_parallel = s->expert_parallel,
                                   .threads = s->threads,
                                   .positions = s->positions,
                                   .long_factor = s->long_factor,
                                   .weights = true};
}

void iq_settings_arrivals(const struct iq_settings *s, struct iq_request *request, uint32_t n)
{
    uint64_t at = 0;
    if (!s->arrivals) return;
    float mean_us = 1e9f / (float)s->arrivals;
    for (uint32_t i = 0; i < n; i++) {
        float u = (float)((iq_draw(s->seed, i, IQ_DRAW_ARRIVAL) >> 40) + 1) * 0x1p-24f; /* (0, 1] */
        at += (uint64_t)(-iq_log(u) * mean_us);
        if (!request[i].arrive_us) request[i].arrive_us = at;
    }
}
