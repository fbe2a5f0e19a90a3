/* SmolLM2-135M-Instruct against a float64 forward pass over the same weights (tests/data/smollm2, made outside of this
 * project; 9 significant digits).
 *
 * Errors are held to the bound that rig.h derives: 2 sqrt(n) u, n the roundings on the longest path. */
#include "tests/check_main.h"
#include "tests/engine/rig.h"

#include "kernels/base/json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROMPTS = 8, STEPS = 48, TOP = 24, LAYERS_MAX = 64, FIRST = 4 };

/* ---- the reference ---- */

struct reference {
    cJSON *json;
    const char *name;
    uint32_t *ids, n_ids;
};

static uint32_t *id_list(const cJSON *list, uint32_t *n)
{
    *n = (uint32_t)cJSON_GetArraySize(list);
    uint32_t *ids = calloc(*n + 1, sizeof *ids), i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, list) ids[i++] = (uint32_t)item->valuedouble;
    return ids;
}

static const cJSON *member(const cJSON *obj, const char *key)
{
    const cJSON *m = cJSON_GetObjectItemCaseSensitive(obj, key);
    ck_assert_msg(m != NULL, "the reference has no %s", key);
    return m;
}

static void load_references(struct reference *ref)
{
    cJSON *line[PROMPTS];
    ck_assert_uint_eq(iq_rig_lines("smollm2/logits.jsonl", line, PROMPTS), PROMPTS);
    for (int i = 0; i < PROMPTS; i++) {
        ref[i] = (struct reference){.json = line[i], .name = member(line[i], "name")->valuestring};
        ref[i].ids = id_list(member(line[i], "ids"), &ref[i].n_ids);
    }
}

/* ---- what the engine says of it ---- */

/* Residual rows at each prompt's last position, through the sink. */
struct capture {
    struct iq_rig *rig;
    const struct iq_request *request;
    uint32_t hidden;
    double l2[PROMPTS][LAYERS_MAX];
    float first[PROMPTS][LAYERS_MAX][FIRST];
};

static int on_row(void *self, const struct iq_cell *cell, struct iq_digest d, const void *bytes, size_t n)
{
    struct capture *c = self;
    uint32_t nodes;
    const struct iq_node *node = &iq_engine_nodes(c->rig->engine, &nodes)[cell->node];
    const float *x = bytes;
    double sum = 0;
    (void)d;
    if (!bytes || strcmp(node->op, "ffn_add") || cell->pos + 1 != c->request[cell->request].n_prompt)
        return IQ_OK;
    ck_assert_uint_eq(n, c->hidden * sizeof *x);
    for (size_t i = 0; i < c->hidden; i++) sum += (double)x[i] * (double)x[i];
    c->l2[cell->request][node->layer] = sqrt(sum);
    memcpy(c->first[cell->request][node->layer], x, FIRST * sizeof *x);
    return IQ_OK;
}

static struct iq_model *model;
static struct reference reference[PROMPTS];
static struct capture capture;
static struct iq_rig rig;

static void open_model(void) { model = iq_rig_model(iq_rig_real_model(), 1); }
static void close_model(void) { iq_model_close(model); }

static void run_references(void)
{
    static struct iq_request request[PROMPTS];
    load_references(reference);
    for (uint32_t i = 0; i < PROMPTS; i++)
        request[i] = (struct iq_request){.index = i,
                                         .id = reference[i].name,
                                         .params = "{}",
                                         .prompt = reference[i].ids,
                                         .n_prompt = reference[i].n_ids,
                                         .max_tokens = STEPS,
                                         .top_p = 1};
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    c.threads = 2;
    c.level = IQ_LEVEL_TENSORS;
    c.top = TOP;
    capture = (struct capture){.rig = &rig, .request = request, .hidden = model->config.hidden};
    iq_rig_open(&rig, model, &c, request, PROMPTS, NULL, false);
    rig.also = (struct iq_sink){.self = &capture, .row = on_row};
    iq_rig_go(&rig);
}

static void check_greedy(const struct reference *r, const struct iq_output *o, uint32_t *equal, double *worst)
{
    const cJSON *step;
    uint32_t s = 0;
    cJSON_ArrayForEach(step, member(r->json, "greedy"))
    {
        double margin = member(step, "margin")->valuedouble, logit = member(step, "logit")->valuedouble;
        double bound = iq_rig_logit_bound(&model->config, r->n_ids + s, fabs(logit));
        uint32_t id = (uint32_t)member(step, "id")->valuedouble;
        ck_assert_msg(s < o->n_ids - o->n_prompt, "%s stops before step %u", r->name, s);
        if (o->ids[o->n_prompt + s] != id) {
            ck_assert_msg(margin <= 1e-3, "%s step %u: token %u, expected %u (margin %g)", r->name, s,
                          o->ids[o->n_prompt + s], id, margin);
            return; /* a tie: what follows is another text */
        }
        double error = fabs((double)o->top_logit[(size_t)s * o->top] - logit);
        ck_assert_msg(error <= bound, "%s step %u: logit off by %g, bound %g", r->name, s, error, bound);
        *worst = error / bound > *worst ? error / bound : *worst;
        ++*equal, s++;
    }
    ck_assert_msg(s == o->n_ids - o->n_prompt, "%s goes on after step %u", r->name, s);
}

/* The 20 largest logits at the prompt's end, each among our TOP. */
static double check_top(const struct reference *r, const struct iq_output *o, double *absolute)
{
    const cJSON *pair;
    double worst = 0, bound = 0;
    cJSON_ArrayForEach(pair, member(r->json, "top"))
    {
        double error = INFINITY;
        if (bound == 0) bound = iq_rig_logit_bound(&model->config, r->n_ids, fabs(iq_rig_number(pair, 1)));
        for (uint32_t i = 0; i < o->top; i++)
            if (o->top_id[i] == (uint32_t)iq_rig_number(pair, 0))
                error = fabs((double)o->top_logit[i] - iq_rig_number(pair, 1));
        ck_assert_msg(error <= bound, "%s: logit of %g off by %g, bound %g", r->name, iq_rig_number(pair, 0),
                      error, bound);
        *absolute = error > *absolute ? error : *absolute;
        worst = error / bound > worst ? error / bound : worst;
    }
    return worst;
}

static double check_layers(const struct reference *r, uint32_t i)
{
    const cJSON *layer;
    double worst = 0;
    uint32_t l = 0;
    cJSON_ArrayForEach(layer, member(r->json, "layers"))
    {
        double l2 = member(layer, "l2")->valuedouble, error = fabs(capture.l2[i][l] - l2);
        double bound = (iq_rig_bound(iq_rig_roundings(&model->config, l + 1, r->n_ids)) + 5e-9) *
                       l2; /* and nine digits */
        for (int k = 0; k < FIRST; k++) {
            double off = fabs((double)capture.first[i][l][k] - iq_rig_number(member(layer, "first"), k));
            ck_assert_msg(off <= bound, "%s layer %u: value %d off by %g, bound %g", r->name, l, k, off,
                          bound);
            worst = off / bound > worst ? off / bound : worst;
        }
        ck_assert_msg(error <= bound, "%s layer %u: norm off by %g, bound %g", r->name, l, error, bound);
        worst = error / bound > worst ? error / bound : worst;
        l++;
    }
    ck_assert_uint_eq(l, model->config.layers);
    return worst;
}

START_TEST(greedy_tokens_logits_and_residual_norms_are_the_reference_s)
{
    uint32_t equal = 0;
    double steps = 0, top = 0, absolute = 0, layers = 0;
    run_references();
    for (uint32_t i = 0; i < PROMPTS; i++) {
        const struct iq_output *o = iq_rig_output(&rig, i);
        check_greedy(&reference[i], o, &equal, &steps);
        top = fmax(top, check_top(&reference[i], o, &absolute));
        layers = fmax(layers, check_layers(&reference[i], i));
    }
    printf("smollm2: %u greedy tokens equal; errors as shares of the bound 2 sqrt(n) u: greedy logits %.3f, "
           "top 20 %.3f "
           "(at most %.2g), residual rows %.3f; the bound of a logit of 16.5 after 590 tokens is %.3g\n",
           equal, steps, top, absolute, layers, iq_rig_logit_bound(&model->config, 590, 16.5));
    ck_assert_uint_eq(equal, 268);
    iq_rig_close(&rig);
}
END_TEST

START_TEST(perplexity_is_the_reference_s_to_five_digits)
{
    struct iq_err err = {0};
    cJSON *all;
    const cJSON *text;
    double worst = 0;
    ck_assert_msg(iq_json_load(iq_rig_data("smollm2/perplexity.json"), 1 << 20, &all, &err) == IQ_OK, "%s",
                  err.text);
    cJSON_ArrayForEach(text, all)
    {
        uint32_t n;
        uint32_t *ids = id_list(member(text, "ids"), &n);
        const struct iq_request r = {
            .id = "text", .params = "{}", .prompt = ids, .n_prompt = n, .top_p = 1, .score = true};
        struct iq_engine_config c = IQ_ENGINE_CONFIG;
        double sum = 0, mean = member(text, "mean")->valuedouble;
        char got[16], want[16];
        c.threads = 2;
        iq_rig_run(&rig, model, &c, &r, 1, NULL, false);
        const double *nll = iq_rig_output(&rig, 0)->nll;
        /* Each token's error: of its logit and of the largest, both below twice the bound of a logit of 32. */
        for (uint32_t i = 1; i < n; i++) {
            double error = fabs(nll[i] - iq_rig_number(member(text, "nll"), (int)i - 1));
            double bound = 2 * iq_rig_logit_bound(&model->config, i, 32) + 5e-7;
            ck_assert_msg(error <= bound, "token %u: %g nats off, bound %g", i, error, bound);
            worst = error > worst ? error : worst;
            sum += nll[i];
        }
        sum /= n - 1;
        snprintf(got, sizeof got, "%.5g", sum);
        snprintf(want, sizeof want, "%.5g", mean);
        printf("smollm2: %s: mean %.9f nats, reference %.9f\n", member(text, "name")->valuestring, sum, mean);
        ck_assert_str_eq(got, want);
        iq_rig_close(&rig);
        free(ids);
    }
    printf("smollm2: worst token %.2g nats off\n", worst);
    iq_json_free(all);
}
END_TEST

int main(void)
{
    iq_rig_real_model();
    Suite *s = suite_create("smollm2");
    TCase *c = tcase_create("reference");
    tcase_set_timeout(c, 600);
    tcase_add_checked_fixture(c, open_model, close_model);
    tcase_add_test(c, greedy_tokens_logits_and_residual_norms_are_the_reference_s);
    tcase_add_test(c, perplexity_is_the_reference_s_to_five_digits);
    suite_add_tcase(s, c);
    return check_main(s);
}
