/* The only file that exits. */
#include "harness/cli/cli.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A closed descriptor 0, 1 or 2 would go to the next file that is opened, the store's among them, and what is printed
 * into it. What stands there instead can be written to only where nobody waits for it: standard error. */
static void occupy_standard_descriptors(void)
{
    for (int fd; (fd = open("/dev/null", O_RDONLY)) >= 0;) {
        if (fd > STDERR_FILENO) {
            close(fd);
            return;
        }
        if (fd == STDERR_FILENO && (close(fd), open("/dev/null", O_WRONLY) != fd)) return;
    }
}

int main(int argc, char **argv)
{
    static struct iq_out out;
    occupy_standard_descriptors();
    signal(SIGPIPE,
           SIG_IGN); /* a closed pipe is a write error, said in a sentence; so is a file at its limit */
    signal(SIGXFSZ, SIG_IGN);
    iq_out_open(&out, STDOUT_FILENO, "standard output");
    return iq_cli_run(argc, argv, &out);
}
