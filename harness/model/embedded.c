/* The assembler puts the file in: as a table in C it would take the compiler minutes. */
#include "harness/model/embedded.h"

__asm__(".pushsection .rodata\n"
        ".balign 64\n"
        ".global iq_embedded\n"
        "iq_embedded:\n"
        ".incbin \"" IQ_EMBEDDED_FILE "\"\n"
        ".popsection\n");
