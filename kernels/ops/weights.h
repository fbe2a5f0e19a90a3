/* weights: what the weights of a part of the model become: those of a file, or nothing. A control op: memory, and what goes
 * into it; the engine decides when. A part is a layer, or what lies outside the layers. Only in runs that change weights. */
#ifndef IQ_OPS_WEIGHTS_H
#define IQ_OPS_WEIGHTS_H

#include "kernels/base/digest.h"

enum iq_weights_action {
    IQ_WEIGHTS_LOAD, /* `to` becomes `from` */
    IQ_WEIGHTS_DROP  /* `to` becomes zeros: the memory is given away for a while */
};

/* A matrix as it is packed, or a vector. */
struct iq_weights_piece {
    void *to;
    const void *from;   /* LOAD: as the file has it */
    const void *before; /* what lies in `to`; NULL: zeros */
    size_t bytes;
};

struct iq_weights {
    uint32_t action, version; /* enum iq_weights_action; updates so far */
    uint32_t pieces;
    const struct iq_weights_piece *piece;
};

#endif
