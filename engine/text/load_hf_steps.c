/* tokenizer.json's normalizer, pre_tokenizer and decoder: trees of components, flattened into lists of steps.
 */
#include "engine/text/tokenizer_parts.h"
#include "kernels/base/utf8.h"

#include <stdio.h>
#include <string.h>
#include <utf8proc.h>

enum { TREE_DEPTH = 64, MOST_STEPS = 256 };

typedef int load_step(const cJSON *, const char *where, struct iq__steps *, struct iq_err *);

struct kind {
    const char *type;
    load_step *load;
};

static int add_rewrite(struct iq__steps *steps, iq__rewrite *rewrite, struct iq__step **out,
                       struct iq_err *err)
{
    IQ_TRY(iq__steps_add(steps, out, err));
    (*out)->rewrite = rewrite;
    return IQ_OK;
}

/* A step with no parameters. */
#define PLAIN(name, rewriter, set)                                                                           \
    static int name(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)          \
    {                                                                                                        \
        struct iq__step *st;                                                                                 \
        (void)c, (void)where;                                                                                \
        IQ_TRY(add_rewrite(steps, rewriter, &st, err));                                                      \
        set;                                                                                                 \
        return IQ_OK;                                                                                        \
    }
PLAIN(load_nfc, iq__rewrite_form, st->form = UTF8PROC_STABLE | UTF8PROC_COMPOSE)
PLAIN(load_nfd, iq__rewrite_form, st->form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE)
PLAIN(load_nfkc, iq__rewrite_form, st->form = UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT)
PLAIN(load_nfkd, iq__rewrite_form, st->form = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT)
PLAIN(load_lower, iq__rewrite_lower, (void)st)
PLAIN(load_accents, iq__rewrite_accents, (void)st)
PLAIN(load_byte_map, iq__rewrite_byte_map, (void)st)
PLAIN(load_decode_byte_map, iq__decode_byte_map, (void)st)
PLAIN(load_decode_bytes, iq__decode_bytes, (void)st)
PLAIN(load_fuse, NULL, (void)st)

/* {"String": s} or {"Regex": r} of field `key`. */
static int load_pattern(const cJSON *c, const char *key, const char *where, struct iq__step *st,
                        struct iq_err *err)
{
    const cJSON *pattern = cJSON_GetObjectItemCaseSensitive(c, key);
    const cJSON *text = cJSON_GetObjectItemCaseSensitive(pattern, "String");
    const cJSON *regex = cJSON_GetObjectItemCaseSensitive(pattern, "Regex");
    if (cJSON_IsString(pattern)) text = pattern; /* an older way to write a string */
    if (cJSON_IsString(regex))
        return iq__regex_new(regex->valuestring, strlen(regex->valuestring), where, &st->regex, err);
    if (!cJSON_IsString(text))
        return iq_fail(err, IQ_FORMAT, "%s: field %s: expected {\"String\": ...} or {\"Regex\": ...}", where,
                       key);
    if (!*text->valuestring) return iq__regex_new("", 0, where, &st->regex, err);
    return iq__step_text(&st->find, &st->find_len, text->valuestring, strlen(text->valuestring), err);
}

static int load_prepend(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st;
    const char *text;
    IQ_TRY(iq_json_str(c, "prepend", where, &text, err));
    IQ_TRY(add_rewrite(steps, iq__rewrite_prepend, &st, err));
    return iq__step_text(&st->put, &st->put_len, text, strlen(text), err);
}

static int load_replace(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st;
    const char *text;
    IQ_TRY(iq_json_str(c, "content", where, &text, err));
    IQ_TRY(add_rewrite(steps, iq__rewrite_replace, &st, err));
    IQ_TRY(iq__step_text(&st->put, &st->put_len, text, strlen(text), err));
    return load_pattern(c, "pattern", where, st, err);
}

static int load_strip(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st;
    IQ_TRY(add_rewrite(steps, iq__rewrite_strip, &st, err));
    st->left = st->right = true;
    IQ_TRY(iq_json_bool_opt(c, "strip_left", where, &st->left, err));
    return iq_json_bool_opt(c, "strip_right", where, &st->right, err);
}

static int load_behavior(const cJSON *c, const char *where, enum iq__behavior fallback,
                         enum iq__behavior *out, struct iq_err *err)
{
    static const char *const names[] = {"Isolated", "Removed", "MergedWithPrevious", "MergedWithNext",
                                        "Contiguous"};
    const char *name = NULL;
    *out = fallback;
    IQ_TRY(iq_json_str_opt(c, "behavior", where, &name, err));
    if (!name) return IQ_OK;
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return *out = (enum iq__behavior)i, IQ_OK;
    return iq_fail(err, IQ_UNSUPPORTED,
                   "%s: behavior '%.40s': expected Isolated, Removed, MergedWithPrevious, MergedWithNext or "
                   "Contiguous",
                   where, name);
}

static int load_split(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st;
    IQ_TRY(iq__steps_add(steps, &st, err));
    st->split = iq__split_pattern;
    IQ_TRY(load_behavior(c, where, IQ__ISOLATED, &st->behavior, err));
    IQ_TRY(iq_json_bool_opt(c, "invert", where, &st->invert, err));
    return load_pattern(c, "pattern", where, st, err);
}

static int load_byte_level(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    bool space = true, regex = true;
    struct iq__step *st;
    IQ_TRY(iq_json_bool_opt(c, "add_prefix_space", where, &space, err));
    IQ_TRY(iq_json_bool_opt(c, "use_regex", where, &regex, err));
    if (space) {
        IQ_TRY(add_rewrite(steps, iq__rewrite_prepend, &st, err));
        st->not_first = true;
        IQ_TRY(iq__step_text(&st->put, &st->put_len, " ", 1, err));
    }
    if (regex) IQ_TRY(iq__steps_add_split(steps, iq__pattern_gpt2, IQ__ISOLATED, false, err));
    return add_rewrite(steps, iq__rewrite_byte_map, &st, err);
}

static int load_digits(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    bool each = false;
    IQ_TRY(iq_json_bool_opt(c, "individual_digits", where, &each, err));
    return iq__steps_add_split(steps, "\\p{N}", each ? IQ__ISOLATED : IQ__CONTIGUOUS, false, err);
}

static int load_whitespace(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    (void)c, (void)where;
    /* Rust's \w has the joiners too, which Oniguruma's has not */
    return iq__steps_add_split(steps, "[\\w\\p{Join_Control}]+|[^\\w\\s\\p{Join_Control}]+", IQ__REMOVED,
                               true, err);
}

static int load_whitespace_split(const cJSON *c, const char *where, struct iq__steps *steps,
                                 struct iq_err *err)
{
    (void)c, (void)where;
    return iq__steps_add_split(steps, "\\s", IQ__REMOVED, false, err);
}

static const char punctuation[] = "[\\p{P}$+<=>^`|~]";

static int load_punctuation(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    enum iq__behavior behavior;
    IQ_TRY(load_behavior(c, where, IQ__ISOLATED, &behavior, err));
    return iq__steps_add_split(steps, punctuation, behavior, false, err);
}

static int load_bert(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    IQ_TRY(load_whitespace_split(c, where, steps, err));
    return iq__steps_add_split(steps, punctuation, IQ__ISOLATED, false, err);
}

static int load_delimiter(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st;
    const char *text;
    IQ_TRY(iq_json_str(c, "delimiter", where, &text, err));
    IQ_TRY(iq__steps_add(steps, &st, err));
    st->split = iq__split_pattern;
    st->behavior = IQ__REMOVED;
    return iq__step_text(&st->find, &st->find_len, text, strlen(text), err);
}

/* Fields that the splitter and the decoder share: *scheme is always, first or never. */
static int metaspace_fields(const cJSON *c, const char *where, struct iq__step *st, struct iq_err *err)
{
    const char *mark = "\xe2\x96\x81", *scheme = NULL;
    bool space = true;
    uint32_t cp;
    IQ_TRY(iq_json_str_opt(c, "replacement", where, &mark, err));
    IQ_TRY(iq_json_str_opt(c, "prepend_scheme", where, &scheme, err));
    IQ_TRY(iq_json_bool_opt(c, "add_prefix_space", where, &space, err));
    if (!*mark || iq_utf8_next(mark, strlen(mark), &cp) != (int)strlen(mark))
        return iq_fail(err, IQ_FORMAT, "%s: replacement '%.40s': expected one character", where, mark);
    if (!scheme) scheme = space ? "always" : "never";
    st->left = strcmp(scheme, "never") != 0;
    st->only_first = !strcmp(scheme, "first");
    if (st->left && !st->only_first && strcmp(scheme, "always") != 0)
        return iq_fail(err, IQ_UNSUPPORTED, "%s: prepend_scheme '%.40s': expected always, first or never",
                       where, scheme);
    return iq__step_text(&st->put, &st->put_len, mark, strlen(mark), err);
}

static int load_metaspace(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st, *split;
    bool cut = true;
    IQ_TRY(add_rewrite(steps, iq__rewrite_metaspace, &st, err));
    IQ_TRY(metaspace_fields(c, where, st, err));
    IQ_TRY(iq_json_bool_opt(c, "split", where, &cut, err));
    if (!cut) return IQ_OK;
    IQ_TRY(iq__steps_add(steps, &split, err));
    split->split = iq__split_pattern;
    split->behavior = IQ__WITH_NEXT;
    st = &steps->step[steps->n - 2]; /* the list may have moved */
    return iq__step_text(&split->find, &split->find_len, st->put, st->put_len, err);
}

static int load_decode_metaspace(const cJSON *c, const char *where, struct iq__steps *steps,
                                 struct iq_err *err)
{
    struct iq__step *st;
    IQ_TRY(add_rewrite(steps, iq__decode_metaspace, &st, err));
    return metaspace_fields(c, where, st, err);
}

static int load_decode_strip(const cJSON *c, const char *where, struct iq__steps *steps, struct iq_err *err)
{
    struct iq__step *st;
    const char *text;
    uint64_t start, stop;
    IQ_TRY(iq_json_str(c, "content", where, &text, err));
    IQ_TRY(iq_json_u64(c, "start", 0, UINT32_MAX, where, &start, err));
    IQ_TRY(iq_json_u64(c, "stop", 0, UINT32_MAX, where, &stop, err));
    if (!*text) return iq_fail(err, IQ_FORMAT, "%s: content is empty: expected one character", where);
    IQ_TRY(add_rewrite(steps, iq__decode_strip, &st, err));
    st->start = (uint32_t)start;
    st->stop = (uint32_t)stop;
    return iq__step_text(&st->find, &st->find_len, text, strlen(text), err);
}

static const struct kind normalizers[] = {{"NFC", load_nfc},
                                          {"NFD", load_nfd},
                                          {"NFKC", load_nfkc},
                                          {"NFKD", load_nfkd},
                                          {"Lowercase", load_lower},
                                          {"StripAccents", load_accents},
                                          {"Prepend", load_prepend},
                                          {"Replace", load_replace},
                                          {"Strip", load_strip},
                                          {"ByteLevel", load_byte_map},
                                          {NULL, NULL}};

static const struct kind splitters[] = {{"ByteLevel", load_byte_level},
                                        {"Split", load_split},
                                        {"Digits", load_digits},
                                        {"Whitespace", load_whitespace},
                                        {"WhitespaceSplit", load_whitespace_split},
                                        {"Punctuation", load_punctuation},
                                        {"Metaspace", load_metaspace},
                                        {"BertPreTokenizer", load_bert},
                                        {"CharDelimiterSplit", load_delimiter},
                                        {NULL, NULL}};

static const struct kind decoders[] = {{"ByteLevel", load_decode_byte_map},
                                       {"Replace", load_replace},
                                       {"ByteFallback", load_decode_bytes},
                                       {"Fuse", load_fuse},
                                       {"Strip", load_decode_strip},
                                       {"Metaspace", load_decode_metaspace},
                                       {NULL, NULL}};

static int load_one(const cJSON *c, const char *name, const char *what, const struct kind *kinds,
                    struct iq__steps *steps, struct iq_err *err)
{
    const cJSON *type = cJSON_GetObjectItemCaseSensitive(c, "type");
    char where[256], known[512] = "";
    snprintf(where, sizeof where, "%s: %s", name, what);
    if (!cJSON_IsString(type)) return iq_fail(err, IQ_FORMAT, "%s: a component without a type", where);
    if (steps->n >= MOST_STEPS) return iq_fail(err, IQ_LIMIT, "%s: more than %d steps", where, MOST_STEPS);
    for (const struct kind *k = kinds; k->type; k++) {
        if (!strcmp(k->type, type->valuestring)) {
            snprintf(where, sizeof where, "%s: %s %s", name, what, k->type);
            return k->load(c, where, steps, err);
        }
        snprintf(known + strlen(known), sizeof known - strlen(known), " %s", k->type);
    }
    return iq_fail(err, IQ_UNSUPPORTED, "%s '%.60s' is not supported; supported are Sequence%s", where,
                   type->valuestring, known);
}

/* Walks nested Sequences in order, with a stack of what is still to come. */
static int load_tree(const cJSON *root, const char *name, const char *what, const char *list,
                     const struct kind *kinds, struct iq__steps *steps, struct iq_err *err)
{
    const cJSON *todo[TREE_DEPTH];
    int depth = 0;
    if (!root || cJSON_IsNull(root)) return IQ_OK;
    for (todo[0] = root; depth >= 0;) {
        const cJSON *c = todo[depth];
        if (!c) {
            depth--;
            continue;
        }
        todo[depth] = depth ? c->next : NULL;
        const cJSON *type = cJSON_GetObjectItemCaseSensitive(c, "type");
        if (!cJSON_IsString(type) || strcmp(type->valuestring, "Sequence") != 0) {
            IQ_TRY(load_one(c, name, what, kinds, steps, err));
            continue;
        }
        const cJSON *parts = cJSON_GetObjectItemCaseSensitive(c, list);
        if (!cJSON_IsArray(parts) || depth + 1 == TREE_DEPTH)
            return iq_fail(err, IQ_FORMAT, "%s: %s Sequence: expected a list '%s', nested less than %d times",
                           name, what, list, TREE_DEPTH);
        todo[++depth] = parts->child;
    }
    return IQ_OK;
}

int iq__load_normalizer(const cJSON *c, const char *name, struct iq__steps *steps, struct iq_err *err)
{
    return load_tree(c, name, "normalizer", "normalizers", normalizers, steps, err);
}

int iq__load_splitter(const cJSON *c, const char *name, struct iq__steps *steps, struct iq_err *err)
{
    return load_tree(c, name, "pre_tokenizer", "pretokenizers", splitters, steps, err);
}

int iq__load_decoder(const cJSON *c, const char *name, struct iq__steps *steps, struct iq_err *err)
{
    return load_tree(c, name, "decoder", "decoders", decoders, steps, err);
}
