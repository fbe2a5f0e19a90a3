#include "engine/constraint.h"

#include "kernels/ops/mask.h"

#include <string.h>

static void set(uint64_t *allow, uint32_t token) { allow[token / 64] |= UINT64_C(1) << token % 64; }
static void clear(uint64_t *allow, uint32_t token) { allow[token / 64] &= ~(UINT64_C(1) << token % 64); }

/* Answers that begin with what was generated. */
static bool begins(const struct iq_words *w, uint32_t i, const uint32_t *generated, uint32_t n)
{
    return w->first[i + 1] - w->first[i] >= n &&
           !memcmp(w->ids + w->first[i], generated, n * sizeof *generated);
}

bool iq_constraint_open(const struct iq_constraint *c, const uint32_t *generated, uint32_t n)
{
    const struct iq_words *w = &c->allowed;
    bool open = !w->n;
    for (uint32_t i = 0; i < w->n; i++)
        open |= begins(w, i, generated, n) && w->first[i + 1] - w->first[i] > n;
    return open;
}

/* The next tokens of the answers that begin so; an end where one is complete. */
static void go_on(const struct iq_words *w, const struct iq_tokenizer *t, const uint32_t *generated,
                  uint32_t n, uint32_t vocab, uint64_t *allow)
{
    bool complete = false;
    for (uint32_t i = 0; i < w->n; i++) {
        if (!begins(w, i, generated, n)) continue;
        uint32_t at = w->first[i] + n;
        if (at < w->first[i + 1])
            set(allow, w->ids[at]);
        else
            complete = true;
    }
    for (uint32_t token = 0; complete && token < vocab; token++)
        if (iq_tokenizer_is_eog(t, token)) set(allow, token);
}

static void ban(const struct iq_words *w, const uint32_t *generated, uint32_t n, uint64_t *allow)
{
    for (uint32_t i = 0; i < w->n; i++) {
        const uint32_t *word = w->ids + w->first[i];
        uint32_t before = w->first[i + 1] - w->first[i] - 1;
        if (before <= n && !memcmp(word, generated + (n - before), before * sizeof *word))
            clear(allow, word[before]);
    }
}

uint32_t iq_constraint_allow(const struct iq_constraint *c, const struct iq_tokenizer *t,
                             const uint32_t *generated, uint32_t n, uint32_t vocab, uint64_t *allow)
{
    uint32_t words = iq_mask_words(vocab), left = 0;
    memset(allow, c->allowed.n ? 0 : 0xff, words * sizeof *allow);
    if (vocab % 64) allow[words - 1] &= (UINT64_C(1) << vocab % 64) - 1;
    if (c->allowed.n) go_on(&c->allowed, t, generated, n, vocab, allow);
    ban(&c->bad, generated, n, allow);
    for (uint32_t i = 0; i < words; i++) left += (uint32_t)__builtin_popcountll(allow[i]);
    return left;
}
