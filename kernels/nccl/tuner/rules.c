#include "kernels/nccl/tuner/rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* In the order of NCCL's numbers. */
static const char *const collectives[] = {"broadcast",     "reduce",    "allgather",
                                          "reducescatter", "allreduce", NULL};
static const char *const algorithms[] = {"tree", "ring",     "collnetdirect", "collnetchain",
                                         "nvls", "nvlstree", "pat",           NULL};
static const char *const protocols[] = {"ll", "ll128", "simple", NULL};

enum { CHANNELS = 64, WORD = 40 };

struct reader {
    const char *at, *end;
    unsigned line;
    char word[WORD]; /* the one that was read last */
    char *why;
    size_t why_size;
};

static bool __attribute__((format(printf, 2, 3))) wrong(struct reader *r, const char *fmt, ...)
{
    va_list ap;
    int n = snprintf(r->why, r->why_size, "line %u: ", r->line);
    va_start(ap, fmt);
    if (n > 0 && (size_t)n < r->why_size) vsnprintf(r->why + n, r->why_size - (size_t)n, fmt, ap);
    va_end(ap);
    return false;
}

static bool ends_rule(char c) { return c == '\n' || c == ';' || c == '#'; }
static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r'; }

/* The next word of this rule; "" at its end. False: it holds what no word does. */
static bool next_word(struct reader *r)
{
    size_t n = 0;
    while (r->at < r->end && is_space(*r->at)) r->at++;
    while (r->at < r->end && !is_space(*r->at) && !ends_rule(*r->at)) {
        unsigned char c = (unsigned char)*r->at++;
        if (c < 0x21 || c > 0x7e) return wrong(r, "found byte 0x%02x, expected plain text", c);
        if (n == WORD - 1) return wrong(r, "found a word of more than %d letters", WORD - 1);
        r->word[n++] = (char)c;
    }
    r->word[n] = 0;
    return true;
}

/* To the beginning of the next rule. */
static void next_rule(struct reader *r)
{
    bool comment = r->at < r->end && *r->at == '#';
    while (comment && r->at < r->end && *r->at != '\n') r->at++;
    if (r->at == r->end) return;
    r->line += *r->at == '\n';
    r->at++;
}

static int index_of(const char *const *names, const char *word, size_t n)
{
    for (int i = 0; names[i]; i++)
        if (strlen(names[i]) == n && !strncasecmp(names[i], word, n)) return i;
    return -1;
}

/* Digits and a unit; moves *text behind them. */
static bool read_number(const char **text, bool units, uint64_t *out)
{
    static const char letters[] = "KMG";
    const char *at = *text, *letter;
    uint64_t value = 0;
    if (*at < '0' || *at > '9') return false;
    for (; *at >= '0' && *at <= '9'; at++)
        if (__builtin_mul_overflow(value, 10u, &value) ||
            __builtin_add_overflow(value, (unsigned)(*at - '0'), &value))
            return false;
    if (units && *at && (letter = strchr(letters, *at & ~0x20))) {
        if (__builtin_mul_overflow(value, (uint64_t)1 << 10 * (letter - letters + 1), &value)) return false;
        at++;
    }
    *text = at;
    *out = value;
    return true;
}

static bool read_sizes(struct reader *r, struct iq_tuner_rule *rule)
{
    const char *at = r->word;
    rule->from = 0, rule->below = UINT64_MAX;
    if (!strcasecmp(r->word, "all")) return true;
    if (read_number(&at, true, &rule->from) && *at == '-') {
        at++;
        if (!*at) return true;
        if (read_number(&at, true, &rule->below) && !*at) {
            if (rule->from < rule->below) return true;
            return wrong(r, "found bytes %s, which are none: A-B begins at A and ends before B", r->word);
        }
    }
    return wrong(r, "found '%s', expected bytes: A-B, A- or all, as in 64K-4M", r->word);
}

static bool read_choice(struct reader *r, struct iq_tuner_rule *rule)
{
    const char *slash = strchr(r->word, '/');
    rule->algorithm = slash ? index_of(algorithms, r->word, (size_t)(slash - r->word)) : -1;
    rule->protocol = slash ? index_of(protocols, slash + 1, strlen(slash + 1)) : -1;
    if (rule->algorithm >= 0 && rule->protocol >= 0) return true;
    return wrong(
        r,
        "found '%s', expected ALGORITHM/PROTOCOL: tree, ring, collnetdirect, collnetchain, nvls, nvlstree or "
        "pat; ll, ll128 or simple",
        r->word);
}

static bool read_channels(struct reader *r, const char *value, struct iq_tuner_rule *rule)
{
    uint64_t n;
    if (rule->channels) return wrong(r, "found channels twice");
    if (!read_number(&value, false, &n) || *value || n < 1 || n > CHANNELS)
        return wrong(r, "found '%s', expected channels from 1 to %d", r->word, CHANNELS);
    rule->channels = (int)n;
    return true;
}

static bool read_ranks(struct reader *r, const char *value, struct iq_tuner_rule *rule)
{
    if (rule->ranks_lo) return wrong(r, "found ranks twice");
    bool ok = read_number(&value, false, &rule->ranks_lo);
    rule->ranks_hi = rule->ranks_lo;
    if (ok && *value == '-') {
        value++;
        ok = read_number(&value, false, &rule->ranks_hi);
    }
    if (ok && !*value && rule->ranks_lo && rule->ranks_lo <= rule->ranks_hi) return true;
    return wrong(r, "found '%s', expected ranks=N or ranks=A-B, from 1", r->word);
}

static bool read_options(struct reader *r, struct iq_tuner_rule *rule)
{
    rule->channels = 0;
    rule->ranks_lo = rule->ranks_hi = 0;
    for (;;) {
        if (!next_word(r)) return false;
        if (!*r->word) break;
        bool ok;
        if (!strncasecmp(r->word, "channels=", 9))
            ok = read_channels(r, r->word + 9, rule);
        else if (!strncasecmp(r->word, "ranks=", 6))
            ok = read_ranks(r, r->word + 6, rule);
        else
            ok = wrong(r, "found '%s', expected channels=N, ranks=A-B or the end of the rule", r->word);
        if (!ok) return false;
    }
    if (!rule->ranks_lo) rule->ranks_lo = 1, rule->ranks_hi = UINT64_MAX;
    return true;
}

/* The first word has been read. */
static bool read_rule(struct reader *r, struct iq_tuner_rule *rule)
{
    bool any = !strcasecmp(r->word, "any");
    rule->collective = any ? IQ_TUNER_ANY : index_of(collectives, r->word, strlen(r->word));
    if (rule->collective < 0 && !any)
        return wrong(r,
                     "found '%s', expected a collective: broadcast, reduce, allgather, reducescatter, "
                     "allreduce or any",
                     r->word);
    if (!next_word(r) || !read_sizes(r, rule)) return false;
    if (!next_word(r) || !read_choice(r, rule)) return false;
    return read_options(r, rule);
}

static bool read_all(struct reader *r, struct iq_tuner_rules *out)
{
    if (r->end - r->at > IQ_TUNER_BYTES) return wrong(r, "found more than %d bytes of rules", IQ_TUNER_BYTES);
    while (r->at < r->end) {
        if (!next_word(r)) return false;
        if (*r->word) {
            if (out->n == IQ_TUNER_RULES) return wrong(r, "found more than %d rules", IQ_TUNER_RULES);
            if (!read_rule(r, &out->rule[out->n])) return false;
            out->n++;
        }
        next_rule(r);
    }
    return out->n || wrong(r, "found no rule");
}

bool iq_tuner_parse(const char *text, size_t bytes, struct iq_tuner_rules *out, char *why, size_t why_size)
{
    struct reader r = {.at = text, .end = text + bytes, .line = 1, .why = why, .why_size = why_size};
    out->n = 0;
    if (read_all(&r, out)) return true;
    out->n = 0;
    return false;
}

const struct iq_tuner_rule *iq_tuner_find(const struct iq_tuner_rules *rules, int collective, uint64_t bytes,
                                          uint64_t ranks)
{
    for (size_t i = 0; i < rules->n; i++) {
        const struct iq_tuner_rule *r = &rules->rule[i];
        if (r->collective != IQ_TUNER_ANY && r->collective != collective) continue;
        if (bytes < r->from || (bytes >= r->below && r->below != UINT64_MAX)) continue;
        if (ranks >= r->ranks_lo && ranks <= r->ranks_hi) return r;
    }
    return NULL;
}

static const char *name_of(const char *const *names, int index)
{
    for (int i = 0; names[i] && index >= 0; i++)
        if (i == index) return names[i];
    return "?";
}

const char *iq_tuner_algorithm(int a) { return name_of(algorithms, a); }
const char *iq_tuner_protocol(int p) { return name_of(protocols, p); }
