#include "harness/canary/recipe.h"

#include "golden/canary/canary.h"
#include "harness/model/embedded.h"

/* What both have. What mattered: attention's and the feed-forward's outputs begin at zero, embeddings at deviation 1; a
 * rotary base that reaches over the whole context; the final decay, which brings 90-97 % to 99-100 %. */
#define SHARED                                                                                               \
    .vocab = IQ_CANARY_VOCAB, .hidden = 192, .heads = 8, .kv_heads = 8, .head_dim = 32,                      \
    .length = IQ_CANARY_CONTEXT, .rope_base = 500000, .norm_eps = 1e-5, .init_embed = 1, .init_in = 0.036,   \
    .init_head = 0.036, .steps = 5400, .warmup = 100, .schedule = IQ_TRAIN_LINEAR, .tail = 0.3,              \
    .rate = 1.4e-3, .beta1 = 0.9, .beta2 = 0.95, .eps = 1e-8, .decay = 0.1, .clip = 1.0, .seed = 1

/* Taken while the shipped file was made. */
static const struct iq_canary_golden dense_golden[] = {{20, "e1281e6de19168b97b21486ef5b2f0a9"},
                                                       {100, "e12a22628a24526a9ce6dc986ffe0e2a"},
                                                       {200, "dd10a02d659e42f1361fd4ca01f01b7d"},
                                                       {500, "49ee39ccb1954bf0c91847208c25f4c7"},
                                                       {1000, "c084185f65ddbe1ff7db2c24f242badd"},
                                                       {1500, "09e62f71953a4529b2e97dbe8a9bf402"},
                                                       {2000, "5ab89ce54e02e0bd0fcfca049e445111"},
                                                       {2500, "d1d6057ece7f567fc40ba44926a7a4c2"},
                                                       {3000, "961486ab56bfe20f466d302819efe869"},
                                                       {3500, "1443c3fa6bbf501400fe2126ba4356fa"},
                                                       {4000, "b5b6c7c62dde4f244ec3f5209d9353eb"},
                                                       {4500, "548e7e6025d46c2e620b0082ef8d5f51"},
                                                       {5000, "19fdc72ccdfb5233ca50bbcf5a541ce8"},
                                                       {5400, "85f639da44db6b9605fb00e05296fc7e"},
                                                       {0, NULL}};
static const struct iq_canary_golden moe_golden[] = {{20, "4005a21cf7fa7fc049f7fc308d2f0d04"},
                                                     {100, "fe232a201a016a0f3781b92ac2a052bd"},
                                                     {200, "d6211a3b3a96774dc2bc4796874ade14"},
                                                     {500, "d8db8d7745a7a41b3f45985ec39ac261"},
                                                     {1000, "7b6ea6e09abe4f7a3eb1271479dd1104"},
                                                     {1500, "348d216bc0c0d62191ba41c23a8f25c7"},
                                                     {2000, "4502715e30edfa9202042a6c27d2b987"},
                                                     {2500, "5de74d21d4f5309fcbcecefcf4e52b52"},
                                                     {3000, "ab9813c3c0f2142006843285d8b6a2e7"},
                                                     {3500, "62c7487800247dabdc588e629f6eb430"},
                                                     {4000, "725e1bfe4e16a2f14af3d65f7e562777"},
                                                     {4500, "5d4d880f9d3036d157da58ee935519a4"},
                                                     {5000, "5cf1ffadef021844f6a02bd782beebf3"},
                                                     {5400, "88a01fff75dd850b05a32a85b39b9078"},
                                                     {5700, "3f07c0e9030fd4a061cadb550c273655"},
                                                     {6000, "b1d93adb8d7858e80f9e9251bb4658d7"},
                                                     {0, NULL}};

const struct iq_canary_recipe iq_canary_dense = {
    .name = "dense",
    .train = {SHARED, .layers = 5, .ffn = 256},
    .golden = dense_golden,
    .sha256 = IQ_EMBEDDED_DENSE_SHA256,
};

const struct iq_canary_recipe iq_canary_moe = {
    .name = "moe",
    .train = {SHARED, .layers = 4, .ffn = 56, .experts = 8, .active = 2, .init_router = 0.02, .balance = 0.01,
              .encore = 600, .encore_rate = 4e-4},
    .golden = moe_golden,
    .sha256 = IQ_EMBEDDED_MOE_SHA256,
};
