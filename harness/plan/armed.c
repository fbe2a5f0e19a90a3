#include "harness/plan/armed.h"

#include "harness/cli/progress.h"

#include <stdlib.h>
#include <string.h>

static int fired(void *self, const struct iq_firing *f)
{
    struct iq_armed *a = self;
    iq_fired_add(a->fired, a->plan.n, f);
    return IQ_OK;
}

static int count(void *self, const struct iq_site *site, const struct iq_firing *f)
{
    (void)site;
    return fired(self, f);
}

static int arm(struct iq_armed *a, bool training, struct iq_err *err)
{
    IQ_TRY(iq_plan_check_ops(&a->plan, training, err));
    IQ_TRY(iq_faultset_open(a->plan.fault, a->plan.n, a->plan.seed, &a->set, err));
    iq_faultset_selector(a->set, &a->selector);
    a->tap = (struct iq_tap){.self = a, .fired = count};
    a->sink = (struct iq_sink){.self = a, .fired = fired};
    a->fired = calloc(a->plan.n + 1, sizeof *a->fired);
    return a->fired ? IQ_OK : iq_fail(err, IQ_MEMORY, "no memory for %zu faults", a->plan.n);
}

static int finish(struct iq_armed *a, bool training, int status, struct iq_err *err)
{
    if (status == IQ_OK) status = arm(a, training, err);
    if (status != IQ_OK) iq_armed_close(a);
    return status;
}

int iq_armed_load(const char *path, struct iq_armed *a, struct iq_err *err)
{
    *a = (struct iq_armed){0};
    return finish(a, true, iq_plan_load(path, &a->plan, NULL, err), err);
}

int iq_armed_load_engine(const char *path, struct iq_settings *settings, struct iq_armed *a,
                         struct iq_err *err)
{
    *a = (struct iq_armed){0};
    return finish(a, false, iq_plan_load(path, &a->plan, settings, err), err);
}

int iq_armed_parse(const char *text, const char *where, struct iq_armed *a, struct iq_err *err)
{
    cJSON *json = NULL;
    *a = (struct iq_armed){0};
    int status = iq_json_parse(text, strlen(text), where, &json, err);
    if (status == IQ_OK) status = iq_plan_parse(json, where, &a->plan, NULL, err);
    iq_json_free(json);
    return finish(a, true, status, err);
}

void iq_armed_close(struct iq_armed *a)
{
    iq_faultset_close(a->set);
    iq_fired_free(a->fired, a->plan.n);
    iq_plan_free(&a->plan);
    *a = (struct iq_armed){0};
}

void iq_armed_say(const struct iq_armed *a)
{
    struct iq_buf text = IQ_BUF(1 << 20);
    iq_fired_text(&a->plan, a->fired, &text);
    for (char *line = text.data, *end; line && (end = strchr(line, '\n')); line = end + 1)
        iq_say("%.*s", (int)(end - line), line);
    iq_buf_free(&text);
}

void iq_armed_options(const struct iq_armed *a, struct iq_train_options *o)
{
    o->selector = &a->selector;
    o->tap = &a->tap;
}

struct iq_digest iq_armed_digest(const struct iq_armed *a)
{
    struct iq_buf text = IQ_BUF(1 << 22);
    struct iq_jw w = IQ_JW(&text);
    iq_plan_write(&a->plan, &w);
    struct iq_digest d = iq_digest_bytes(text.data, text.len);
    iq_buf_free(&text);
    return d;
}
