/* Answers to the canary's questions from their text alone: written a second time, and in other ways than the generator's. */
#ifndef IQ_TESTS_GOLDEN_CANARY_ANSWER_H
#define IQ_TESTS_GOLDEN_CANARY_ANSWER_H

#include <stdbool.h>
#include <stddef.h>

struct canary_walk {
    char why[200];        /* what is wrong; "" where nothing is */
    char open[64];        /* the right answer to the last question, where the text ends behind it; else "" */
    unsigned closed;      /* questions with their answers */
    size_t start, end;    /* the last question with its tables: bytes */
    size_t reach;         /* the most bytes between a looked-up key's table and its question */
    unsigned long others; /* tables and questions that are not look-ups, of a split other than `split` */
};
/* Reads (tables, question, answer, END)* and at most one open question. Any answer that is wrong ends the walk. */
void canary_walk(const char *text, int split, struct canary_walk *out);

#endif
