/* One question of each task. Every draw stands in a statement of its own: C does not order a call's arguments. */
#include "golden/canary/canary_parts.h"
#include "kernels/base/digest.h"

#include <string.h>

#define LETTERS "abcdefghijklmnopqrstuvwxyz"
#define DIGITS  "0123456789"
/* Counting has symbols of its own, so that a row's other questions interfere less. */
#define COUNTED "GHUVWXYZ"
#define OPENING "([{<"
#define CLOSING ")]}>"
enum { LETTERS_N = 26, COUNTED_N = 8, OPEN_MAX = 6, PLACES = 4 };

const struct iq_canary_task iq_canary_tasks[IQ_CANARY_TASKS] = {
#define X(id, letter, name, prompt, answer, gated, share, what)                                              \
    {name, what, letter, gated, prompt, answer, share},
    IQ_CANARY_TASK_MAP(X)
#undef X
};

enum iq_canary_split iq_canary_split_of(const char *prompt, size_t n)
{
    /* The key; the seed has no part in it: a split is one for every seed. */
    static const uint64_t key = 0x696e717565737421u;
    const char *end = n && prompt[0] == 'K' ? memchr(prompt, ';', n) : NULL;
    struct iq_digest d = iq_digest_bytes(prompt, end ? (size_t)(end - prompt) + 1 : n);
    uint64_t sixteenth = iq_mix64(d.hi ^ iq_mix64(d.lo ^ key)) >> 60;
    return sixteenth == 0 ? IQ_CANARY_HELD_OUT : sixteenth == 1 ? IQ_CANARY_VALIDATION : IQ_CANARY_TRAIN;
}

/* ---- tasks ---- */

struct range {
    uint8_t lo, hi;
};
typedef void make_fn(uint32_t level, struct iq__draws *, struct iq__text *prompt, struct iq__text *answer);

static uint32_t within(const struct range range[IQ_CANARY_LEVELS], uint32_t level, struct iq__draws *d)
{
    return iq__between(d, range[level].lo, range[level].hi);
}

static void put_random(uint32_t n, struct iq__draws *d, struct iq__text *t)
{
    static const char alphabet[] = LETTERS DIGITS;
    for (uint32_t i = 0; i < n; i++) iq__put(t, alphabet[iq__below(d, sizeof alphabet - 1)]);
}

static void copy(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range n[] = {{3, 8}, {9, 16}, {17, 28}};
    put_random(within(n, level, d), d, p);
    for (uint32_t i = 1; i < p->n; i++) iq__put(a, p->s[i]);
    iq__put(p, '=');
}

static void reverse(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range n[] = {{3, 5}, {6, 8}, {9, 12}};
    put_random(within(n, level, d), d, p);
    for (uint32_t i = p->n - 1; i > 0; i--) iq__put(a, p->s[i]);
    iq__put(p, '=');
}

static void sort(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range n[] = {{3, 4}, {5, 6}, {7, 9}};
    char all[] = LETTERS;
    uint32_t k = within(n, level, d), size = LETTERS_N;
    if (iq__below(d, 10) >= 7) {
        memcpy(all, DIGITS, sizeof DIGITS);
        size = sizeof DIGITS - 1;
    }
    iq__sample(d, all, size, k);
    for (uint32_t i = 0; i < k; i++) iq__put(p, all[i]);
    iq__put(p, '=');
    for (int c = 1; c < 128; c++)
        if (memchr(all, c, k)) iq__put(a, (char)c);
}

/* Digits from the least significant on; 4 of 10 have long carry chains: digits that sum to 9, 10 or 8. */
static void draw_operands(uint32_t n, struct iq__draws *d, uint8_t x[PLACES], uint8_t y[PLACES])
{
    static const int8_t off[] = {0, 0, 0, 1, 1, -1};
    for (uint32_t i = 0; i < n; i++) x[i] = (uint8_t)iq__below(d, 10);
    bool chain = iq__below(d, 10) < 4;
    for (uint32_t i = 0; i < n; i++) {
        int v = chain ? 9 - x[i] + off[iq__below(d, sizeof off)] : (int)iq__below(d, 10);
        y[i] = (uint8_t)(v < 0 ? 0 : v > 9 ? 9 : v);
    }
}

static void add(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    uint8_t x[PLACES] = {0}, y[PLACES] = {0};
    uint32_t carry = 0;
    draw_operands(2 + level, d, x, y);
    for (int i = 0; i < PLACES; i++) iq__put(p, (char)('0' + x[i]));
    iq__put(p, '+');
    for (int i = 0; i < PLACES; i++) iq__put(p, (char)('0' + y[i]));
    iq__put(p, '=');
    for (int i = 0; i < PLACES; i++) {
        uint32_t sum = x[i] + y[i] + carry;
        iq__put(a, (char)('0' + sum % 10));
        carry = sum / 10;
    }
    iq__put(a, (char)('0' + carry));
}

static void put_number(uint32_t v, struct iq__text *t)
{
    char digits[12];
    int n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) iq__put(t, digits[--n]);
}

static void add_direct(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    uint8_t x[PLACES] = {0}, y[PLACES] = {0};
    uint32_t u = 0, v = 0;
    draw_operands(2 + level, d, x, y);
    for (int i = PLACES; i-- > 0;) u = 10 * u + x[i], v = 10 * v + y[i];
    put_number(u, p);
    iq__put(p, '+');
    put_number(v, p);
    iq__put(p, '=');
    put_number(u + v, a);
}

/* Two numbers that begin alike, 8 of 100 equal; a sign for each place up to the first that differs. */
static void compare(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range common[] = {{0, 0}, {1, 2}, {2, 3}};
    uint8_t x[PLACES], y[PLACES];
    for (int i = 0; i < PLACES; i++) x[i] = (uint8_t)iq__below(d, 10);
    uint32_t k = within(common, level, d);
    memcpy(y, x, sizeof y);
    for (uint32_t i = k; i < PLACES; i++) y[i] = (uint8_t)iq__below(d, 10);
    if (iq__below(d, 100) < 8) memcpy(y, x, sizeof y);
    for (int i = 0; i < PLACES; i++) iq__put(p, (char)('0' + x[i]));
    iq__put(p, ',');
    for (int i = 0; i < PLACES; i++) iq__put(p, (char)('0' + y[i]));
    iq__put(p, '=');
    for (int i = 0; i < PLACES && !(i && x[i - 1] != y[i - 1]); i++)
        iq__put(a, x[i] < y[i] ? '<' : x[i] > y[i] ? '>' : '=');
}

static void keep_last(struct iq__text *a)
{
    a->s[0] = a->s[a->n - 1];
    a->n = 1;
}

static void compare_direct(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    compare(level, d, p, a);
    keep_last(a);
}

static void count(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    char all[] = COUNTED;
    uint32_t kinds = 2u << level, n = 0;
    iq__sample(d, all, COUNTED_N, kinds);
    uint32_t often = iq__next(d); /* of 2^32: a share of its own for each question */
    for (int i = 0; i < COUNTED_N; i++) {
        char c = all[0];
        if (iq__next(d) >= often) c = all[iq__between(d, 1, kinds - 1)];
        n += c == all[0];
        iq__put(p, c);
        iq__put(a, (char)('0' + n));
    }
    iq__put(p, '?');
    iq__put(p, all[0]);
    iq__put(p, '=');
}

static void count_direct(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    count(level, d, p, a);
    keep_last(a);
}

static void brackets(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range n[] = {{2, 4}, {4, 6}, {7, 10}};
    uint8_t open[OPEN_MAX];
    uint32_t depth = 0;
    for (uint32_t left = within(n, level, d); left; left--) {
        bool closes = level && depth && (iq__below(d, 100) < 35 || depth == OPEN_MAX);
        if (closes) {
            iq__put(p, CLOSING[open[--depth]]);
            continue;
        }
        open[depth] = (uint8_t)iq__below(d, 4);
        iq__put(p, OPENING[open[depth++]]);
    }
    if (!depth) {
        open[depth] = (uint8_t)iq__below(d, 4);
        iq__put(p, OPENING[open[depth++]]);
    }
    iq__put(p, '=');
    while (depth) iq__put(a, CLOSING[open[--depth]]);
}

static void expression(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range operands[] = {{2, 2}, {3, 3}, {4, 5}};
    uint32_t n = within(operands, level, d), v = iq__below(d, 10);
    iq__put(p, (char)('0' + v));
    for (uint32_t i = 1; i < n; i++) {
        char op = "+-*"[iq__below(d, 3)];
        uint32_t x = iq__below(d, 10);
        v = (op == '+' ? v + x : op == '-' ? v + 10 - x : v * x) % 10;
        char step[] = {op, (char)('0' + x), 0};
        iq__puts(p, step);
        if (i > 1) {
            iq__puts(a, step);
            iq__put(a, '=');
        }
        iq__put(a, (char)('0' + v));
    }
    iq__put(p, '=');
}

static void expression_direct(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    expression(level, d, p, a);
    keep_last(a);
}

static void pointers(uint32_t level, struct iq__draws *d, struct iq__text *p, struct iq__text *a)
{
    static const struct range others[] = {{1, 2}, {2, 4}, {4, 6}};
    enum { HOPS_MAX = 4, PAIRS_MAX = HOPS_MAX + 1 + 6 };
    char node[] = LETTERS, order[PAIRS_MAX], to[PAIRS_MAX], from[PAIRS_MAX];
    uint32_t hops = 2 + level, n = hops + 1, more = within(others, level, d);
    iq__sample(d, node, LETTERS_N, n + more + 1);
    for (uint32_t i = 0; i < n; i++) from[i] = node[i], to[i] = i == hops ? '.' : node[i + 1];
    for (uint32_t i = n; i < n + more; i++) { /* to the next of their own, to nothing, or into the path */
        char into = node[iq__below(d, n)];
        uint32_t which = iq__below(d, 3);
        from[i] = node[i];
        to[i] = which == 0 ? node[i + 1] : which == 1 ? '.' : into;
    }
    for (uint32_t i = 0; i < n + more; i++) order[i] = (char)i;
    iq__sample(d, order, n + more, n + more);
    for (uint32_t i = 0; i < n + more; i++) {
        if (i) iq__put(p, ',');
        iq__put(p, from[(int)order[i]]);
        iq__put(p, to[(int)order[i]]);
    }
    iq__put(p, '?');
    iq__put(p, node[0]);
    for (uint32_t i = 0; i < n; i++) iq__put(a, to[i]);
}

/* Look-ups are not here: their tables belong to a row. */
static make_fn *const make[IQ_CANARY_TASKS] = {
    [IQ_CANARY_COPY] = copy,
    [IQ_CANARY_REVERSE] = reverse,
    [IQ_CANARY_SORT] = sort,
    [IQ_CANARY_ADD] = add,
    [IQ_CANARY_COMPARE] = compare,
    [IQ_CANARY_COUNT] = count,
    [IQ_CANARY_BRACKETS] = brackets,
    [IQ_CANARY_EXPRESSION] = expression,
    [IQ_CANARY_POINTERS] = pointers,
    [IQ_CANARY_ADD_DIRECT] = add_direct,
    [IQ_CANARY_COMPARE_DIRECT] = compare_direct,
    [IQ_CANARY_COUNT_DIRECT] = count_direct,
    [IQ_CANARY_EXPRESSION_DIRECT] = expression_direct,
};

int iq__question_draw(enum iq_canary_id task, uint32_t level, enum iq_canary_split split, struct iq__draws *d,
                      struct iq__question *q, struct iq_err *err)
{
    for (int i = 0; i < IQ__DRAWS_MAX; i++) {
        q->prompt.n = q->answer.n = 0;
        iq__put(&q->prompt, iq_canary_tasks[task].letter);
        make[task](level, d, &q->prompt, &q->answer);
        if (iq_canary_split_of(q->prompt.s, q->prompt.n) == split) return IQ_OK;
    }
    return iq_fail(err, IQ_LIMIT, "canary %s, level %u: none of %d questions is in split %d",
                   iq_canary_tasks[task].name, level, IQ__DRAWS_MAX, (int)split);
}
