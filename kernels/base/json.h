/* Strict JSON over cJSON, which alone accepts too much and prints too little.
 *
 * Reading: RFC 8259 to the letter. Refused, with line and column (in bytes): trailing bytes, leading zeros, bad UTF-8, lone
 * surrogates, control characters in strings, duplicate keys, nesting above 64, \u0000. A number that is no finite
 * double is refused. Integers are taken only when exact (|n| <= 2^53); larger ones and bits travel as hex strings.
 * Ownership: iq_json_parse gives a tree that iq_json_free takes; what the getters return is borrowed from it.
 * Getters name the field in their errors; `where` is what the object is called ("plan.json: faults[2]").
 */
#ifndef IQ_BASE_JSON_H
#define IQ_BASE_JSON_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

int iq_json_parse(const char *text, size_t len, const char *name, cJSON **out, struct iq_err *err);
/* Reads a whole file, at most `max` bytes. */
int iq_json_load(const char *path, size_t max, cJSON **out, struct iq_err *err);
void iq_json_free(cJSON *);

/* Members. `_opt` forms leave *out as it was when the field is absent (or null). */
int iq_json_u64(const cJSON *obj, const char *key, uint64_t lo, uint64_t hi, const char *where, uint64_t *out,
                struct iq_err *err);
int iq_json_u64_opt(const cJSON *obj, const char *key, uint64_t lo, uint64_t hi, const char *where,
                    uint64_t *out, struct iq_err *err);
int iq_json_f64_opt(const cJSON *obj, const char *key, double lo, double hi, const char *where, double *out,
                    struct iq_err *err);
int iq_json_bool_opt(const cJSON *obj, const char *key, const char *where, bool *out, struct iq_err *err);
int iq_json_str(const cJSON *obj, const char *key, const char *where, const char **out, struct iq_err *err);
int iq_json_str_opt(const cJSON *obj, const char *key, const char *where, const char **out,
                    struct iq_err *err);
/* An item itself as an exact integer in [lo, hi]. */
int iq_json_item_u64(const cJSON *item, uint64_t lo, uint64_t hi, const char *where, uint64_t *out,
                     struct iq_err *err);
/* IQ_FORMAT when `obj` is no object or has a key that is not among `known` (NULL-terminated); lists the known and
 * the nearest spelling. */
int iq_json_known(const cJSON *obj, const char *const *known, const char *where, struct iq_err *err);
/* The nearest of the NULL-terminated `known` to `word` by edit distance (two neighbours swapped are
 * one edit), or NULL if none is near. */
const char *iq_nearest(const char *word, const char *const *known);
/* Fails with `status`: no `what` is named `found`; names the nearest of the NULL-terminated `known`, and lists them. */
int iq_not_among(const char *what, const char *found, const char *const *known, const char *where, int status,
                 struct iq_err *err);

/* In cJSON.type, above the bits that cJSON looks at: the literal was mathematically an integer of at most 2^53. Set by
 * the parser, read by the getters. */
enum { IQ__JSON_EXACT = 1 << 16 };

/* Writing: a small writer into a buffer; commas are its business. Numbers: integers exactly, doubles so that they
 * read back equal (%.17g shortened), float32 as %.9g; NaN and infinities become null. Strings are escaped; bytes
 * that are no UTF-8 become U+FFFD. */
struct iq_jw {
    struct iq_buf *buf;
    uint64_t first; /* bit d: nothing yet written at depth d */
    int depth;
    int after_key;
};
#define IQ_JW(buffer) ((struct iq_jw){.buf = (buffer), .first = 1})
void iq_jw_begin(struct iq_jw *, char bracket); /* '{' or '[' */
void iq_jw_end(struct iq_jw *, char bracket);   /* '}' or ']' */
void iq_jw_key(struct iq_jw *, const char *key);
void iq_jw_str(struct iq_jw *, const char *s); /* NULL writes null */
void iq_jw_strn(struct iq_jw *, const char *s, size_t n);
void iq_jw_u64(struct iq_jw *, uint64_t);
void iq_jw_i64(struct iq_jw *, int64_t);
void iq_jw_f64(struct iq_jw *, double);
void iq_jw_f32(struct iq_jw *, float);
void iq_jw_bool(struct iq_jw *, bool);
void iq_jw_null(struct iq_jw *);
void iq_jw_hex(struct iq_jw *, uint64_t hi, uint64_t lo); /* 32 hex digits as a string */
void iq_jw_raw(struct iq_jw *, const char *json);         /* a value that is JSON already */

#endif
