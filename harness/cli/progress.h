/* Standard error: talk. Sentences (iq_say) and progress bars, which show only on a terminal that is not dumb.
 *
 * A bar is one line that is redrawn at most ten times a second, as wide as the terminal, and erased at its end. One bar
 * at a time; iq_say erases it, prints, and lets it come back. Call from the command's thread only. */
#ifndef IQ_HARNESS_PROGRESS_H
#define IQ_HARNESS_PROGRESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct iq_progress {
    char label[48], unit[16];
    /* total 0: unknown. first: already done when it began, not part of the rate. */
    uint64_t total, first, done;
    uint64_t began_ns, drawn_ns;
    bool shown;
};

/* unit "B" counts bytes and prints MiB; any other is printed as it is: "tok", "trials". */
void iq_progress_begin(struct iq_progress *, const char *label, const char *unit, uint64_t first,
                       uint64_t total);
void iq_progress_at(struct iq_progress *, uint64_t done);
void iq_progress_end(struct iq_progress *);

/* "inquest: " + sentence + newline on standard error. */
void iq_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The bar as text, at most `width` columns: a pure function, for the tests. elapsed_s is since it began. */
void iq_progress_text(const struct iq_progress *, double elapsed_s, int width, char *out, size_t size);

#endif
