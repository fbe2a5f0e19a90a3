/* A prompt's bad_words and allowed: from JSON to an engine's constraint.
 *
 * Each is a list of texts and of lists of token ids. A bad word that is a text stands for its tokens at the start of a text
 * and after a space; an allowed answer for those at the start.
 */
#ifndef IQ_HARNESS_PROMPT_WORDS_H
#define IQ_HARNESS_PROMPT_WORDS_H

#include "engine/constraint.h"
#include "kernels/base/json.h"

struct iq_prompt_words {
    cJSON *bad, *allowed; /* as the line has them, or NULL */
    struct iq_ids ids[2], first[2];
    struct iq_constraint constraint;
};

/* Copies the two fields of a line and checks them. */
int iq_prompt_words_read(const cJSON *line, const char *where, struct iq_prompt_words *, struct iq_err *err);
/* As members of the object that is being written. */
int iq_prompt_words_write(const struct iq_prompt_words *, struct iq_jw *, struct iq_err *err);
/* *out: the constraint, which borrows from the words; NULL: there is none. */
int iq_prompt_words_tokenize(struct iq_prompt_words *, const struct iq_tokenizer *,
                             const struct iq_constraint **out, struct iq_err *err);
void iq_prompt_words_free(struct iq_prompt_words *);

#endif
