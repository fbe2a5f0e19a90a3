/* The dense canary's file, inside the binary: golden/canary/canary-dense.gguf, made by `model train canary`. */
#ifndef IQ_HARNESS_EMBEDDED_H
#define IQ_HARNESS_EMBEDDED_H

enum { IQ_EMBEDDED_BYTES = 3703360 };
#define IQ_EMBEDDED_SHA256 "3620e559ab51c9ca4ce79cb278349f6379715113911a54a32195e6b810539f0c"

extern const unsigned char iq_embedded[]; /* (IQ_EMBEDDED_BYTES) */

#endif
