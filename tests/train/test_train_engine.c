/* What the trainer computes forward is what the engine serves: with the same weights, the logits have the same bits. */
#include "engine/train/train.h"
#include "kernels/matrix.h"
#include "tests/check_main.h"
#include "tests/engine/rig.h"
#include "tests/files/make_model.h"
#include "tests/files/scratch.h"

#include <stdlib.h>
#include <string.h>

enum { PROMPT = 270, ANSWER = 20 }; /* past attention's first 256 keys */

static void copy_matrix(float **to, const struct iq_matrix *m)
{
    for (uint32_t i = 0; i < m->n; i++, *to += m->k) iq_matrix_row(m, i, *to);
}

static void copy_vector(float **to, const float *x, size_t n)
{
    memcpy(*to, x, n * sizeof *x);
    *to += n;
}

static void copy_experts(float **to, const struct iq_expert_weights *x, uint32_t experts)
{
    copy_matrix(to, &x->router);
    for (uint32_t e = 0; e < experts; e++) {
        copy_matrix(to, &x->gate[e]);
        copy_matrix(to, &x->up[e]);
    }
    for (uint32_t e = 0; e < experts; e++) copy_matrix(to, &x->down[e]);
}

/* The engine's weights in the trainer's order. */
static void copy_weights(float *to, const struct iq_model *m)
{
    const size_t d = m->config.hidden;
    copy_matrix(&to, &m->embed);
    for (uint32_t i = 0; i < m->config.layers; i++) {
        const struct iq_layer_weights *l = &m->layer[i];
        copy_vector(&to, l->attn_norm, d);
        copy_matrix(&to, &l->rank[0].q);
        copy_matrix(&to, &l->rank[0].k);
        copy_matrix(&to, &l->rank[0].v);
        copy_matrix(&to, &l->rank[0].out[0]);
        copy_vector(&to, l->ffn_norm, d);
        if (m->config.experts) {
            copy_experts(&to, &l->experts, m->config.experts);
            continue;
        }
        copy_matrix(&to, &l->rank[0].gate);
        copy_matrix(&to, &l->rank[0].up);
        copy_matrix(&to, &l->rank[0].down[0]);
    }
    copy_vector(&to, m->final_norm, d);
    if (!m->config.tied) copy_matrix(&to, &m->head);
}

static struct iq_train *open_twin(const struct iq_model *m, const char *isa)
{
    const struct iq_model_config *c = &m->config;
    struct iq_train_recipe r = {.vocab = c->vocab,
                                .hidden = c->hidden,
                                .layers = c->layers,
                                .heads = c->heads,
                                .kv_heads = c->kv_heads,
                                .head_dim = c->head_dim,
                                .ffn = c->ffn,
                                .experts = c->experts,
                                .active = c->active,
                                .length = PROMPT + ANSWER,
                                .tied = c->tied,
                                .rope_base = c->rope.theta,
                                .norm_eps = c->norm_eps,
                                .steps = 1};
    struct iq_train_options o = {.threads = 2, .isa = isa};
    struct iq_train *t;
    struct iq_err err = {0};
    ck_assert_msg(iq_train_open(&r, &o, &t, &err) == IQ_OK, "%s", err.text);
    copy_weights((float *)iq_train_weights(t, NULL), m);
    return t;
}

/* Every logit of the ANSWER generated positions. */
static void check_logits(struct iq_train *t, const struct iq_output *out, uint32_t vocab, const char *isa)
{
    float *logits = malloc((size_t)(PROMPT + ANSWER) * vocab * sizeof *logits);
    struct iq_err err = {0};
    ck_assert_uint_eq(out->n_ids, PROMPT + ANSWER);
    ck_assert_uint_eq(out->top, vocab);
    ck_assert_msg(iq_train_logits(t, out->ids, out->n_ids, logits, &err) == IQ_OK, "%s", err.text);
    for (uint32_t i = 0; i < ANSWER; i++)
        for (uint32_t j = 0; j < vocab; j++) {
            const float *got = &logits[(size_t)(PROMPT - 1 + i) * vocab + out->top_id[i * vocab + j]];
            ck_assert_msg(!memcmp(got, &out->top_logit[i * vocab + j], sizeof *got),
                          "%s: position %u, token %u: the trainer's logit is %a, the engine's %a", isa, i,
                          out->top_id[i * vocab + j], (double)*got, (double)out->top_logit[i * vocab + j]);
        }
    free(logits);
}

static void compare(struct iq_test_spec spec)
{
    struct iq_err err = {0};
    struct iq_rig rig;
    uint32_t prompt[PROMPT];
    spec.hf = true;
    const char *path = iq_scratch_dir("m");
    ck_assert_msg(iq_test_write_model(path, &spec, 3, &err) == IQ_OK, "%s", err.text);
    struct iq_model *m = iq_rig_model(path, 1);
    for (uint32_t i = 0; i < PROMPT; i++) prompt[i] = (uint32_t)(iq_rig_draw(7, i) % m->config.vocab);
    struct iq_request request = {.id = "0",
                                 .params = "{}",
                                 .prompt = prompt,
                                 .n_prompt = PROMPT,
                                 .max_tokens = ANSWER,
                                 .top_p = 1,
                                 .ignore_stop = true};
    struct iq_engine_config config = IQ_ENGINE_CONFIG;
    config.top = m->config.vocab;
    iq_rig_run(&rig, m, &config, &request, 1, NULL, false);
    const struct iq_train_ops *o;
    for (size_t i = 0; (o = iq_train_ops_at(i)); i++) {
        if (o->usable && !o->usable()) continue;
        struct iq_train *t = open_twin(m, o->name);
        check_logits(t, iq_rig_output(&rig, 0), m->config.vocab, o->name);
        iq_train_close(t);
    }
    iq_rig_close(&rig);
    iq_model_close(m);
}

START_TEST(logits_have_the_engines_bits) { compare(iq_test_spec_default()); }
END_TEST

START_TEST(logits_have_the_engines_bits_where_the_head_is_tied_and_heads_are_24_wide)
{
    struct iq_test_spec spec = iq_test_spec_default();
    spec.tied = true;
    spec.head_dim = 24;
    compare(spec);
}
END_TEST

START_TEST(a_mixture_of_experts_has_the_engines_bits)
{
    struct iq_test_spec spec = iq_test_spec_default();
    spec.arch = "mixtral";
    spec.experts = 8;
    spec.active = 3;
    compare(spec);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("train_engine");
    TCase *c = tcase_create("engine");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
    tcase_add_test(c, logits_have_the_engines_bits);
    tcase_add_test(c, logits_have_the_engines_bits_where_the_head_is_tied_and_heads_are_24_wide);
    tcase_add_test(c, a_mixture_of_experts_has_the_engines_bits);
    suite_add_tcase(s, c);
    return check_main(s);
}
