#include "tests/engine/make_adapter.h"

#include "kernels/base/buf.h"
#include "kernels/base/json.h"
#include "tests/files/make_model.h"
#include "tests/files/scratch.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const modules[IQ_TARGETS] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                "mlp.down_proj"};

static void dims(const struct iq_model_config *c, unsigned target, uint32_t *n, uint32_t *k)
{
    uint32_t qw = c->heads * c->head_dim, kw = c->kv_heads * c->head_dim, h = c->hidden, f = c->ffn;
    const uint32_t of[IQ_TARGETS][2] = {{qw, h}, {kw, h}, {kw, h}, {h, qw}, {f, h}, {f, h}, {h, f}};
    *n = of[target][0], *k = of[target][1];
}

struct out {
    struct iq_buf header, data;
    uint64_t seed;
};

static void put(struct out *o, const char *name, uint32_t rows, uint32_t columns)
{
    size_t begin = o->data.len, n = (size_t)rows * columns;
    for (size_t i = 0; i < n; i++) {
        float w = iq_test_weight(o->seed, name, i, 0, 0.2f);
        iq_buf_put(&o->data, &w, sizeof w);
    }
    iq_buf_printf(&o->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[%u,%u],\"data_offsets\":[%zu,%zu]}",
                  o->header.len > 1 ? "," : "", name, rows, columns, begin, o->data.len);
}

static void write(const char *folder, const char *name, const struct iq_buf *b)
{
    char path[4200];
    struct iq_err err = {0};
    snprintf(path, sizeof path, "%s/%s", folder, name);
    ck_assert_msg(!b->failed && iq_test_write_file(path, b->data, b->len, &err) == IQ_OK, "%s", err.text);
}

void iq_test_write_adapter(const char *path, const struct iq_model_config *c, const struct iq_adapter_spec *s)
{
    struct out o = {.header = IQ_BUF(1 << 20), .data = IQ_BUF(1 << 26), .seed = s->seed};
    struct iq_buf file = IQ_BUF(1 << 26), config = IQ_BUF(1 << 16);
    char name[200];
    iq_buf_put(&o.header, "{", 1);
    for (uint32_t l = 0; l < c->layers; l++)
        for (unsigned t = 0; t < IQ_TARGETS; t++) {
            uint32_t n, k;
            if (!(s->targets >> t & 1)) continue;
            dims(c, t, &n, &k);
            snprintf(name, sizeof name, "base_model.model.model.layers.%u.%s.lora_A.weight", l, modules[t]);
            put(&o, name, s->rank, k);
            snprintf(name, sizeof name, "base_model.model.model.layers.%u.%s.lora_B.weight", l, modules[t]);
            put(&o, name, n, s->rank);
        }
    if (s->extra) put(&o, s->extra, 1, 1);
    iq_buf_put(&o.header, "}", 1);
    while (o.header.len % 8) iq_buf_put(&o.header, " ", 1);
    uint64_t len = o.header.len;
    iq_buf_put(&file, &len, sizeof len);
    iq_buf_put(&file, o.header.data, o.header.len);
    iq_buf_put(&file, o.data.data, o.data.len);
    write(path, "adapter_model.safetensors", &file);
    iq_buf_printf(&config,
                  "{\"peft_type\":\"LORA\",\"r\":%u,\"lora_alpha\":%g,\"bias\":\"none\",\"use_rslora\":%s%s}",
                  s->rank, s->alpha, s->rslora ? "true" : "false", s->config ? s->config : "");
    write(path, "adapter_config.json", &config);
    iq_buf_free(&o.header), iq_buf_free(&o.data), iq_buf_free(&file), iq_buf_free(&config);
}

struct iq_adapter *iq_test_adapter(const char *name, const char *path, const struct iq_model *m)
{
    struct iq_err err = {0};
    struct iq_adapter *a;
    ck_assert_msg(iq_adapter_open(name, path, m, &a, &err) == IQ_OK, "%s", err.text);
    return a;
}

/* ---- merging ---- */

static void merge(float *w, const struct iq_lora_pair *p, uint32_t n, uint32_t k)
{
    for (uint32_t o = 0; o < n; o++)
        for (uint32_t i = 0; i < k; i++) {
            double sum = 0;
            for (uint32_t r = 0; r < p->rank; r++)
                sum += (double)p->b[(size_t)o * p->rank + r] * (double)p->a[(size_t)r * k + i];
            w[(size_t)o * k + i] = (float)((double)w[(size_t)o * k + i] + (double)p->scale * sum);
        }
}

void iq_test_merge_adapter(const char *folder, const struct iq_model *m, const struct iq_adapter *a)
{
    char path[4200], name[200];
    struct iq_err err = {0};
    size_t len;
    cJSON *header;
    uint64_t head;
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    char *bytes = iq_slurp(path, &len);
    memcpy(&head, bytes, sizeof head);
    ck_assert_msg(iq_json_parse(bytes + 8, head, path, &header, &err) == IQ_OK, "%s", err.text);
    for (uint32_t l = 0; l < m->config.layers; l++)
        for (unsigned t = 0; t < IQ_TARGETS; t++) {
            uint32_t n, k;
            const struct iq_lora_pair *p = &a->pair[l * IQ_TARGETS + t];
            if (!p->rank) continue;
            dims(&m->config, t, &n, &k);
            snprintf(name, sizeof name, "model.layers.%u.%s.weight", l, modules[t]);
            const cJSON *item = cJSON_GetObjectItemCaseSensitive(header, name);
            ck_assert_msg(item != NULL, "%s is not in %s", name, path);
            size_t at =
                8 + head + (size_t)cJSON_GetObjectItemCaseSensitive(item, "data_offsets")->child->valuedouble;
            float *w = malloc((size_t)n * k * sizeof *w);
            memcpy(w, bytes + at, (size_t)n * k * sizeof *w);
            merge(w, p, n, k);
            memcpy(bytes + at, w, (size_t)n * k * sizeof *w);
            free(w);
        }
    ck_assert_int_eq(iq_test_write_file(path, bytes, len, &err), IQ_OK);
    iq_json_free(header);
    free(bytes);
}
