#define _GNU_SOURCE
#include "tests/files/opening.h"
#include "tests/files/scratch.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

const char *iq_written(const struct iq_test_spec *s)
{
    struct iq_err err = {0};
    const char *path = iq_scratch(s->hf ? "" : "m.gguf");
    ck_assert_msg(iq_test_write_model(path, s, 11, &err) == IQ_OK, "%s", err.text);
    return path;
}

const char *iq_hf_with(const char *arch, const char *scaling, const char *extra)
{
    struct iq_test_spec s = iq_test_spec_default();
    s.arch = arch, s.hf = true, s.rope_scaling = scaling, s.extra = extra, s.no_tokenizer = true;
    return iq_written(&s);
}

void iq_poke_u32(const char *key, uint32_t value)
{
    size_t n;
    char *bytes = iq_slurp(iq_scratch("m.gguf"), &n), *at = memmem(bytes, n, key, strlen(key));
    ck_assert_ptr_nonnull(at);
    memcpy(at + strlen(key) + 4, &value, sizeof value);
    iq_spill(iq_scratch("m.gguf"), bytes, n);
    free(bytes);
}

struct iq_model_file *iq_take_file(const char *path)
{
    struct iq_err err = {0};
    struct iq_model_file *m;
    ck_assert_msg(iq_model_file_open(path, &m, &err) == IQ_OK, "%s", err.text);
    return m;
}

void iq_refuse_file(const char *path, int status, const char *says, const char *also)
{
    struct iq_err err = {0};
    struct iq_model_file *m = (struct iq_model_file *)&err;
    int got = iq_model_file_open(path, &m, &err);
    ck_assert_msg(got == status, "found status %d (%s), expected %d with '%s'", got, err.text, status, says);
    ck_assert_ptr_null(m);
    ck_assert_msg(strstr(err.text, says) && strstr(err.text, also), "'%s' lacks '%s' or '%s'", err.text, says,
                  also);
}

int iq_try_model(const char *path, struct iq_opened *o, struct iq_err *err)
{
    *o = (struct iq_opened){0};
    int status = iq_model_file_open(path, &o->m, err);
    return status == IQ_OK ? iq_model_config_read(o->m, &o->c, &o->t, err) : status;
}

struct iq_opened iq_take_model(const char *path)
{
    struct iq_opened o;
    struct iq_err err = {0};
    ck_assert_msg(iq_try_model(path, &o, &err) == IQ_OK, "%s", err.text);
    return o;
}

void iq_drop_model(struct iq_opened *o)
{
    iq_model_config_free(&o->c, &o->t);
    iq_model_file_close(o->m);
}

void iq_refuse_model(const char *path, int status, const char *says)
{
    struct iq_opened o;
    struct iq_err err = {0};
    int got = iq_try_model(path, &o, &err);
    ck_assert_msg(got == status && strstr(err.text, says), "found status %d '%s', expected %d with '%s'", got,
                  err.text, status, says);
    iq_drop_model(&o);
}

bool iq_noted(const struct iq_opened *o, const char *says)
{
    for (size_t i = 0; i < iq_model_file_note_count(o->m); i++)
        if (strstr(iq_model_file_note(o->m, i), says)) return true;
    return false;
}

static void collect(void *ctx, bool tensor, const char *name)
{
    iq_buf_printf(ctx, "%s%s;", tensor ? "T:" : "", name);
}

char *iq_unread(const struct iq_model_file *m)
{
    struct iq_buf b = IQ_BUF(1 << 20);
    iq_buf_put(&b, "", 0);
    iq_model_file_unread(m, collect, &b);
    return b.data;
}
