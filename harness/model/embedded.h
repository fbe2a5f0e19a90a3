/* The canaries' files, inside the binary: golden/canary/canary-*.gguf, made by `model train canary`. */
#ifndef IQ_HARNESS_EMBEDDED_H
#define IQ_HARNESS_EMBEDDED_H

enum { IQ_EMBEDDED_DENSE_BYTES = 3703360, IQ_EMBEDDED_MOE_BYTES = 3922944 };
#define IQ_EMBEDDED_DENSE_SHA256 "3620e559ab51c9ca4ce79cb278349f6379715113911a54a32195e6b810539f0c"
#define IQ_EMBEDDED_MOE_SHA256   "f99bef49564cd2cf9459fb7267fd84679c053238f3ed84359926251afab64cdb"

extern const unsigned char iq_embedded_dense[], iq_embedded_moe[];

#endif
