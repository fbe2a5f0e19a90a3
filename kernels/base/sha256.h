/* SHA-256 (libcrypto): for what crosses a trust boundary: model files, exported runs. */
#ifndef IQ_BASE_SHA256_H
#define IQ_BASE_SHA256_H

#include "kernels/base/status.h"

#include <stddef.h>

#define IQ_SHA256_HEX 65 /* 64 digits and a NUL */

void iq_sha256(const void *bytes, size_t n, char hex[IQ_SHA256_HEX]);
/* Reads the file in pieces; never holds it whole. */
int iq_sha256_file(const char *path, char hex[IQ_SHA256_HEX], struct iq_err *err);

#endif
