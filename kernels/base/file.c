#include "kernels/base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int write_error(struct iq_err *err, const char *path, const char *what)
{
    bool full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG;
    return iq_fail(err, full ? IQ_FULL : IQ_IO,
                   "%s: cannot %s it: %s; the file that was there before, if any, is untouched", path, what,
                   strerror(errno));
}

static int write_all(int fd, const unsigned char *bytes, size_t n)
{
    while (n) {
        ssize_t done = write(fd, bytes, n);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return -1;
        bytes += done;
        n -= (size_t)done;
    }
    return 0;
}

/* A rename is lasting once its directory is. Some file systems can't sync one: the file itself is safe by then. */
static void sync_directory(const char *path)
{
    char *copy = strdup(path), *slash = copy ? strrchr(copy, '/') : NULL;
    if (slash == copy && slash)
        slash[1] = 0;
    else if (slash)
        *slash = 0;
    int fd = copy ? open(slash ? copy : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        fsync(fd);
        close(fd);
    }
    free(copy);
}

static int write_beside(const char *part, const char *path, const void *bytes, size_t n, struct iq_err *err)
{
    int fd = open(part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) return write_error(err, part, "create");
    int rc = IQ_OK;
    if (write_all(fd, bytes, n) || fsync(fd)) rc = write_error(err, part, "write");
    if (close(fd) && rc == IQ_OK) rc = write_error(err, part, "close");
    if (rc == IQ_OK && rename(part, path)) rc = write_error(err, path, "replace");
    if (rc != IQ_OK) unlink(part);
    return rc;
}

int iq_file_write_whole(const char *path, const void *bytes, size_t n, struct iq_err *err)
{
    const size_t room = strlen(path) + sizeof ".part";
    char *part = malloc(room);
    if (!part) return iq_fail(err, IQ_MEMORY, "%s: no memory for its name", path);
    snprintf(part, room, "%s.part", path);
    int rc = write_beside(part, path, bytes, n, err);
    if (rc == IQ_OK) sync_directory(path);
    free(part);
    return rc;
}
