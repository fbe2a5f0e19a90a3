#include "kernels/base/sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void to_hex(const unsigned char sum[32], char hex[IQ_SHA256_HEX])
{
    for (int i = 0; i < 32; i++) snprintf(hex + 2 * i, 3, "%02x", sum[i]);
}

void iq_sha256(const void *bytes, size_t n, char hex[IQ_SHA256_HEX])
{
    unsigned char sum[EVP_MAX_MD_SIZE];
    if (EVP_Digest(bytes, n, sum, NULL, EVP_sha256(), NULL) != 1) abort(); /* only a broken libcrypto */
    to_hex(sum, hex);
}

int iq_sha256_file(const char *path, char hex[IQ_SHA256_HEX], struct iq_err *err)
{
    enum { PIECE = 1 << 20 };
    unsigned char sum[EVP_MAX_MD_SIZE], *piece = NULL;
    int status = IQ_OK, fd = open(path, O_RDONLY | O_CLOEXEC);
    EVP_MD_CTX *ctx = NULL;
    if (fd < 0) return iq_fail(err, IQ_IO, "%s: cannot be opened: %s", path, strerror(errno));
    piece = malloc(PIECE);
    ctx = EVP_MD_CTX_new();
    if (!piece || !ctx || EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) != 1) {
        status = iq_fail(err, IQ_MEMORY, "%s: no memory to compute its SHA-256", path);
        goto out;
    }
    for (ssize_t n; (n = read(fd, piece, PIECE)) != 0;) {
        if (n < 0) {
            status = iq_fail(err, IQ_IO, "%s: read failed: %s", path, strerror(errno));
            goto out;
        }
        EVP_DigestUpdate(ctx, piece, (size_t)n);
    }
    EVP_DigestFinal_ex(ctx, sum, NULL);
    to_hex(sum, hex);
out:
    EVP_MD_CTX_free(ctx);
    free(piece);
    close(fd);
    return status;
}
