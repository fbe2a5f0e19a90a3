#define _GNU_SOURCE
#include "harness/bench/sysfile.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

bool iq_sys_text(const char *path, const char *key, char *out, size_t size)
{
    char line[4096];
    bool found = false;
    out[0] = 0;
    FILE *f = fopen(path, "re");
    if (!f) return false;
    while (!found && fgets(line, sizeof line, f)) {
        if (strncmp(line, key, strlen(key))) continue;
        const char *rest = line + strlen(key);
        snprintf(out, size, "%.*s", (int)strcspn(rest + strspn(rest, " \t:"), "\n"),
                 rest + strspn(rest, " \t:"));
        found = true;
    }
    fclose(f);
    return found;
}

uint64_t iq_sys_number(const char *path, const char *key)
{
    char text[64], unit = 0;
    uint64_t value = 0;
    if (!iq_sys_text(path, key, text, sizeof text)) return 0;
    if (sscanf(text, "%" SCNu64 " %c", &value, &unit) < 1) return 0;
    return value << (unit == 'K' || unit == 'k' ? 10 : unit == 'M' ? 20 : 0);
}
