/* Typed members of parsed JSON, and what was probably meant by an unknown one. */
#include "kernels/base/json.h"

#include <stdio.h>
#include <string.h>

static const cJSON *member(const cJSON *obj, const char *key)
{
    const cJSON *item = cJSON_IsObject(obj) ? cJSON_GetObjectItemCaseSensitive(obj, key) : NULL;
    return item && !cJSON_IsNull(item) ? item : NULL;
}

static const char *kind(const cJSON *item)
{
    return cJSON_IsNumber(item)   ? "a number"
           : cJSON_IsString(item) ? "a string"
           : cJSON_IsBool(item)   ? "a boolean"
           : cJSON_IsArray(item)  ? "an array"
           : cJSON_IsObject(item) ? "an object"
                                  : "null";
}

static int wrong_kind(const cJSON *item, const char *where, const char *key, const char *want,
                      struct iq_err *err)
{
    if (!item) return iq_fail(err, IQ_FORMAT, "%s: `%s` is missing, expected %s", where, key, want);
    return iq_fail(err, IQ_FORMAT, "%s: `%s`: found %s, expected %s", where, key, kind(item), want);
}

static int integer(const cJSON *item, uint64_t lo, uint64_t hi, const char *where, uint64_t *out,
                   struct iq_err *err)
{
    if (!cJSON_IsNumber(item))
        return iq_fail(err, IQ_FORMAT, "%s: found %s, expected an integer", where, kind(item));
    double v = item->valuedouble;
    if (!(item->type & IQ__JSON_EXACT))
        return iq_fail(err, IQ_FORMAT, "%s: found %.17g, expected an exact integer of at most 2^53", where,
                       v);
    if (v < 0 || (uint64_t)v < lo || (uint64_t)v > hi)
        return iq_fail(err, IQ_FORMAT, "%s: found %.17g, expected an integer from %llu to %llu", where, v,
                       (unsigned long long)lo, (unsigned long long)hi);
    *out = (uint64_t)v;
    return IQ_OK;
}

int iq_json_item_u64(const cJSON *item, uint64_t lo, uint64_t hi, const char *where, uint64_t *out,
                     struct iq_err *err)
{
    *out = 0;
    return integer(item, lo, hi, where, out, err);
}

int iq_json_u64_opt(const cJSON *obj, const char *key, uint64_t lo, uint64_t hi, const char *where,
                    uint64_t *out, struct iq_err *err)
{
    const cJSON *item = member(obj, key);
    if (!item) return IQ_OK;
    char full[320];
    snprintf(full, sizeof full, "%s: `%s`", where, key);
    return integer(item, lo, hi, full, out, err);
}

int iq_json_u64(const cJSON *obj, const char *key, uint64_t lo, uint64_t hi, const char *where, uint64_t *out,
                struct iq_err *err)
{
    *out = 0;
    if (!member(obj, key)) return wrong_kind(NULL, where, key, "an integer", err);
    return iq_json_u64_opt(obj, key, lo, hi, where, out, err);
}

int iq_json_f64_opt(const cJSON *obj, const char *key, double lo, double hi, const char *where, double *out,
                    struct iq_err *err)
{
    const cJSON *item = member(obj, key);
    if (!item) return IQ_OK;
    if (!cJSON_IsNumber(item)) return wrong_kind(item, where, key, "a number", err);
    double v = item->valuedouble;
    if (!(v >= lo && v <= hi))
        return iq_fail(err, IQ_FORMAT, "%s: `%s`: found %.17g, expected a number from %.17g to %.17g", where,
                       key, v, lo, hi);
    *out = v;
    return IQ_OK;
}

int iq_json_bool_opt(const cJSON *obj, const char *key, const char *where, bool *out, struct iq_err *err)
{
    const cJSON *item = member(obj, key);
    if (!item) return IQ_OK;
    if (!cJSON_IsBool(item)) return wrong_kind(item, where, key, "true or false", err);
    *out = cJSON_IsTrue(item);
    return IQ_OK;
}

int iq_json_str_opt(const cJSON *obj, const char *key, const char *where, const char **out,
                    struct iq_err *err)
{
    const cJSON *item = member(obj, key);
    if (!item) return IQ_OK;
    if (!cJSON_IsString(item)) return wrong_kind(item, where, key, "a string", err);
    *out = item->valuestring;
    return IQ_OK;
}

int iq_json_str(const cJSON *obj, const char *key, const char *where, const char **out, struct iq_err *err)
{
    *out = NULL;
    if (!member(obj, key)) return wrong_kind(NULL, where, key, "a string", err);
    return iq_json_str_opt(obj, key, where, out, err);
}

/* Edits from a to b: a character more, less or another, or two neighbours swapped. At most LONGEST bytes each. */
enum { LONGEST = 63 };
static size_t edits(const char *a, size_t n, const char *b, size_t m)
{
    size_t cost[3][LONGEST + 1]; /* of the last three prefixes of a, by prefix of b */
    for (size_t j = 0; j <= m; j++) cost[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *row = cost[i % 3], *above = cost[(i + 2) % 3], *two_above = cost[(i + 1) % 3];
        row[0] = i;
        for (size_t j = 1; j <= m; j++) {
            size_t best = above[j - 1] + (a[i - 1] != b[j - 1]);
            if (above[j] + 1 < best) best = above[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && two_above[j - 2] + 1 < best)
                best = two_above[j - 2] + 1;
            row[j] = best;
        }
    }
    return cost[n % 3][m];
}

const char *iq_nearest(const char *wrong, const char *const *known)
{
    size_t n = strlen(wrong), best_cost = (n / 3 > 1 ? n / 3 : 1) + 1;
    const char *best = NULL;
    for (; n <= LONGEST && *known; known++) {
        size_t m = strlen(*known), cost = m > LONGEST ? best_cost : edits(wrong, n, *known, m);
        if (cost >= best_cost) continue;
        best_cost = cost;
        best = *known;
    }
    return best;
}

/* As many names as a sentence holds, and how many more there are. */
static void list_names(const char *const *known, struct iq_buf *list)
{
    enum { HELD = 400 };
    size_t n = 0, more = 0;
    for (; known[n] && list->len + strlen(known[n]) < HELD; n++)
        iq_buf_printf(list, "%s%s", n ? ", " : "", known[n]);
    while (known[n + more]) more++;
    if (more) iq_buf_printf(list, " and %zu more", more);
    if (!n) iq_buf_printf(list, "none");
}

int iq_not_among(const char *what, const char *found, const char *const *known, const char *where, int status,
                 struct iq_err *err)
{
    struct iq_buf list = IQ_BUF(500);
    list_names(known, &list);
    const char *near = iq_nearest(found, known);
    iq_fail(err, status, "%s: no %s is named \"%.60s\"%s%s%s; known are %s", where, what, found,
            near ? ", did you mean \"" : "", near ? near : "", near ? "\"?" : "", list.data ? list.data : "");
    iq_buf_free(&list);
    return status;
}

int iq_json_known(const cJSON *obj, const char *const *known, const char *where, struct iq_err *err)
{
    if (!obj) return iq_fail(err, IQ_FORMAT, "%s: is missing, expected an object", where);
    if (!cJSON_IsObject(obj))
        return iq_fail(err, IQ_FORMAT, "%s: found %s, expected an object", where, kind(obj));
    const cJSON *item;
    cJSON_ArrayForEach(item, obj)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], item->string)) i++;
        if (known[i]) continue;
        struct iq_buf list = IQ_BUF(500);
        list_names(known, &list);
        const char *near = iq_nearest(item->string, known);
        int status = iq_fail(err, IQ_FORMAT, "%s: unknown key `%.60s`%s%s%s; known are %s", where,
                             item->string, near ? ", did you mean `" : "", near ? near : "", near ? "`?" : "",
                             list.data ? list.data : "");
        iq_buf_free(&list);
        return status;
    }
    return IQ_OK;
}
