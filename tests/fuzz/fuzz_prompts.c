/* Prompt files, plans and trajectories: what a user hands to run. The first byte chooses. */
#define _GNU_SOURCE
#include "harness/plan/plan.h"
#include "harness/plan/prompts.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static void prompts(const char *text, size_t n)
{
    char path[64];
    int fd = memfd_create("prompts", MFD_CLOEXEC);
    struct iq_prompt_defaults d = {.max_tokens = 4, .top_p = 1};
    struct iq_prompts p = {0};
    struct iq_err err;
    if (fd < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (write(fd, text, n) == (ssize_t)n) iq_prompts_read(path, &d, &p, &err);
    iq_prompts_free(&p);
    close(fd);
}

static void plan(const char *text, size_t n)
{
    struct iq_settings s;
    struct iq_plan p;
    struct iq_err err;
    cJSON *json;
    iq_settings_init(&s);
    if (iq_json_parse(text, n, "fuzz", &json, &err) != IQ_OK) return;
    if (iq_plan_parse(json, "fuzz", &p, &s, &err) == IQ_OK) {
        struct iq_buf b = IQ_BUF(1 << 24);
        struct iq_jw w = IQ_JW(&b);
        iq_plan_write(&p, &w);
        iq_buf_free(&b);
        iq_plan_free(&p);
    }
    iq_json_free(json);
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
