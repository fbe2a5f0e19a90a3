/* The only file that exits. */
#include "harness/cli/cli.h"

#include <signal.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    static struct iq_out out;
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is a write error, said in a sentence */
    iq_out_open(&out, STDOUT_FILENO, "standard output");
    return iq_cli_run(argc, argv, &out);
}
