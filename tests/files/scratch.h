/* A folder of a test's own, and small things to break files with. */
#ifndef IQ_TESTS_SCRATCH_H
#define IQ_TESTS_SCRATCH_H

#include <stdbool.h>
#include <stddef.h>

void iq_scratch_make(void);               /* a fixture: before each test */
void iq_scratch_remove(void);             /* after it */
const char *iq_scratch(const char *name); /* a path in it; eight live at a time */
char *iq_scratch_dir(const char *name);   /* makes a folder in it; the path as iq_scratch */

/* Whole files; they stop the test on failure. */
char *iq_slurp(const char *path, size_t *n); /* malloc'd */
void iq_spill(const char *path, const void *bytes, size_t n);
/* Replaces the first occurrence of `from` in a text file; false if there is none. */
bool iq_edit(const char *path, const char *from, const char *to);

/* Caps the address space, so that memory that the file does not justify fails; nothing under ASan and TSan,
 * which need it. */
void iq_limit_memory(size_t bytes);

#endif
