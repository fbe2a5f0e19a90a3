/* Prompts as they are read from a line, recorded, and read again from the record. */
#include "harness/plan/prompts.h"
#include "tests/check_main.h"

#include <stdlib.h>
#include <string.h>

static struct iq_err err;

static int try_line(const char *line, struct iq_prompts *out)
{
    static const struct iq_prompt_defaults d = {.max_tokens = 4, .top_p = 1};
    char *list = malloc(strlen(line) + 3);
    cJSON *json;
    ck_assert_ptr_nonnull(list);
    strcat(strcat(strcpy(list, "["), line), "]");
    ck_assert_msg(iq_json_parse(list, strlen(list), "test", &json, &err) == IQ_OK, "%s", err.text);
    int status = iq_prompts_list(json, "test", &d, out, &err);
    iq_json_free(json);
    free(list);
    return status;
}

static void read_line(const char *line, struct iq_prompts *out)
{
    ck_assert_msg(try_line(line, out) == IQ_OK, "%s: %s", line, err.text);
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

#define SHA          "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
#define TIE(members) "{\"id\":\"a\",\"prompt\":\"x\",\"max_tokens\":2,\"tie\":{" members "}}"

START_TEST(a_near_tie_is_read_to_the_bit_and_is_no_part_of_a_run)
{
    struct iq_prompts with = {0}, without = {0};
    read_line(
        TIE("\"token\":1,\"margin\":9.53674316e-07,\"rival\":118,\"ids\":[48,57],\"model\":\"" SHA "\""),
        &with);
    read_line("{\"id\":\"a\",\"prompt\":\"x\",\"max_tokens\":2}", &without);
    const struct iq_prompt_tie *t = &with.prompt->tie;
    ck_assert(t->ids.n == 2 && t->ids.id[0] == 48 && t->ids.id[1] == 57 && t->rival == 118);
    ck_assert(t->margin == 0x1p-20F);
    ck_assert_str_eq(t->model, SHA);
    ck_assert_uint_eq(without.prompt->tie.ids.n, 0);
    ck_assert_str_eq(with.prompt->params, without.prompt->params);
    struct iq_digest a = iq_prompts_digest(&with), b = iq_prompts_digest(&without);
    ck_assert(iq_digest_equal(a, b));
    iq_prompts_free(&with);
    iq_prompts_free(&without);
}
END_TEST

START_TEST(a_near_tie_that_is_none_is_refused)
{
    static const struct {
        const char *line, *why;
    } odd[] = {
        {TIE("\"token\":1,\"rival\":1,\"ids\":[1,2],\"model\":\"" SHA "\""), "\"margin\" is missing"},
        {TIE("\"token\":1,\"margin\":-1,\"rival\":1,\"ids\":[1,2],\"model\":\"" SHA "\""), "margin"},
        {TIE("\"token\":0,\"margin\":1,\"rival\":1,\"ids\":[1,2],\"model\":\"" SHA "\""),
         "ends with the tie"},
        {TIE("\"token\":2,\"margin\":1,\"rival\":1,\"ids\":[1,2,3],\"model\":\"" SHA "\""),
         "ends with the tie"},
        {TIE("\"token\":1,\"margin\":1,\"rival\":1,\"ids\":[],\"model\":\"" SHA "\""), "list of token ids"},
        {TIE("\"token\":1,\"margin\":1,\"rival\":1,\"ids\":[1,2],\"model\":\"abc\""), "found 3 characters"},
        {TIE("\"token\":1,\"margin\":1,\"rival\":1,\"ids\":[1,2],\"model\":\"" SHA "\",\"x\":1"), "x"},
    };
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        struct iq_prompts p = {0};
        ck_assert_int_eq(try_line(odd[i].line, &p), IQ_FORMAT);
        ck_assert_msg(strstr(err.text, odd[i].why) && strstr(err.text, "tie"), "%s: %s", odd[i].line,
                      err.text);
        iq_prompts_free(&p);
    }
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("prompts");
    tcase_add_test(t, what_a_record_keeps_of_a_prompt_is_read_again_as_the_same);
    tcase_add_test(t, a_near_tie_is_read_to_the_bit_and_is_no_part_of_a_run);
    tcase_add_test(t, a_near_tie_that_is_none_is_refused);
    Suite *s = suite_create("prompts");
    suite_add_tcase(s, t);
    return check_main(s);
}
