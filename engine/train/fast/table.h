/* The trainer's ops for one instruction set: included after a vec_*.h by the file that is compiled for it, which then says
 * TABLE(usable). */
#include "engine/train/parts.h"
#include "engine/train/rows.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_math.h"

#include "engine/train/fast/exponentials.h"

#include "engine/train/fast/product.h"

#include "engine/train/fast/attention.h"

#define JOIN_(isa) iq__train_##isa
#define JOIN(isa)  JOIN_(isa)
#define TABLE(is_usable)                                                                                     \
    const struct iq_train_ops JOIN(IQ_ISA) = {.name = IQ_ISA_NAME,                                           \
                                              .usable = is_usable,                                           \
                                              .product = product,                                            \
                                              .norm_back = norm_back,                                        \
                                              .rope_back = rope_back,                                        \
                                              .swiglu_back = swiglu_back,                                    \
                                              .attention_back = attention_back,                              \
                                              .loss = loss,                                                  \
                                              .residual = residual,                                          \
                                              .embed_back = embed_back,                                      \
                                              .squares = squares,                                            \
                                              .add = add,                                                    \
                                              .adamw = adamw}
