/* The trainer's ops for one instruction set: included after a vec_*.h by the file that is compiled for it, which then says
 * TABLE(usable). */
#include "engine/train/parts.h"
#include "engine/train/plan.h"
#include "engine/train/rows.h"
#include "kernels/cpu/features.h"
#include "kernels/cpu/vec_math.h"

#include "engine/train/experts.h"
#include "engine/train/fast/exponentials.h"

#include "engine/train/fast/product.h"

#include "engine/train/fast/adamw.h"

#include "engine/train/fast/attention.h"

#define RUN(op)                                                                                              \
    static int run_##op(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params, \
                        void *state)                                                                         \
    {                                                                                                        \
        (void)site, (void)params, (void)state;                                                               \
        return op(x, args);                                                                                  \
    }
RUN(product)
RUN(adamw)
#define VARIANT(op, is_usable)                                                                               \
    {                                                                                                        \
        .kind = #op, .name = IQ_ISA_NAME, .device = "cpu", .flags = IQ_V_GOLDEN, .run = run_##op,            \
        .usable = is_usable                                                                                  \
    }

#define JOIN_(isa) iq__train_##isa
#define JOIN(isa)  JOIN_(isa)
#define TABLE(is_usable)                                                                                     \
    const struct iq_train_ops JOIN(IQ_ISA) = {                                                               \
        .name = IQ_ISA_NAME,                                                                                 \
        .usable = is_usable,                                                                                 \
        .product = product,                                                                                  \
        .norm_back = norm_back,                                                                              \
        .rope_back = rope_back,                                                                              \
        .swiglu_back = swiglu_back,                                                                          \
        .attention_back = attention_back,                                                                    \
        .loss = loss,                                                                                        \
        .residual = residual,                                                                                \
        .embed_back = embed_back,                                                                            \
        .combine_back = combine_back,                                                                        \
        .route_back = route_back,                                                                            \
        .dispatch_back = dispatch_back,                                                                      \
        .squares = squares,                                                                                  \
        .add = add,                                                                                          \
        .adamw = adamw,                                                                                      \
        .variant = {VARIANT(product, is_usable), VARIANT(adamw, is_usable)}}
