/* The canary's questions: exact-answer tasks at graded difficulty and length, drawn by seed.
 *
 * A question is a pure function of (task, level, seed, index, split): the same bytes on every machine. Only integers
 * are used, and Philox (kernels/base/rng.h).
 *
 * Text. A row of the model is BEGIN (prompt answer END)*. Every byte is an id of its own (0 to 255); BEGIN, END and PAD are
 * ids without bytes; ids from IQ_CANARY_SPARE on are room for characters of rare scripts and stand in no question. A
 * tokenizer puts BEGIN in front by itself. END inside a prompt (far look-ups, which hold other questions with their
 * answers) is spelled IQ_CANARY_END_TEXT; "<|" stands nowhere else. A model answers a prompt by the answer's bytes,
 * then END. The first byte names the task (level 0, then level 2):
 *
 *   copy        Cve6r=            ve6r      a-z0-9 with repeats; 3-8, 9-16, 17-28 of them
 *   reverse     Ro2q7=            7q2o      3-5, 6-8, 9-12
 *   sort        S042=             024       different letters, or different digits; 3-4, 5-6, 7-9
 *   lookup      Khc75,jd31;?hc    75        keys of two letters; 2-4, 5-8, 9-14 of them
 *   far-lookup  Khc75,...; other questions ?hc   75   a table of 8-26 keys; the prompt has about 400, 1000, 2040 ids
 *   add         A7700+3200=       00100     least significant digit first: 77+23=100; 2, 3, 4 digits
 *   compare     M0695,0401=       =>        digit by digit to the first that differs; 0, 1-2, 2-3 digits are equal
 *   count       NXUUUUUUU?X=      11111111  how many so far; of 2, 4, 8 symbols
 *   brackets    B[[(=             )]]       what closes them; 2-4 open, 4-6, 7-10 mixed
 *   expression  E7+1-3*7=         8-3=5*7=5 left to right modulo 10, step by step; 2, 3, 4-5 operands
 *   pointers    Pdb,g.,qg,b.,hd?h db.       follows hd, db, b. to its end; 2, 3, 4 hops among 1-6 other pairs
 *
 * The direct forms ask the same without the steps (a small letter; most significant digit first) and are harder; no
 * gate counts them.
 *
 * Splits. A keyed hash of the question's content decides its split for every seed; a draw goes on until it is in the
 * split that was asked for. So two splits share no question, whatever the seeds. Content is the prompt, of a look-up its
 * whole table: a table that is asked about in one split occurs in no other, nor does any question that stands between.
 * Shares: 14, 1 and 1 of 16.
 *
 * Errors: IQ_USAGE for a parameter out of range; IQ_LIMIT when 4,096 draws gave none in the split (a chance below
 * 1e-100).
 */
#ifndef IQ_GOLDEN_CANARY_H
#define IQ_GOLDEN_CANARY_H

#include "kernels/base/buf.h"
#include "kernels/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    IQ_CANARY_BEGIN = 256,
    IQ_CANARY_END,
    IQ_CANARY_PAD,
    IQ_CANARY_SPARE,
    IQ_CANARY_VOCAB = 320,
    IQ_CANARY_CONTEXT = 2048,
    IQ_CANARY_LEVELS = 3,
    IQ_CANARY_TEXT = 4096,    /* bytes of a prompt, NUL included */
    IQ_CANARY_ANSWER = 32,    /* of an answer */
    IQ_CANARY_SHORTEST = 128, /* ids of a row: any question and its answer fit */
    IQ_CANARY_SPANS = 344     /* answers in a row: the shortest with its question has six ids */
};
#define IQ_CANARY_END_TEXT "<|end|>"

/* id, first byte, name, longest prompt (ids, BEGIN included), longest answer (bytes), counted by gates, share in rows,
 * what. */
#define IQ_CANARY_TASK_MAP(X)                                                                                \
    X(COPY, 'C', "copy", 31, 28, true, 10, "the same characters again")                                      \
    X(REVERSE, 'R', "reverse", 15, 12, true, 8, "the characters from last to first")                         \
    X(SORT, 'S', "sort", 12, 9, true, 10, "different letters or digits in ascending order")                  \
    X(LOOKUP, 'K', "lookup", 75, 2, true, 11, "the two digits behind a key in a table")                      \
    X(FAR, 'K', "far-lookup", 2040, 2, true, 0, "the same, with other questions between table and key")      \
    X(ADD, 'A', "add", 12, 5, true, 9, "a sum with carries, least significant digit first")                  \
    X(COMPARE, 'M', "compare", 12, 4, true, 7, "two numbers, digit by digit to the first difference")        \
    X(COUNT, 'N', "count", 13, 8, true, 9, "how often a symbol has occurred so far, at every place")         \
    X(BRACKETS, 'B', "brackets", 14, 6, true, 13, "what closes the brackets that are open")                  \
    X(EXPRESSION, 'E', "expression", 12, 13, true, 9, "left to right modulo 10, step by step")               \
    X(POINTERS, 'P', "pointers", 36, 5, true, 9, "the path from a node to its end")                          \
    X(ADD_DIRECT, 'a', "add-direct", 12, 5, false, 0, "a sum, most significant digit first")                 \
    X(COMPARE_DIRECT, 'm', "compare-direct", 12, 1, false, 0, "two numbers by one sign")                     \
    X(COUNT_DIRECT, 'n', "count-direct", 13, 1, false, 0, "how often a symbol occurs")                       \
    X(EXPRESSION_DIRECT, 'e', "expression-direct", 12, 1, false, 0,                                          \
      "left to right modulo 10, only the result")
enum iq_canary_id {
#define X(id, ...) IQ_CANARY_##id,
    IQ_CANARY_TASK_MAP(X)
#undef X
        IQ_CANARY_TASKS
};
/* Difficulty: levels 0 to IQ_CANARY_LEVELS - 1 of every task. */
struct iq_canary_task {
    const char *name, *what;
    char letter;
    bool gated;
    uint16_t longest_prompt, longest_answer;
    uint32_t share; /* of the blocks of a training row, as in iq_canary_mix.weight */
};
extern const struct iq_canary_task iq_canary_tasks[IQ_CANARY_TASKS];

#define IQ_CANARY_SPLIT_MAP(X) X(TRAIN, "train") X(VALIDATION, "validation") X(HELD_OUT, "held-out")
enum iq_canary_split {
#define X(id, name) IQ_CANARY_##id,
    IQ_CANARY_SPLIT_MAP(X)
#undef X
        IQ_CANARY_SPLITS
};
/* Of any prompt of this module. Never fails: a text of another kind falls somewhere too. */
enum iq_canary_split iq_canary_split_of(const char *prompt, size_t n);

/* ---- one question ---- */

struct iq_canary_prompt {
    enum iq_canary_id task;
    uint32_t level, ids;       /* ids: of the prompt, BEGIN included */
    char text[IQ_CANARY_TEXT]; /* END spelled out */
    char answer[IQ_CANARY_ANSWER];
};
int iq_canary_draw(enum iq_canary_id, uint32_t level, uint64_t seed, uint64_t index, enum iq_canary_split,
                   struct iq_canary_prompt *out, struct iq_err *);

/* Ids of a text, BEGIN in front. out: (cap). Returns how many there are; those past cap are not written. */
size_t iq_canary_encode(const char *text, size_t n, uint32_t *out, size_t cap);
/* The text of ids: bytes, and END spelled out; other ids give nothing. */
void iq_canary_spell(const uint32_t *ids, size_t n, struct iq_buf *out);

/* ---- training rows ---- */

/* An answer in a row: ids start to end - 1, of which the last is END. */
struct iq_canary_span {
    uint16_t start, end;
    uint8_t task, level;
};
struct iq_canary_row {
    uint32_t n, used;                /* n as asked for; from `used` on there is PAD */
    uint32_t id[IQ_CANARY_CONTEXT];  /* (n) */
    uint8_t loss[IQ_CANARY_CONTEXT]; /* (n) 1: this id is to be predicted, from the ids in front of it */
    uint32_t n_spans;
    struct iq_canary_span span[IQ_CANARY_SPANS];
};
/* What rows are packed from. A look-up is a block: a table, then 3 to 5 questions. */
struct iq_canary_mix {
    uint32_t weight[IQ_CANARY_TASKS]; /* of blocks, at most 1e6 each; of far-lookup 0: it comes by `far` */
    uint32_t level[IQ_CANARY_LEVELS]; /* likewise */
    uint32_t length;                  /* ids of a row, IQ_CANARY_SHORTEST to IQ_CANARY_CONTEXT */
    /* A table of 8 to 26 keys in front (at most one for 16 ids), each of which is asked for once, evenly over the row;
     * lookup has no weight then. */
    bool far;
};
/* Row `index` of a seed: blocks until none fits. Keys are unique in a row. */
int iq_canary_row(const struct iq_canary_mix *, uint64_t seed, uint64_t index, enum iq_canary_split,
                  struct iq_canary_row *out, struct iq_err *);

/* The recipe: 2,048 ids a step, 16 rows of 128; from a third on every fifth step is one of long rows; hard levels become
 * more frequent. Steps from `steps` on are an encore's: every other one is of long rows. Row i of the step is
 * iq_canary_row(mix, seed, first + i, ...). */
struct iq_canary_step {
    struct iq_canary_mix mix;
    uint32_t rows;
    uint64_t first;
};
int iq_canary_step(uint64_t seed, uint64_t step, uint64_t steps, struct iq_canary_step *out, struct iq_err *);

/* ---- prompt sets ---- */

#define IQ_CANARY_SET_MAP(X)                                                                                 \
    X(SMOKE, "smoke", 4, 1, true, "a first look")                                                            \
    X(GATE, "gate", 60, 24, true, "a release gate")                                                          \
    X(DEEP, "deep", 300, 100, true, "for small differences")                                                 \
    X(DIRECT, "direct", 60, 0, false, "the harder forms without steps, which no gate counts")
struct iq_canary_set {
    const char *name;
    uint32_t n, n_far; /* questions of each task and level, fewer where fewer exist; of far-lookup */
    bool gated;        /* which tasks */
};
enum {
#define X(id, ...) IQ_CANARY_##id,
    IQ_CANARY_SET_MAP(X)
#undef X
        IQ_CANARY_SETS
};
extern const struct iq_canary_set iq_canary_sets[IQ_CANARY_SETS];

/* Appends the set's questions, all different, as JSON lines: {"id": "copy.2.17", "prompt", "max_tokens", "expect"}; the id
 * is task, level and index. task: one of them, or IQ_CANARY_TASKS for all. IQ_USAGE: the set has no such task.
 * IQ_MEMORY: out is full. */
int iq_canary_set_write(const struct iq_canary_set *, enum iq_canary_id task, uint64_t seed,
                        enum iq_canary_split, struct iq_buf *out, struct iq_err *);

/* ---- odd prompts ---- */

/* Texts off the distribution, where a model's answers are not decisive: where near ties are looked for. Kind, name, what. A
 * prompt is a pure function of (kind, seed, index), as a question is. */
#define IQ_CANARY_ODD_MAP(X)                                                                                 \
    X(CUT, "cut", "questions that break off, before or within the answer")                                   \
    X(SPLICED, "spliced", "the front of a question, then the end of another")                                \
    X(NO_KEY, "no-key", "look-ups of a key that the table has not")                                          \
    X(SEPARATORS, "separators", "questions with other signs between their parts")                            \
    X(LETTERS, "letters", "random letters, digits and signs")                                                \
    X(IDS, "ids", "random token ids")
enum iq_canary_odd {
#define X(id, ...) IQ_CANARY_ODD_##id,
    IQ_CANARY_ODD_MAP(X)
#undef X
        IQ_CANARY_ODDS
};
enum { IQ_CANARY_ODD_LONGEST = 24 }; /* random ids */
struct iq_canary_odd_kind {
    const char *name, *what;
};
extern const struct iq_canary_odd_kind iq_canary_odd_kinds[IQ_CANARY_ODDS];
/* Appends the text of any kind but IDS. */
int iq_canary_odd_text(enum iq_canary_odd, uint64_t seed, uint64_t index, struct iq_buf *out,
                       struct iq_err *err);
/* Appends whole questions with answers and ends, 40 to 100 bytes or somewhat more, to stand in front of it: as rows of training
 * have them, so that a change there moves what follows only a little. */
int iq_canary_odd_front(uint64_t seed, uint64_t index, struct iq_buf *out, struct iq_err *err);
/* Ids below vocab; returns how many. */
uint32_t iq_canary_odd_ids(uint64_t seed, uint64_t index, uint32_t vocab,
                           uint32_t out[IQ_CANARY_ODD_LONGEST]);

#endif
