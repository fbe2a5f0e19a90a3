/* Every family of faults in an engine: where it strikes, and what the comparator has to say of it. A row a form; whoever
 * adds a family adds rows. test_families.c puts each through the same: with rate 0 nothing fires and no bit differs; armed it
 * fires, changes rows and is called what `label` says, at `guilty` first; where `masked` says how it can't strike, no bit
 * differs. */
#ifndef IQ_TESTS_ENGINE_FAMILIES_TABLE_H
#define IQ_TESTS_ENGINE_FAMILIES_TABLE_H

#include "golden/finding.h"

#include <stdbool.h>
#include <stdint.h>

/* Of the small models: dense (8 KV heads, 2 layers), a mixture of 8 experts of which 2 are active. */
enum families_model { DENSE, EXPERTS };
/* Prompts: a few short ones that share heads; a long one that is still read while short ones answer. */
enum families_prompts { SHORT, MIXED };

struct families_setting {
    enum families_prompts prompts;
    uint32_t batch, chunk; /* 0: the usual */
    bool captured;
};

#define SHORT_ONES                                                                                           \
    {                                                                                                        \
        .prompts = SHORT                                                                                     \
    }
#define LONG_ONES                                                                                            \
    {                                                                                                        \
        .prompts = MIXED                                                                                     \
    }
#define LONG_ONES_IN_PARTS                                                                                   \
    {                                                                                                        \
        .prompts = MIXED, .chunk = 32                                                                        \
    }
#define CAPTURED_ONES                                                                                        \
    {                                                                                                        \
        .prompts = SHORT, .batch = 3, .captured = true                                                       \
    }

struct families_row {
    const char *family, *op, *variant, *params;
    const char *more; /* members of the fault: ,"when":{...} */
    enum families_model model;
    uint32_t tp; /* tensor- and, for experts, expert-parallel ranks */
    struct families_setting setting;
    enum iq_label label;
    const char *guilty;
    bool others;        /* other ops are guilty as well: what it breaks outlives the call */
    const char *masked; /* parameters with which it can't strike; NULL: none */
};

/* Written as a call, so that rows are laid out as lines. */
#define FAMILY(...)                                                                                          \
    {                                                                                                        \
        __VA_ARGS__                                                                                          \
    }

static const struct families_row families[] = {
    /* K1 */
    FAMILY("K1", "topk", "bucket_overflow", "{\"capacity\":8}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG,
           "topk", false, "{\"capacity\":400}"),
    FAMILY("K1", "topk", "cleared_histogram", "{\"ties\":8}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG,
           "topk", false, "{\"ties\":400}"),
    FAMILY("K1", "topk", "index_bias", "{\"step\":1e-3}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG, "topk",
           false, "{\"step\":0}"),
    FAMILY("K1", "route", "expert_bias", "{\"step\":1e-2}", "", EXPERTS, 1, SHORT_ONES, IQ_LABEL_WRONG,
           "route", false, "{\"step\":0}"),
    /* K4 */
    FAMILY("K4", "topk", "row_wrap", "{\"limit\":400}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG, "topk",
           false, "{\"limit\":1e6}"),
    FAMILY("K4", "lm_head", "input_wrap", "{\"limit\":200}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG,
           "lm_head", false, "{\"limit\":1e6}"),
    FAMILY("K4", "ffn_norm", "norm_wrap", "{\"limit\":1000}", "", DENSE, 1, LONG_ONES, IQ_LABEL_WRONG,
           "ffn_norm", false, "{\"limit\":1e6}"),
    FAMILY("K4", "kv_write", "kv_wrap", "{\"limit\":4}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG, "kv_write",
           true, "{\"limit\":1e6}"),
    /* K7 */
    FAMILY("K7", "attention", "split_combine", "{\"split\":32}", "", DENSE, 1, LONG_ONES_IN_PARTS,
           IQ_LABEL_WRONG, "attention", false, "{\"split\":512}"),
    FAMILY("K7", "attention", "split_combine", "{\"split\":8,\"left\":1,\"mistake\":0}", "", DENSE, 1,
           LONG_ONES_IN_PARTS, IQ_LABEL_CRASHED, "attention", false, NULL),
    FAMILY("K7", "attention", "split_combine", "{\"split\":32,\"mistake\":1}", "", DENSE, 1, LONG_ONES,
           IQ_LABEL_WRONG, "attention", false, "{\"split\":512,\"mistake\":1}"),
    FAMILY("K7", "attention", "split_combine", "{\"split\":32,\"mistake\":2}", "", DENSE, 2, LONG_ONES,
           IQ_LABEL_WRONG, "attention", false, "{\"split\":512,\"mistake\":2}"),
    /* K8: a batch of 3 is padded to 4 */
    FAMILY("K8", "down", "shared_scale", "{\"padding\":2}", "", DENSE, 1, CAPTURED_ONES, IQ_LABEL_WRONG,
           "down", false, NULL),
    FAMILY("K8", "down", "shared_scale", "{\"padding\":3}", "", DENSE, 1, CAPTURED_ONES, IQ_LABEL_CRASHED,
           "down", false, NULL),
    FAMILY("K8", "attention", "null_block", "{}", "", DENSE, 1, CAPTURED_ONES, IQ_LABEL_CRASHED, "attention",
           false, "{\"left\":0}"),
    /* K9 */
    FAMILY("K9", "gate_up", "frozen_input", "{}", "", DENSE, 1, CAPTURED_ONES, IQ_LABEL_WRONG, "gate_up",
           false, NULL),
    FAMILY("K9", "gate_up", "frozen_input", "{\"holds\":1}", "", DENSE, 1, CAPTURED_ONES, IQ_LABEL_WRONG,
           "gate_up", false, NULL),
    FAMILY("K9", "ffn_reduce", "warmup_skipped", "{}", "", DENSE, 2, CAPTURED_ONES, IQ_LABEL_WRONG,
           "ffn_reduce", false, NULL),
    /* K11, and the precision that it is held against */
    FAMILY("K11", "attention", "kv_scale_lost", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG, "attention",
           false, NULL),
    FAMILY("K11", "attention", "kv_fp8", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_SUSPECT, "attention", false,
           NULL),
    /* K12 */
    FAMILY("K12", "attention", "unwritten_tail", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG, "attention",
           false, "{\"low\":15,\"high\":15}"),
    /* K14 */
    FAMILY("K14", "dispatch", "first_of_block", "{}", "", EXPERTS, 1, SHORT_ONES, IQ_LABEL_WRONG, "dispatch",
           false, NULL),
    FAMILY("K14", "dispatch", "shared_counts", "{\"block\":16}", "", EXPERTS, 1, LONG_ONES, IQ_LABEL_WRONG,
           "dispatch", false, "{\"block\":512}"),
    FAMILY("K14", "route", "half_candidates", "{}", ",\"when\":{\"tokens\":{\"min\":17}}", EXPERTS, 1,
           LONG_ONES, IQ_LABEL_WRONG, "route", false, "{\"share\":1}"),
    FAMILY("K14", "expert_return", "uneven_ranks", "{}", "", EXPERTS, 2, SHORT_ONES, IQ_LABEL_WRONG,
           "expert_return", false, "{\"ranks\":1}"),
    /* K15: controls */
    FAMILY("K15", "attn_norm", "norm_block", "{\"tokens\":20}", "", DENSE, 1, LONG_ONES, IQ_LABEL_BENIGN,
           "attn_norm", false, "{\"tokens\":1e6}"),
    FAMILY("K15", "down", "tile_by_tokens", "{\"tokens\":20}", "", DENSE, 1, LONG_ONES, IQ_LABEL_BENIGN,
           "down", false, "{\"tokens\":1e6}"),
    FAMILY("K15", "attention", "split_by_batch", "{}", "", DENSE, 1, LONG_ONES, IQ_LABEL_BENIGN, "attention",
           false, NULL),
    /* K18 */
    FAMILY("K18", "down", "batch_stride", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG, "down", false,
           "{\"tile\":53}"),
    /* K19 */
    FAMILY("K19", "down", "matmul_upset", "{\"where\":2}", ",\"rate\":0.1", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "down", false, NULL),
    FAMILY("K19", "qkv", "matmul_upset", "{\"where\":1,\"bit\":27}", ",\"rate\":0.1", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "qkv", false, NULL),
    FAMILY("K19", "lm_head", "matmul_upset", "{\"bit\":22}", ",\"rate\":0.3", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "lm_head", false, NULL),
    FAMILY("K19", "ffn_add", "add_upset", "{\"bit\":27}", ",\"rate\":0.1", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "ffn_add", false, NULL),
    FAMILY("K19", "attn_norm", "norm_upset", "{\"bit\":27}", ",\"rate\":0.1", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "attn_norm", false, NULL),
    FAMILY("K19", "attention", "attention_upset", "{\"bit\":27}", ",\"rate\":0.3", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "attention", false, NULL),
    FAMILY("K19", "kv_write", "kv_upset", "{\"bit\":27}", ",\"rate\":0.1", DENSE, 1, SHORT_ONES,
           IQ_LABEL_WRONG, "kv_write", false, NULL),
    FAMILY("K19", "ffn_reduce", "reduce_upset", "{\"where\":1,\"bit\":27}", ",\"rate\":0.1", DENSE, 2,
           SHORT_ONES, IQ_LABEL_WRONG, "ffn_reduce", false, NULL),
    /* Really miscompiled: what any compiler makes of these flags */
    FAMILY("compiler", "down", "matmul_fast_math", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_BENIGN, "down",
           false, NULL),
    FAMILY("compiler", "attn_norm", "norm_half", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_SUSPECT,
           "attn_norm", false, NULL),
    FAMILY("compiler", "attention", "attention_half", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_WRONG,
           "attention", false, NULL),
    FAMILY("compiler", "down", "matmul_half", "{}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_SUSPECT, "down", false,
           NULL), /* half holds the small integers of exact data */
    /* K28 */
    FAMILY("K28", "gate_up", "matmul_mode", "{\"mode\":1}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_BENIGN,
           "gate_up", false, "{\"mode\":0}"),
    FAMILY("K28", "attn_norm", "norm_mode", "{\"mode\":2}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_BENIGN,
           "attn_norm", false, "{\"mode\":0}"),
    FAMILY("K28", "attention", "attention_mode", "{\"mode\":1}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_BENIGN,
           "attention", false, "{\"mode\":0}"),
    FAMILY("K28", "ffn_add", "add_mode", "{\"mode\":1}", "", DENSE, 1, SHORT_ONES, IQ_LABEL_BENIGN, "ffn_add",
           false, "{\"mode\":0}"),
    FAMILY("K28", "ffn_reduce", "reduce_mode", "{\"mode\":2}", "", DENSE, 2, SHORT_ONES, IQ_LABEL_BENIGN,
           "ffn_reduce", false, "{\"mode\":0}"),
};
enum { FAMILIES = sizeof families / sizeof *families };

#endif
