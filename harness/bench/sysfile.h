/* Small facts from text files of the kernel (/proc, /sys). */
#ifndef IQ_HARNESS_SYSFILE_H
#define IQ_HARNESS_SYSFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The first line that begins with `key`, behind it and behind blanks and a colon, without the line's end. False where
 * there is no such file or line. */
bool iq_sys_text(const char *path, const char *key, char *out, size_t size);
/* The number there, times its unit K or M; 0 where there is none ("max" too). */
uint64_t iq_sys_number(const char *path, const char *key);

#endif
