/* Frames of the wire, shared by both ends. */
#ifndef IQ_GOLDEN_WIRE_FRAME_H
#define IQ_GOLDEN_WIRE_FRAME_H

#include "golden/wire.h"

#define IQ__WIRE_MAP(X)                                                                                      \
    X(BEGIN, "begin")                                                                                        \
    X(ROWS, "rows")                                                                                          \
    X(CONTENTS, "contents")                                                                                  \
    X(POSITION, "position")                                                                                  \
    X(FIRED, "fired")                                                                                        \
    X(DONE, "done")                                                                                          \
    X(PROGRESS, "progress")                                                                                  \
    X(NOTE, "note")                                                                                          \
    X(FAIL, "fail")                                                                                          \
    X(END, "end")
enum iq__wire_type {
#define X(name, text) IQ__WIRE_##name,
    IQ__WIRE_MAP(X)
#undef X
        IQ__WIRE_TYPES
};

struct iq__wire_head {
    uint32_t type, len;
};
#define IQ__WIRE_MAGIC 0x31715769u /* "iWq1" */
struct iq__wire_begin {            /* then nodes, then manifest and name with their NULs */
    uint32_t magic, level, n_nodes, manifest_len, name_len, has_name;
};
struct iq__wire_row {
    struct iq_cell cell;
    struct iq_digest digest;
};
_Static_assert(sizeof(struct iq__wire_row) == 32, "wire format");
struct iq__wire_done { /* then ids, then four strings with their NULs */
    struct iq_digest chain;
    uint32_t request, n_ids, n_prompt, len[4], zero;
};
_Static_assert(sizeof(struct iq__wire_done) == 48, "wire format");

#endif
