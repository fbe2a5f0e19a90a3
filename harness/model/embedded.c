/* The assembler puts the files in: as tables in C they would take the compiler minutes. */
#include "harness/model/embedded.h"

#define EMBED(name)                                                                                          \
    __asm__(".pushsection .rodata\n"                                                                         \
            ".balign 64\n"                                                                                   \
            ".global iq_embedded_" name "\n"                                                                 \
            "iq_embedded_" name ":\n"                                                                        \
            ".incbin \"" IQ_EMBEDDED_FOLDER "/canary-" name ".gguf\"\n"                                      \
            ".popsection\n")

EMBED("dense");
EMBED("moe");
