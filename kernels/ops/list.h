/* The ops: each a place in the model, in execution order of one position. X(ID, name, kind, points...)
 * A model has some of them: gate_up to ffn_reduce where it is dense, router to combine where it is a mixture of experts;
 * a run has mask, and the lora ops, where a request asks for them, and weights where they change. */
#ifndef IQ_OPS_LIST_H
#define IQ_OPS_LIST_H

/* A row-parallel product has a point per tree node that its rank owns. */
#define IQ_PIECE_POINTS                                                                                      \
    "y", "y1", "y2", "y3", "y4", "y5", "y6", "y7", "y8", "y9", "y10", "y11", "y12", "y13", "y14", "y15"

#define IQ_OP_MAP(X)                                                                                         \
    X(PREFIX, "prefix", "prefix", "blocks")                                                                  \
    X(WEIGHTS, "weights", "weights", "digest")                                                               \
    X(EMBED, "embed", "embed", "y")                                                                          \
    X(ATTN_NORM, "attn_norm", "rmsnorm", "y")                                                                \
    X(QKV, "qkv", "matmul", "q", "k", "v")                                                                   \
    X(LORA_QKV, "lora_qkv", "lora", "q", "k", "v")                                                           \
    X(Q_NORM, "q_norm", "rmsnorm", "y")                                                                      \
    X(K_NORM, "k_norm", "rmsnorm", "y")                                                                      \
    X(ROPE, "rope", "rope", "q", "k")                                                                        \
    X(KV_WRITE, "kv_write", "kv_write", "k", "v")                                                            \
    X(ATTENTION, "attention", "attention", "y")                                                              \
    X(ATTN_OUT, "attn_out", "matmul", IQ_PIECE_POINTS)                                                       \
    X(ATTN_REDUCE, "attn_reduce", "all_reduce", "y")                                                         \
    X(LORA_OUT, "lora_out", "lora", "y")                                                                     \
    X(ATTN_ADD, "attn_add", "add", "y")                                                                      \
    X(FFN_NORM, "ffn_norm", "rmsnorm", "y")                                                                  \
    X(GATE_UP, "gate_up", "matmul", "gate", "up")                                                            \
    X(LORA_GATE_UP, "lora_gate_up", "lora", "gate", "up")                                                    \
    X(ACT, "act", "swiglu", "y")                                                                             \
    X(DOWN, "down", "matmul", IQ_PIECE_POINTS)                                                               \
    X(FFN_REDUCE, "ffn_reduce", "all_reduce", "y")                                                           \
    X(LORA_DOWN, "lora_down", "lora", "y")                                                                   \
    X(ROUTER, "router", "matmul", "y")                                                                       \
    X(ROUTE, "route", "route", "experts", "weights")                                                         \
    X(DISPATCH, "dispatch", "moe_dispatch", "owner")                                                         \
    X(EXPERT_SEND, "expert_send", "all_to_all", "y")                                                         \
    X(EXPERT_GATE_UP, "expert_gate_up", "grouped_matmul", "gate", "up")                                      \
    X(EXPERT_ACT, "expert_act", "swiglu", "y")                                                               \
    X(EXPERT_DOWN, "expert_down", "grouped_matmul", "y")                                                     \
    X(EXPERT_RETURN, "expert_return", "all_to_all", "y")                                                     \
    X(COMBINE, "combine", "combine", "y")                                                                    \
    X(FFN_ADD, "ffn_add", "add", "y")                                                                        \
    X(FINAL_NORM, "final_norm", "rmsnorm", "y")                                                              \
    X(LM_HEAD, "lm_head", "matmul", "y")                                                                     \
    X(MASK, "mask", "mask", "y")                                                                             \
    X(TEMPER, "temper", "temper", "y")                                                                       \
    X(TOPK, "topk", "topk", "candidates")                                                                    \
    X(SAMPLE, "sample", "sample", "token")

/* Of training (kernels/ops/train.h), in execution order of one step. An engine that answers has none of them. */
#define IQ_TRAIN_OP_MAP(X)                                                                                   \
    X(INIT, "init", "seed", "seed")                                                                          \
    X(DATA, "data", "seed", "seed")                                                                          \
    X(DROPOUT, "dropout", "seed", "seed")                                                                    \
    X(FORWARD, "forward", "product", "y")                                                                    \
    X(INPUT_GRAD, "input_grad", "product", "y")                                                              \
    X(WEIGHT_GRAD, "weight_grad", "product", "y")                                                            \
    X(GRAD_REDUCE, "grad_reduce", "all_reduce", "y")                                                         \
    X(OPTIMISER, "optimiser", "adamw", "w", "m", "v")

/* Of an engine that answers, beside prefix: decisions about requests and KV blocks. They have no layer and no node: what
 * golden records does not know them, and a wrong decision shows in what it does to positions. */
#define IQ_CONTROL_OP_MAP(X)                                                                                 \
    X(ASSEMBLE, "assemble", "assemble", "ids", "sampling")                                                   \
    X(PLACE, "place", "place", "pool")                                                                       \
    X(IDENTITY, "identity", "identity", "root")                                                              \
    X(FORM, "form", "form", "picks")                                                                         \
    X(KV_ALLOC, "kv_alloc", "kv_alloc", "block")                                                             \
    X(KV_EVICT, "kv_evict", "kv_evict", "block")                                                             \
    X(KV_FREE, "kv_free", "kv_free", "fate")                                                                 \
    X(KV_LAND, "kv_land", "kv_land", "landed")                                                               \
    X(KV_MOVE, "kv_move", "kv_move", "copied")                                                               \
    X(ACCEPT, "accept", "accept", "accepted")                                                                \
    X(ROLLBACK, "rollback", "rollback", "valid")                                                             \
    X(DRAFT, "draft", "draft", "draft")

enum iq_op_id {
#define X(id, ...) IQ_OP_##id,
    IQ_OP_MAP(X) IQ_OPS, /* how many compute an answer; those of training follow, then those of control */
    IQ_OP_LAST = IQ_OPS - 1,
    IQ_TRAIN_OP_MAP(X) IQ_TRAIN_OPS_END,
    IQ_OP_TRAIN_LAST = IQ_TRAIN_OPS_END - 1,
    IQ_CONTROL_OP_MAP(X)
#undef X
        IQ_ALL_OPS
};

#define IQ_OP_NONE 0xffff /* prev_op or next_op where there is none */

static inline int iq_op_trains(unsigned op) { return op >= IQ_OPS && op < IQ_TRAIN_OPS_END; }

/* A step makes several calls of a control op; each decides about one request. */
static inline int iq_op_is_control(unsigned op) { return op == IQ_OP_PREFIX || op >= IQ_TRAIN_OPS_END; }

#endif
