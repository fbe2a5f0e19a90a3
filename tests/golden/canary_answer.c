#include "tests/golden/canary_answer.h"
#include "golden/canary/canary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct entry {
    char value[3];
    size_t at;
};
struct tables {
    struct entry entry[26][26];
};

static bool in(char c, char lo, char hi) { return c >= lo && c <= hi; }

/* ---- one question each: `q` behind its letter, `n` bytes up to its '=' ---- */

static void copied(const char *q, size_t n, char *out) { memcpy(out, q, n); }

static void reversed(const char *q, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) out[n - 1 - i] = q[i];
}

static void sorted(const char *q, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) { /* how many are smaller: its place */
        size_t place = 0;
        for (size_t k = 0; k < n; k++) place += q[k] < q[i];
        out[place] = q[i];
    }
}

static int backward(const char *digits)
{
    return (digits[0] - '0') + 10 * (digits[1] - '0') + 100 * (digits[2] - '0') + 1000 * (digits[3] - '0');
}

static void added(const char *q, size_t n, char *out)
{
    char forward[16];
    if (n != 9 || q[4] != '+') return;
    snprintf(forward, sizeof forward, "%05d", backward(q) + backward(q + 5));
    reversed(forward, 5, out);
}

static void added_direct(const char *q, size_t n, char *out)
{
    int a = 0, b = 0, read = 0;
    if (sscanf(q, "%d+%d=%n", &a, &b, &read) == 2 && (size_t)read == n + 1) sprintf(out, "%d", a + b);
}

static void compared(const char *q, size_t n, char *out)
{
    if (n != 9 || q[4] != ',') return;
    for (int i = 0; i < 4; i++) {
        int order = strncmp(q, q + 5, (size_t)i + 1);
        out[i] = order < 0 ? '<' : order > 0 ? '>' : '=';
        if (order) return;
    }
}

static void compared_direct(const char *q, size_t n, char *out)
{
    if (n == 9) *out = atoi(q) < atoi(q + 5) ? '<' : atoi(q) > atoi(q + 5) ? '>' : '=';
}

static void counted(const char *q, size_t n, char *out)
{
    if (n != 10 || q[8] != '?') return;
    for (size_t i = 0; i < 8; i++) {
        int times = 0;
        for (size_t k = 0; k <= i; k++) times += q[k] == q[9];
        out[i] = (char)('0' + times);
    }
}

/* Removes neighbours that match until there are none. */
static void closed(const char *q, size_t n, char *out)
{
    static const char *const pairs[] = {"()", "[]", "{}", "<>"};
    char left[64];
    memcpy(left, q, n);
    left[n] = 0;
    for (bool again = true; again;) {
        again = false;
        for (int i = 0; i < 4; i++) {
            char *at = strstr(left, pairs[i]);
            if (at) memmove(at, at + 2, strlen(at + 2) + 1), again = true;
        }
    }
    reversed(left, strlen(left), out);
    for (; *out; out++)
        for (int i = 0; i < 4; i++)
            if (*out == pairs[i][0]) *out = pairs[i][1];
}

/* The whole value, reduced only where it is printed. */
static void evaluated(const char *q, size_t n, char *out)
{
    long v = q[0] - '0';
    for (size_t i = 1; i + 1 < n; i += 2) {
        int x = q[i + 1] - '0';
        v = q[i] == '+' ? v + x : q[i] == '-' ? v - x : v * x;
        if (i > 1) out += sprintf(out, "%c%d=", q[i], x);
        out += sprintf(out, "%ld", (v % 10 + 10) % 10);
    }
}

static void keep_last(char *out)
{
    size_t n = strlen(out);
    if (n) out[0] = out[n - 1], out[1] = 0;
}

static void evaluated_direct(const char *q, size_t n, char *out)
{
    evaluated(q, n, out);
    keep_last(out);
}

static void counted_direct(const char *q, size_t n, char *out)
{
    counted(q, n, out);
    keep_last(out);
}

static void (*const by_letter[128])(const char *, size_t, char *) = {
    ['C'] = copied,       ['R'] = reversed,        ['S'] = sorted,         ['A'] = added,
    ['M'] = compared,     ['N'] = counted,         ['B'] = closed,         ['E'] = evaluated,
    ['a'] = added_direct, ['m'] = compared_direct, ['n'] = counted_direct, ['e'] = evaluated_direct,
};

/* "Pdb,g.,qg,b.,hd?h" */
static size_t followed(const char *q, char *out)
{
    const char *ask = strchr(q, '?');
    if (!ask) return 0;
    char at = ask[1];
    for (int hops = 0; at != '.' && hops < 20; hops++) {
        const char *edge = q; /* a pair starts behind the P or a comma */
        while (edge < ask && !((edge[0] == 'P' || edge[0] == ',') && edge[1] == at)) edge++;
        if (edge == ask) return 0;
        *out++ = at = edge[2];
    }
    return at == '.' ? (size_t)(ask - q) + 2 : 0;
}

/* ---- tables ---- */

static bool is_entry(const char *p)
{
    return in(p[0], 'a', 'z') && in(p[1], 'a', 'z') && in(p[2], '0', '9') && in(p[3], '0', '9');
}

/* Reads "Khc75,jd31;": its bytes, or 0. */
static size_t read_table(const char *text, size_t at, struct tables *t, const char **why)
{
    const char *p = text + at;
    do {
        if (!is_entry(++p)) return *why = "no table", 0;
        struct entry *e = &t->entry[p[0] - 'a'][p[1] - 'a'];
        if (e->value[0]) return *why = "a key stands twice", 0;
        *e = (struct entry){{p[2], p[3]}, at};
        p += 4;
    } while (*p == ',');
    return *p == ';' ? (size_t)(p + 1 - text) - at : (*why = "a table without end", 0);
}

/* "?hc" */
static size_t looked_up(const char *q, size_t at, const struct tables *t, struct canary_walk *w, char *out)
{
    if (!in(q[1], 'a', 'z') || !in(q[2], 'a', 'z')) return 0;
    const struct entry *e = &t->entry[q[1] - 'a'][q[2] - 'a'];
    if (!e->value[0]) return 0;
    strcpy(out, e->value);
    if (at - e->at > w->reach) w->reach = at - e->at;
    return 3;
}

/* ---- the walk ---- */

static size_t solve(const char *text, size_t at, const struct tables *t, struct canary_walk *w, char *out)
{
    const char *q = text + at;
    if (*q == '?') return looked_up(q, at, t, w, out);
    if (*q == 'P') return followed(q, out);
    const char *end = strchr(q, '=');
    if (!end || !in(*q, 'A', 'z') || !by_letter[(int)*q] || end - q > 40) return 0;
    by_letter[(int)*q](q + 1, (size_t)(end - q) - 1, out);
    return (size_t)(end - q) + 1;
}

static void wrong(struct canary_walk *w, const char *what, const char *text, size_t at)
{
    snprintf(w->why, sizeof w->why, "%s at byte %zu: %.60s", what, at, text + at);
}

void canary_walk(const char *text, int split, struct canary_walk *w)
{
    static const char end[] = IQ_CANARY_END_TEXT;
    static struct tables tables;
    tables = (struct tables){0};
    *w = (struct canary_walk){0};
    for (size_t at = 0, n; text[at];) {
        char answer[64] = {0};
        const char *why = NULL;
        w->start = at;
        for (; text[at] == 'K'; at += n) {
            n = read_table(text, at, &tables, &why);
            if (!n) return wrong(w, why, text, at);
            w->others += (int)iq_canary_split_of(text + at, n) != split;
        }
        if (!text[at]) return; /* a table that nothing asks about */
        n = solve(text, at, &tables, w, answer);
        if (!n || !answer[0]) return wrong(w, "no question", text, at);
        if (text[at] != '?') w->others += (int)iq_canary_split_of(text + at, n) != split;
        w->end = at += n;
        if (!text[at]) {
            strcpy(w->open, answer);
            return;
        }
        size_t len = strlen(answer);
        if (strncmp(text + at, answer, len) || strncmp(text + at + len, end, sizeof end - 1))
            return wrong(w, answer, text, at);
        at += len + sizeof end - 1;
        w->closed++;
    }
}
