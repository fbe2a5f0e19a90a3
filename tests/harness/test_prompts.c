/* Prompts as they are read from a line, recorded, and read again from the record. */
#include "harness/plan/prompts.h"
#include "tests/check_main.h"

#include <stdlib.h>
#include <string.h>

static struct iq_err err;

static void read_line(const char *line, struct iq_prompts *out)
{
    static const struct iq_prompt_defaults d = {.max_tokens = 4, .top_p = 1};
    char *list = malloc(strlen(line) + 3);
    cJSON *json;
    ck_assert_ptr_nonnull(list);
    strcat(strcat(strcpy(list, "["), line), "]");
    ck_assert_msg(iq_json_parse(list, strlen(list), "test", &json, &err) == IQ_OK, "%s", err.text);
    ck_assert_msg(iq_prompts_list(json, "test", &d, out, &err) == IQ_OK, "%s: %s", line, err.text);
    iq_json_free(json);
    free(list);
}

START_TEST(what_a_record_keeps_of_a_prompt_is_read_again_as_the_same)
{
    static const char *const lines[] = {
        "{\"id\":\"a\",\"ids\":[0,4294967294]}",
        "{\"id\":\"a\",\"ids\":[1],\"max_tokens\":16777216,\"seed\":9007199254740992,\"top_k\":4194304}",
        "{\"id\":\"a\",\"ids\":[1],\"session\":4294967295,\"arrive_ms\":1099511627776,\"ignore_stop\":true}",
        "{\"id\":\"a\",\"ids\":[1],\"temperature\":100,\"top_p\":1e-6,\"min_p\":1}",
        "{\"id\":\"a\",\"ids\":[1],\"temperature\":1e-300,\"top_p\":0.9,\"min_p\":1e-40}",
        "{\"id\":\"a\",\"ids\":[1],\"temperature\":-0,\"top_p\":0.99999999999,\"expect\":\"\\u00e9\\n\"}",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++) {
        struct iq_prompts first = {0}, again = {0};
        read_line(lines[i], &first);
        const struct iq_prompt *p = first.prompt;
        int status = iq_prompts_recorded(p->id, p->params, p->ids.id, (uint32_t)p->ids.n, &again, &err);
        ck_assert_msg(status == IQ_OK, "%s: %s", lines[i], err.text);
        ck_assert_str_eq(again.prompt->params, p->params);
        ck_assert_mem_eq(&again.prompt->request.temperature, &p->request.temperature, sizeof(float));
        ck_assert_mem_eq(&again.prompt->request.top_p, &p->request.top_p, sizeof(float));
        ck_assert_mem_eq(&again.prompt->request.min_p, &p->request.min_p, sizeof(float));
        iq_prompts_free(&first);
        iq_prompts_free(&again);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("prompts");
    tcase_add_test(t, what_a_record_keeps_of_a_prompt_is_read_again_as_the_same);
    Suite *s = suite_create("prompts");
    suite_add_tcase(s, t);
    return check_main(s);
}
