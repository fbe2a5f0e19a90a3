/* Prompt files, plans and trajectories: what a user hands to run. The first byte chooses. */
#define _GNU_SOURCE
#include "harness/plan/plan.h"
#include "harness/plan/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void same(const char *a, const char *b)
{
    if (!a || !b || strcmp(a, b)) {
        fprintf(stderr, "written: %s\nread and written again: %s\n", a, b);
        abort();
    }
}

/* What a record keeps of a prompt is read again as the same. */
static void recorded(const struct iq_prompt *p)
{
    struct iq_prompts again = {0};
    struct iq_err err;
    if (iq_prompts_recorded(p->id, p->params, p->ids.id, p->ids.n, &again, &err) != IQ_OK) {
        fprintf(stderr, "%s: %s\n", p->params, err.text);
        abort();
    }
    same(p->params, again.prompt[0].params);
    iq_prompts_free(&again);
}

static void prompts(const char *text, size_t n)
{
    char path[64];
    int fd = memfd_create("prompts", MFD_CLOEXEC);
    struct iq_prompt_defaults d = {.max_tokens = 4, .top_p = 1};
    struct iq_prompts p = {0};
    struct iq_err err;
    if (fd < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, text, n) == (ssize_t)n && iq_prompts_read(path, &d, &p, &err) == IQ_OK)
        for (uint32_t i = 0; i < p.n; i++) recorded(&p.prompt[i]);
    iq_prompts_free(&p);
    close(fd);
}

static int parse(const char *text, size_t n, struct iq_plan *p, struct iq_err *err)
{
    struct iq_settings s;
    cJSON *json;
    iq_settings_init(&s);
    IQ_TRY(iq_json_parse(text, n, "fuzz", &json, err));
    int status = iq_plan_parse(json, "fuzz", p, &s, err);
    iq_json_free(json);
    return status;
}

/* A plan that is read, written and read again is the same plan. */
static void plan(const char *text, size_t n)
{
    struct iq_buf b[2] = {IQ_BUF(1 << 24), IQ_BUF(1 << 24)};
    struct iq_plan p;
    struct iq_err err;
    if (parse(text, n, &p, &err) != IQ_OK) return;
    for (int i = 0; i < 2; i++) {
        struct iq_jw w = IQ_JW(&b[i]);
        iq_plan_write(&p, &w);
        iq_plan_free(&p);
        if (i || b[i].failed) break;
        if (parse(b[i].data, b[i].len, &p, &err) != IQ_OK) {
            fprintf(stderr, "%s\n%s\n", b[i].data, err.text);
            abort();
        }
    }
    if (!b[0].failed) same(b[0].data, b[1].data);
    iq_buf_free(&b[0]);
    iq_buf_free(&b[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (!n) return 0;
    if (data[0] & 1)
        prompts((const char *)data + 1, n - 1);
    else
        plan((const char *)data + 1, n - 1);
    return 0;
}
