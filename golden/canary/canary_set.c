/* Prompt sets: every question once. */
#include "golden/canary/canary.h"
#include "kernels/base/digest.h"
#include "kernels/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A task and level with few questions is searched so many times its number. */
enum { SEARCHED = 40 };

const struct iq_canary_set iq_canary_sets[IQ_CANARY_SETS] = {
#define X(id, name, n, n_far, gated, what) {name, n, n_far, gated},
    IQ_CANARY_SET_MAP(X)
#undef X
};

static void write_line(const struct iq_canary_prompt *p, uint64_t index, struct iq_buf *out)
{
    struct iq_jw w = IQ_JW(out);
    char id[64];
    snprintf(id, sizeof id, "%s.%u.%llu", iq_canary_tasks[p->task].name, p->level, (unsigned long long)index);
    iq_jw_begin(&w, '{');
    iq_jw_key(&w, "id"), iq_jw_str(&w, id);
    iq_jw_key(&w, "prompt"), iq_jw_str(&w, p->text);
    iq_jw_key(&w, "max_tokens"), iq_jw_u64(&w, strlen(p->answer) + 1); /* END is one */
    iq_jw_key(&w, "expect"), iq_jw_str(&w, p->answer);
    iq_jw_end(&w, '}');
    iq_buf_put(out, "\n", 1);
}

static bool seen(const struct iq_digest *before, uint32_t n, struct iq_digest d)
{
    for (uint32_t i = 0; i < n; i++)
        if (iq_digest_equal(before[i], d)) return true;
    return false;
}

/* Questions that the set has of a task, at any level: the levels of some overlap. */
struct asked {
    struct iq_canary_prompt prompt;
    uint32_t n;
    struct iq_digest digest[];
};

static int write_level(enum iq_canary_id task, uint32_t level, uint32_t n, uint64_t seed,
                       enum iq_canary_split split, struct asked *asked, struct iq_buf *out,
                       struct iq_err *err)
{
    const struct iq_canary_prompt *p = &asked->prompt;
    uint32_t found = 0;
    for (uint64_t i = 0; found < n && i < (uint64_t)SEARCHED * n; i++) {
        IQ_TRY(iq_canary_draw(task, level, seed, i, split, &asked->prompt, err));
        struct iq_digest d = iq_digest_bytes(p->text, strlen(p->text));
        if (seen(asked->digest, asked->n, d)) continue;
        asked->digest[asked->n++] = d;
        found++;
        write_line(p, i, out);
    }
    return out->failed ? iq_fail(err, IQ_MEMORY, "no room for the prompts") : IQ_OK;
}

static int write_task(enum iq_canary_id task, uint32_t n, uint64_t seed, enum iq_canary_split split,
                      struct iq_buf *out, struct iq_err *err)
{
    struct asked *asked = malloc(sizeof *asked + IQ_CANARY_LEVELS * (size_t)n * sizeof *asked->digest);
    int status = asked ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for %u prompts", n);
    if (asked) asked->n = 0;
    for (uint32_t level = 0; level < IQ_CANARY_LEVELS && status == IQ_OK; level++)
        status = write_level(task, level, n, seed, split, asked, out, err);
    free(asked);
    return status;
}

int iq_canary_set_write(const struct iq_canary_set *set, enum iq_canary_id task, uint64_t seed,
                        enum iq_canary_split split, struct iq_buf *out, struct iq_err *err)
{
    bool any = false;
    for (unsigned t = 0; t < IQ_CANARY_TASKS; t++) {
        if (((unsigned)task != t && task != IQ_CANARY_TASKS) || iq_canary_tasks[t].gated != set->gated)
            continue;
        any = true;
        IQ_TRY(write_task((enum iq_canary_id)t, t == IQ_CANARY_FAR ? set->n_far : set->n, seed, split, out,
                          err));
    }
    if (any) return IQ_OK;
    return iq_fail(err, IQ_USAGE, "the set %s has no task %s; see `inquest canary tasks`", set->name,
                   (unsigned)task < IQ_CANARY_TASKS ? iq_canary_tasks[task].name : "of this number");
}
