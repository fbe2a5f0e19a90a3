/* How well a model answers questions with one exact answer, and how surely.
 *
 * Each question is asked greedily, and once more with the expected answer behind it, end of text included: what the model
 * would have given each of the answer's tokens (its log-likelihood), how far apart the two best tokens were there (the
 * margin), and the digest of all logits. So two models, or one model under two settings, compare where both still answer
 * everything right.
 *
 * Of a near tie (ties.h) the answer is golden's tokens, without the end of text behind it: a question of which token comes last.
 *
 * Units: nats; logits; shares from 0 to 1. Ownership: iq_eval_close and iq_eval_table_free free.
 * Errors: IQ_FORMAT (a question without `expect`, or one that is sampled), IQ_MISMATCH (other tokens than golden's), the
 * engine's. */
#ifndef IQ_HARNESS_EVAL_H
#define IQ_HARNESS_EVAL_H

#include "harness/plan/armed.h"
#include "harness/plan/prompts.h"
#include "harness/plan/settings.h"

struct iq_eval_token {
    double nll;              /* of the expected token */
    float margin;            /* best minus second best logit; the expected token need not be the best */
    struct iq_digest logits; /* of the whole row */
};

struct iq_eval_question {
    bool right;
    struct iq_digest answer; /* of the tokens that it gave */
    size_t first;            /* in iq_eval.token */
    uint32_t tokens;
    /* Of a near tie: how many tokens of its answer are golden's, from the first on; and where it is scored, the logit of golden's
     * token less the largest other one, which is negative where another one is best (-INFINITY: it is not among the IQ_TOP best). */
    uint32_t kept;
    float gap;
};

/* What one model showed. */
struct iq_eval {
    struct iq_eval_question *question; /* (n), as the prompts */
    uint32_t n;
    struct iq_eval_token *token; /* (tokens) of the expected answers */
    size_t tokens;
    struct iq_digest asked; /* of all prompts' and answers' tokens */
    double seconds;
    uint64_t computed; /* rows, prompts included */
};

/* prompts: read, not tokenised. armed: what strikes; NULL: nothing. */
int iq_eval_run(const struct iq_model *, const struct iq_settings *, struct iq_armed *armed,
                struct iq_prompts *, struct iq_eval *, struct iq_err *err);
void iq_eval_close(struct iq_eval *);

/* ---- tables ---- */

enum { IQ_EVAL_ALL = -1, IQ_EVAL_LIMITS = 3, IQ_EVAL_TASK = 32 };
extern const double iq_eval_limits[IQ_EVAL_LIMITS]; /* of margins, ascending */

struct iq_eval_score {
    uint32_t right;
    double low, high; /* 95 % interval of right / n, iq_answer_interval */
    double nll;       /* mean of the tokens */
    double margin;    /* median */
    double below[IQ_EVAL_LIMITS];
};

struct iq_eval_line {
    char task[IQ_EVAL_TASK]; /* "" : all tasks */
    int level;               /* or IQ_EVAL_ALL */
    uint32_t n;
    uint64_t tokens;
    struct iq_eval_score model, golden; /* golden: all zero where there is none */
    /* From golden: questions that got other tokens as an answer; those with another bit in a logit of the expected answer;
     * the mean of nll differences is model.nll - golden.nll, this the largest; the largest change of a margin. */
    uint32_t changed, differ;
    double nll_shift, margin_shift;
};

struct iq_eval_table {
    struct iq_eval_line
        *line; /* (n) of each task: all levels, then level by level; the last line: everything */
    size_t n, cap;
    /* Where logits first differ from golden's: index of the question, of the answer's token; question UINT32_MAX: nowhere. */
    uint32_t question, token;
};

/* A prompt's task and level are its id's where that reads TASK.LEVEL.NUMBER; all others are one task, "other", level 0. At most 256 tasks and levels (IQ_LIMIT).
 * golden: may be NULL. IQ_MISMATCH: the two were not asked in the same tokens. */
int iq_eval_table(const struct iq_prompts *, const struct iq_eval *model, const struct iq_eval *golden,
                  struct iq_eval_table *, struct iq_err *err);
void iq_eval_table_free(struct iq_eval_table *);

/* ---- near ties ---- */

/* Of the prompts that are near ties: what became of them. */
struct iq_eval_ties {
    uint32_t n;
    uint32_t recorded; /* golden's gap (without a golden, the model's) is the recorded margin, to the bit */
    uint32_t
        differ; /* a bit of a logit differs from golden's; without a golden, the gap from the recorded one */
    uint32_t flips; /* all tokens in front are golden's, the one at the tie is another */
    uint32_t early; /* a token in front of the tie is another */
    /* How far gaps moved from golden's (or the recorded ones): median, of nine in ten at most, the largest. INFINITY: golden's
     * token is not among the best any more. */
    double median, most, largest;
};
/* IQ_MEMORY. */
int iq_eval_ties(const struct iq_prompts *, const struct iq_eval *model, const struct iq_eval *golden,
                 struct iq_eval_ties *out, struct iq_err *err);

#endif
