/* The vocabulary: INCIDENTS' fields that exist in this engine, as one table. */
#include "faults/trigger_parts.h"
#include "kernels/base/cell.h"
#include "kernels/dispatch.h"

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
STEP(weights_version, weights)
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
ROW(adapter)
ROW_FLOAT(temperature)
ROW_FLOAT(top_p)
ROW_FLOAT(min_p)

static bool get_rows(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    (void)r;
    *v = s->rows;
    return true;
}

/* Of the row before this one in the call, where that is another request's. */
#define NEIGHBOUR(name, value)                                                                               \
    static bool get_neighbour_##name(const struct iq_site *s, uint32_t r, uint64_t *v)                       \
    {                                                                                                        \
        if (!r || s->row[r - 1].request == s->row[r].request) return false;                                  \
        *v = (value);                                                                                        \
        return true;                                                                                         \
    }
NEIGHBOUR(temperature, iq__float_key(s->row[r - 1].temperature))
NEIGHBOUR(top_k, s->row[r - 1].top_k)
NEIGHBOUR(top_p, iq__float_key(s->row[r - 1].top_p))
NEIGHBOUR(min_p, iq__float_key(s->row[r - 1].min_p))
NEIGHBOUR(has_mask, s->row[r - 1].masked)
NEIGHBOUR(adapter, s->row[r - 1].adapter)

static bool get_has_mask(const struct iq_site *s, uint32_t r, uint64_t *v)
{
    *v = s->row[r].masked;
    return true;
}

static const char *const op_words[] = {
#define X(id, name, ...) name,
    IQ_OP_MAP(X) IQ_TRAIN_OP_MAP(X)
#undef X
        NULL};
static const char *const phase_words[] = {[IQ_PREFILL] = "prefill", [IQ_DECODE] = "decode", NULL};
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
    static const char *const text[] = {"integer", "number", "word", "boolean"};
    return text[type];
}

const struct iq_trigger_form iq_trigger_forms[] = {
    {"value", "the field equals the value"},
    {"[value, ...]", "it equals any of them"},
    {"{\"min\": a, \"max\": b}", "a <= field <= b; either may be left out; integers and numbers"},
    {"{\"mod\": m, \"is\": r}", "the field mod m is r, or any of a list; integers"},
    {"{\"not\": form}", "the form does not hold"},
    {0},
};

#define INT(name, level, help)                                                                               \
    {                                                                                                        \
#name, help, IQ_TRIGGER_##level, IQ_TRIGGER_INTEGER, NULL, get_##name                                \
    }
#define FLT(name, level, help)                                                                               \
    {                                                                                                        \
#name, help, IQ_TRIGGER_##level, IQ_TRIGGER_FLOAT, NULL, get_##name                                  \
    }
#define WORD(name, level, words, help)                                                                       \
    {                                                                                                        \
#name, help, IQ_TRIGGER_##level, IQ_TRIGGER_WORD, words, get_##name                                  \
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
         get_tracing},
        INT(evictions, STEP, "prefix blocks evicted since start"),
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
        INT(context, ROW, "keys that the row sees"),
        INT(prompt, ROW, "prompt length in tokens"),
        INT(cached, ROW, "prompt tokens that a prefix hit brought"),
        WORD(phase, ROW, phase_words, "whether the row is part of the prompt or generates"),
        INT(attempt, ROW, "recomputations of the position so far"),
        FLT(temperature, ROW, "sampling temperature, 0: greedy"),
        INT(top_k, ROW, "top-k as the request asked, 0: off"),
        FLT(top_p, ROW, "top-p as the request asked, 1: off"),
        FLT(min_p, ROW, "min-p as the request asked, 0: off"),
        INT(seed, ROW, "the request's seed"),
        {"has_mask", "whether the request forbids tokens (bad_words, allowed)", IQ_TRIGGER_ROW,
         IQ_TRIGGER_BOOL, NULL, get_has_mask},
        FLT(neighbour_temperature, ROW, "temperature of the row before, where another request has it"),
        INT(neighbour_top_k, ROW, "top-k of the row before, likewise"),
        FLT(neighbour_top_p, ROW, "top-p of the row before, likewise"),
        FLT(neighbour_min_p, ROW, "min-p of the row before, likewise"),
        INT(adapter, ROW, "number of the request's adapter in the order of --adapter, from 1; 0: none"),
        INT(neighbour_adapter, ROW, "that of the row before, where another request has it"),
        INT(weights_version, STEP, "updates of the weights so far"),
        {"neighbour_has_mask", "whether the row before forbids tokens, likewise", IQ_TRIGGER_ROW,
         IQ_TRIGGER_BOOL, NULL, get_neighbour_has_mask},
        {NULL, NULL, IQ_TRIGGER_STEP, IQ_TRIGGER_INTEGER, NULL, NULL},
    };
    return table;
}
