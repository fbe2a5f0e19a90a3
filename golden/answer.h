/* Answers to questions that have one exact answer. */
#ifndef IQ_GOLDEN_ANSWER_H
#define IQ_GOLDEN_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define IQ_ANSWER_Z 1.959963984540054 /* 97.5 % of the normal distribution lie below */

/* The same bytes, but for white space at either end. text: (n). */
bool iq_answer_right(const char *text, size_t n, const char *expect);

/* Wilson's score interval at 95 % for the share of right answers, 0 to 1 each; of none asked: [0, 1]. right: at most asked.
 * Source: E. B. Wilson, Probable Inference, J. Am. Stat. Assoc. 22 (1927). */
void iq_answer_interval(uint64_t right, uint64_t asked, double *low, double *high);

/* The same for the difference of two shares over the same questions: lost were right at first only, gained are right now only.
 * Within -1 to 1; of none asked: all of it. Source: A. Agresti, Y. Min, Simple improved confidence intervals for comparing
 * matched proportions, Stat. Med. 24 (2005). */
void iq_answer_difference(uint64_t lost, uint64_t gained, uint64_t asked, double *low, double *high);

#endif
