/* The trigger language: the `when` of a fault, a predicate over the site (kernels/site.h) and the rows of a
 * call.
 *
 * A JSON object; every field must hold (AND); the empty object always holds. A field is tested by one of
 *     value                       equals
 *     [value, ...]                equals any of them
 *     {"min": a, "max": b}        a <= field <= b; either may be absent
 *     {"mod": m, "is": value}     field mod m equals the value, or any of a list
 *     {"crosses": n}              it was below n when the step began and is not when it ends; or any of a list
 *     {"not": form}               none of the above hold
 * e.g. {"op": "topk", "batch": [3, 7], "tokens": {"min": 8}, "pos": {"mod": 16, "is": 0}, "tracing": false}
 *
 * Types: integers are exact (at most 2^53 as a number, up to 2^64 - 1 as a string "0x..."); float32 fields
 * (temperature, top_p, min_p) compare with the number rounded to float32; op, prev_op, next_op, phase and
 * device are words; tracing is true or false. min, max and mod are for numbers (mod: integers) only, crosses
 * for context. A field that has no value at a site (layer outside the layers, prev_op of the first op) equals
 * nothing: every form but `not` fails on it. Fields of level `row` choose rows; all others decide for the whole
 * call. The operand dims of a kind (iq_kind.fields) are fields named arg.NAME, what it can tell of its numbers
 * (iq_kind.values) those named value.NAME. An unknown field, word or key is IQ_FORMAT; the sentence lists what
 * is known and the nearest spelling.
 */
#ifndef IQ_TRIGGER_H
#define IQ_TRIGGER_H

#include "kernels/base/json.h"
#include "kernels/op.h"

enum iq_trigger_level { IQ_TRIGGER_STEP, IQ_TRIGGER_SITE, IQ_TRIGGER_ROW, IQ_TRIGGER_ARGS };
/* NUMBER is a double, which only values are. */
enum iq_trigger_type {
    IQ_TRIGGER_INTEGER,
    IQ_TRIGGER_FLOAT,
    IQ_TRIGGER_WORD,
    IQ_TRIGGER_BOOL,
    IQ_TRIGGER_NUMBER
};

/* One field of the vocabulary, for listings and help. */
struct iq_trigger_field {
    const char *name, *help;
    enum iq_trigger_level level;
    enum iq_trigger_type type;
    const char *const *words; /* NULL-terminated; words only */
    /* The value at a site, for row r; false: the field has none here. Floats come as ordered keys. */
    bool (*get)(const struct iq_site *, uint32_t r, uint64_t *value);
    /* What it is for row r's request as the step begins and as it ends; NULL: nothing to cross. */
    void (*span)(const struct iq_site *, uint32_t r, uint64_t *before, uint64_t *after);
};

const char *iq_trigger_level_text(enum iq_trigger_level);
const char *iq_trigger_type_text(enum iq_trigger_type);
/* The forms of a test, for help: how it is written, what it means, what it is for. `form` NULL ends. */
struct iq_trigger_form {
    const char *form, *help;
};
extern const struct iq_trigger_form iq_trigger_forms[];
/* The whole vocabulary in canonical order; name NULL ends. Fields of level ARGS are not in it: they belong
 * to kinds, as values do. */
const struct iq_trigger_field *iq_trigger_fields(void);

struct iq_when;

/* `kind`: whose arg.* and value.* fields may be used; NULL: none. `when` NULL or JSON null: always. `where` names the
 * object in errors ("plan.json: faults[2].when"). */
int iq_trigger_parse(const cJSON *when, const char *where, const struct iq_kind *kind, struct iq_when **out,
                     struct iq_err *err);
void iq_trigger_free(struct iq_when *);

/* False: no call of this op can ever satisfy it. */
bool iq_trigger_may(const struct iq_when *, enum iq_op_id op);
/* Whether all fields above row level hold. */
bool iq_trigger_call(const struct iq_when *, const struct iq_site *, const void *args);
bool iq_trigger_has_rows(const struct iq_when *);
/* Whether all fields of row level hold for row r of the call. */
bool iq_trigger_row(const struct iq_when *, const struct iq_site *, const void *args, uint32_t r);
/* A field that reads an operand's elements, which the host can't on a device: its name without "value."; or NULL. */
const char *iq_trigger_reads(const struct iq_when *);

/* Of the calls that asked: in how many it held, and in how many each of its tests did (for some row, where it chooses
 * rows). For a trigger that never holds: which test is to blame. */
struct iq_tally {
    uint64_t calls, met, held[];
};
struct iq_tally *iq_tally_open(const struct iq_when *); /* NULL: no memory; free() */
void iq_trigger_tally(const struct iq_when *, const struct iq_site *, const void *args, struct iq_tally *);
/* "of 96 calls, tokens mod 2 is 1 in 48 and context is at least 301 in none, never all at once". */
void iq_trigger_say_tally(const struct iq_when *, const struct iq_tally *, struct iq_buf *);

/* Appends a sentence ("when batch is 3 or 7, and tracing is false", "always"). Check buf->failed. */
void iq_trigger_explain(const struct iq_when *, struct iq_buf *);
/* Writes the canonical JSON: fields in the vocabulary's order, lists sorted without repeats, double `not`s
 * gone. Equal predicates written in the same forms give equal text. */
void iq_trigger_json(const struct iq_when *, struct iq_jw *);

#endif
