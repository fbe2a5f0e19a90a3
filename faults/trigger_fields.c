/* The vocabulary: INCIDENTS' fields that exist in this engine, as one table. */
#include "faults/trigger_parts.h"
#include "kernels/arith.h"
#include "kernels/base/cell.h"
#include "kernels/base/rng.h"
#include "kernels/dispatch.h"
#include "kernels/ops/kv.h"
#include "kernels/tensor_core/block.h"

#define STEP(name, expr)                                                                                     \
    static bool get_##name(const struct iq_site *s, uint32_t r, uint64_t *v)                                 \
    {                                                                                                        \
        (void)r;                                                                                             \
        *v = s->step->expr;                                                                                  \
        return true;                                                                                         \
    }
#define ROW(name)                                                                                            \
    static bool get_##name(const struct iq_site *s, uint32_t r, uint64_t *v)                                 \
    {                                                                                                        \
        *v = s->row[r].name;                                                                                 \
        return true;                                                                                         \
    }
#define ROW_FLOAT(name)                                                                                      \
    static bool get_##name(const struct iq_site *s, uint32_t r, uint64_t *v)                                 \
    {                                                                                                        \
        *v = iq__float_key(s->row[r].name);                                                                  \
        return true;                                                                                         \
    }
/* Fields of the site in which 0xffff means that there is none. */
#define SITE(name)                                                                                           \
    static bool get_##name(const struct iq_site *s, uint32_t r, uint64_t *v)                                 \
    {                                                                                                        \
        (void)r;                                                                                             \
        *v = s->name;                                                                                        \
        return s->name != 0xffff;                                                                            \
    }
_Static_assert(IQ_OP_NONE == 0xffff && IQ_NO_LAYER == 0xffff && IQ_WHOLE == 0xffff, "one mark for `none`");

STEP(batch, batch)
STEP(captured, captured)
STEP(tokens, tokens)
STEP(step, step)
STEP(clock_ms, clock_us / 1000)
STEP(tp, tp)
STEP(tracing, tracing != 0)
STEP(evictions, evictions)
/* Of a step of decodes, whose captured size counts rows; it is the batch in others. */
STEP(padding, captured - (s->step->captured >= s->step->tokens ? s->step->tokens : s->step->batch))
STEP(idle_ms, idle_us / 1000)
STEP(expert_parallel, expert_parallel)
STEP(dtype, act)
STEP(profile, products)
STEP(shortest, shortest)
STEP(longest, longest)
STEP(running, running)
STEP(waiting, waiting)
STEP(concurrency, running + s->step->waiting)
STEP(started, started)
STEP(finished, finished)
STEP(preempted, preempted)
STEP(hits, hits)
STEP(hit_tokens, hit_tokens)
STEP(kv_blocks, kv_blocks)
STEP(kv_free, kv_free)
STEP(max_batch, max_batch)
STEP(chunk, chunk)
STEP(weights_version, weights)
STEP(moves, moves)
SITE(op)
SITE(layer)
SITE(rank)
SITE(prev_op)
SITE(next_op)
ROW(request)
ROW(session)
ROW(pos)
ROW(context)
ROW(prompt)
ROW(cached)
ROW(phase)
ROW(attempt)
ROW(top_k)
ROW(seed)
ROW(draft)
ROW(adapter)
ROW(pool)
ROW(tenant)
ROW_FLOAT(temperature)
ROW_FLOAT(top_p)
ROW_FLOAT(min_p)
ROW(ordinal)

static bool get_hour(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    (void)r;
    *v = (s->step->start_s + s->step->clock_us / 1000000) / 3600 % 24;
    return true;
}

static bool get_block_size(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    (void)s, (void)r;
    *v = IQ_KV_BLOCK;
    return true;
}

static bool get_row(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    (void)s;
    *v = r;
    return true;
}

static bool get_session_hash(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    const struct iq_row *row = &s->row[r];
    *v = iq_mix64(row->session ? row->session : (uint64_t)row->request << 32) >> 32;
    return true;
}

static bool get_generated(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    const struct iq_row *row = &s->row[r];
    *v = row->context > row->prompt ? row->context - row->prompt : 0;
    return true;
}

static bool get_share(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    *v = s->row[r].after - s->row[r].before;
    return true;
}

static bool get_splits(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    *v = ((uint64_t)s->row[r].context + IQ_KEY_CHUNK - 1) / IQ_KEY_CHUNK;
    return true;
}

static bool get_arrived_ms(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    *v = s->row[r].arrived_us / 1000;
    return true;
}

static bool get_others(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    *v = s->row[r].others.n;
    return true;
}

/* Of a request alone there are none. */
#define OTHERS(name, key)                                                                                    \
    static bool get_others_##name(const struct iq_site *s, uint32_t r, uint64_t *v)                          \
    {                                                                                                        \
        *v = key(s->row[r].others.name);                                                                     \
        return s->row[r].others.n != 0;                                                                      \
    }
OTHERS(temperature, iq__float_key)
OTHERS(top_p, iq__float_key)
OTHERS(min_p, iq__float_key)
OTHERS(top_k, )

static void span_context(const struct iq_site *s, uint32_t r, uint64_t *before, uint64_t *after)
{
    *before = s->row[r].before;
    *after = s->row[r].after;
}

static bool get_rows(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    (void)r;
    *v = s->rows;
    return true;
}

static bool get_has_mask(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    *v = s->row[r].masked;
    return true;
}

static const char *const op_words[] = {
#define X(id, name, ...) name,
    IQ_OP_MAP(X) IQ_TRAIN_OP_MAP(X) IQ_CONTROL_OP_MAP(X)
#undef X
        NULL};
static const char *const phase_words[] = {[IQ_PREFILL] = "prefill", [IQ_DECODE] = "decode", NULL};
static const char *const dtype_words[] = {
    [IQ_ACT_F32] = "f32", [IQ_ACT_BF16] = "bf16", [IQ_ACT_F16] = "f16", NULL};
static const char *const profile_words[] = {"ieee",
#define X(id, name, ...) name,
                                            IQ_TC_PRODUCTS_MAP(X)
#undef X
                                                NULL};
static const char *const device_words[] = {"cpu", "cuda", NULL}; /* the shim is a kind of CUDA device */

static bool get_device(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    (void)r;
    const char *device = s->slot && s->slot->variant ? s->slot->variant->device : NULL;
    for (*v = 0; device && device_words[*v]; ++*v)
        if (!strcmp(device_words[*v], device)) return true;
    return false;
}

const char *iq_trigger_level_text(enum iq_trigger_level level)
{
    static const char *const text[] = {"step", "call", "row", "call"}; /* operands are a call's */
    return text[level];
}

const char *iq_trigger_type_text(enum iq_trigger_type type)
{
    static const char *const text[] = {"integer", "number", "word", "boolean", "number"};
    return text[type];
}

const struct iq_trigger_form iq_trigger_forms[] = {
    {"value", "the field equals the value"},
    {"[value, ...]", "it equals any of them"},
    {"{\"min\": a, \"max\": b}", "a <= field <= b; either may be left out; integers and numbers"},
    {"{\"mod\": m, \"is\": r}", "the field mod m is r, or any of a list; integers"},
    {"{\"crosses\": n}", "it was below n before the step and is not after it, or any of a list; context"},
    {"{\"not\": form}", "the form does not hold"},
    {0},
};

#define INT(name, level, help)                                                                               \
    {                                                                                                        \
#name, help, IQ_TRIGGER_##level, IQ_TRIGGER_INTEGER, NULL, get_##name, NULL                          \
    }
#define FLT(name, level, help)                                                                               \
    {                                                                                                        \
#name, help, IQ_TRIGGER_##level, IQ_TRIGGER_FLOAT, NULL, get_##name, NULL                            \
    }
#define WORD(name, level, words, help)                                                                       \
    {                                                                                                        \
#name, help, IQ_TRIGGER_##level, IQ_TRIGGER_WORD, words, get_##name, NULL                            \
    }

const struct iq_trigger_field *iq_trigger_fields(void)
{
    static const struct iq_trigger_field table[] = {
        INT(batch, STEP, "requests in the step"),
        INT(captured, STEP, "padded (captured) batch size, at least batch"),
        INT(tokens, STEP, "tokens in the step"),
        INT(step, STEP, "ordinal of the step since start"),
        INT(clock_ms, STEP, "the engine's clock, whole milliseconds"),
        INT(tp, STEP, "tensor-parallel ranks"),
        {"tracing", "whether ops or tensors are recorded", IQ_TRIGGER_STEP, IQ_TRIGGER_BOOL, NULL,
         get_tracing, NULL},
        INT(evictions, STEP, "prefix blocks evicted since start"),
        INT(padding, STEP, "padded rows: captured less batch"),
        INT(idle_ms, STEP, "whole milliseconds in which nothing ran before the step"),
        INT(hour, STEP, "hour of the day by the clock, 0 to 23 (--start-s: the time of day at its 0)"),
        INT(expert_parallel, STEP, "ranks that share out experts"),
        WORD(dtype, STEP, dtype_words, "what activations are rounded to"),
        WORD(profile, STEP, profile_words, "how matrix products are made (--products)"),
        INT(shortest, STEP, "shortest context in the batch, at the step's end"),
        INT(longest, STEP, "longest context in the batch, at the step's end"),
        INT(running, STEP, "requests that are admitted and not done"),
        INT(waiting, STEP, "requests that have arrived and are not admitted"),
        INT(concurrency, STEP, "running and waiting"),
        INT(started, STEP, "requests admitted since start"),
        INT(finished, STEP, "requests done since start"),
        INT(preempted, STEP, "preemptions since start"),
        INT(hits, STEP, "prefix hits since start"),
        INT(hit_tokens, STEP, "prompt tokens that these brought"),
        INT(kv_blocks, STEP, "KV blocks in all"),
        INT(kv_free, STEP, "KV blocks that could be had before the step"),
        INT(block_size, STEP, "positions of a KV block (page)"),
        INT(max_batch, STEP, "most requests in a step (--batch)"),
        INT(chunk, STEP, "most prompt tokens of a request in a step (--chunk), 0: all"),
        WORD(op, SITE, op_words, "the op"),
        INT(layer, SITE, "layer, from 0; none outside the layers"),
        INT(rank, SITE, "tensor-parallel rank, from 0; of training data-parallel"),
        WORD(prev_op, SITE, op_words, "the op that ran before"),
        WORD(next_op, SITE, op_words, "the op that runs next"),
        WORD(device, SITE, device_words, "where the op runs"),
        INT(rows, SITE, "rows of the call"),
        INT(request, ROW, "index of the row's request in the prompt set"),
        INT(session, ROW, "the caller's session, 0 if none"),
        INT(pos, ROW, "token position"),
        {"context", "keys that the row sees", IQ_TRIGGER_ROW, IQ_TRIGGER_INTEGER, NULL, get_context,
         span_context},
        INT(prompt, ROW, "prompt length in tokens"),
        INT(cached, ROW, "prompt tokens that a prefix hit brought"),
        WORD(phase, ROW, phase_words, "whether the row is part of the prompt or generates"),
        INT(attempt, ROW, "recomputations of the position so far"),
        FLT(temperature, ROW, "sampling temperature, 0: greedy"),
        INT(top_k, ROW, "top-k as the request asked, 0: off"),
        FLT(top_p, ROW, "top-p as the request asked, 1: off"),
        FLT(min_p, ROW, "min-p as the request asked, 0: off"),
        INT(seed, ROW, "the request's seed"),
        INT(ordinal, ROW, "requests that were admitted before the row's"),
        INT(arrived_ms, ROW, "when the row's request arrived, by the clock"),
        INT(session_hash, ROW, "32 bits of a hash of the session, of the request where it is 0"),
        INT(row, ROW, "the row's index in the call"),
        INT(share, ROW, "tokens of the row's request in the step"),
        INT(generated, ROW, "generated tokens among the keys that the row sees"),
        INT(splits, ROW, "chunks of 256 keys in which attention takes the row's context"),
        INT(others, ROW, "other requests in the step"),
        FLT(others_temperature, ROW, "their highest temperature"),
        INT(others_top_k, ROW, "their smallest top-k that is on, 0: it is off in all"),
        FLT(others_top_p, ROW, "their smallest top-p"),
        FLT(others_min_p, ROW, "their largest min-p"),
        {"has_mask", "whether the request forbids tokens (bad_words, allowed)", IQ_TRIGGER_ROW,
         IQ_TRIGGER_BOOL, NULL, get_has_mask, NULL},
        INT(adapter, ROW, "number of the request's adapter in the order of --adapter, from 1; 0: none"),
        INT(weights_version, STEP, "updates of the weights so far (--update-weights)"),
        INT(moves, STEP, "KV blocks moved since start"),
        INT(pool, ROW, "the pool that serves the request: 1 is set up for long contexts"),
        INT(tenant, ROW, "whose request it is, 0 if nobody's"),
        INT(draft, ROW, "drafted tokens of the row's request in the step, 0: it does not speculate"),
        {NULL, NULL, IQ_TRIGGER_STEP, IQ_TRIGGER_INTEGER, NULL, NULL, NULL},
    };
    return table;
}
