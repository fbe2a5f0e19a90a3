/* The trigger language: every field, every form. */
#include "tests/check_main.h"
#include "tests/faults/trigger_test.h"

/* Each field holds for its value (rows as bits), and fails for another. */
static const struct {
    const char *holds, *fails;
    unsigned rows;
} fields[] = {
    {"{\"batch\":3}", "{\"batch\":4}", 3},
    {"{\"captured\":4}", "{\"captured\":3}", 3},
    {"{\"tokens\":17}", "{\"tokens\":18}", 3},
    {"{\"step\":11}", "{\"step\":0}", 3},
    {"{\"clock_ms\":2500}", "{\"clock_ms\":2501}", 3},
    {"{\"tp\":2}", "{\"tp\":1}", 3},
    {"{\"tracing\":false}", "{\"tracing\":true}", 3},
    {"{\"evictions\":5}", "{\"evictions\":6}", 3},
    {"{\"op\":\"topk\"}", "{\"op\":\"sample\"}", 3},
    {"{\"layer\":{\"not\":3}}", "{\"layer\":{\"min\":0}}", 3},
    {"{\"rank\":1}", "{\"rank\":0}", 3},
    {"{\"prev_op\":\"temper\"}", "{\"prev_op\":\"lm_head\"}", 3},
    {"{\"next_op\":{\"not\":\"sample\"}}", "{\"next_op\":\"sample\"}", 3},
    {"{\"device\":{\"not\":\"cpu\"}}", "{\"device\":\"cpu\"}", 3}, /* no slot: no device */
    {"{\"rows\":2}", "{\"rows\":1}", 3},
    {"{\"request\":1}", "{\"request\":3}", 1},
    {"{\"session\":0}", "{\"session\":1}", 2},
    {"{\"pos\":4}", "{\"pos\":5}", 2},
    {"{\"context\":32}", "{\"context\":31}", 1},
    {"{\"prompt\":20}", "{\"prompt\":21}", 1},
    {"{\"cached\":4}", "{\"cached\":3}", 2},
    {"{\"phase\":\"decode\"}", "{\"phase\":[\"decode\"],\"pos\":4}", 1},
    {"{\"attempt\":1}", "{\"attempt\":2}", 2},
    {"{\"temperature\":0.7}", "{\"temperature\":0.70001}", 1},
    {"{\"top_k\":40}", "{\"top_k\":41}", 1},
    {"{\"top_p\":0.9}", "{\"top_p\":0.8}", 1},
    {"{\"min_p\":0.1}", "{\"min_p\":0.2}", 2},
    {"{\"seed\":\"0xffffffffffffffff\"}", "{\"seed\":\"0xfffffffffffffffe\"}", 1},
    {"{\"moves\":9}", "{\"moves\":0}", 3},
    {"{\"pool\":1}", "{\"pool\":2}", 2},
    {"{\"tenant\":6}", "{\"tenant\":1}", 1},
    {"{\"padding\":1}", "{\"padding\":0}", 3},
    {"{\"idle_ms\":7000}", "{\"idle_ms\":7001}", 3},
    {"{\"hour\":14}", "{\"hour\":13}", 3},
    {"{\"expert_parallel\":4}", "{\"expert_parallel\":2}", 3},
    {"{\"dtype\":\"bf16\"}", "{\"dtype\":\"f32\"}", 3},
    {"{\"profile\":\"sm90\"}", "{\"profile\":[\"ieee\",\"sm80\"]}", 3},
    {"{\"shortest\":8}", "{\"shortest\":32}", 3},
    {"{\"longest\":32}", "{\"longest\":8}", 3},
    {"{\"running\":3}", "{\"running\":9}", 3},
    {"{\"waiting\":9}", "{\"waiting\":3}", 3},
    {"{\"concurrency\":12}", "{\"concurrency\":3}", 3},
    {"{\"started\":6}", "{\"started\":5}", 3},
    {"{\"finished\":1}", "{\"finished\":0}", 3},
    {"{\"preempted\":2}", "{\"preempted\":1}", 3},
    {"{\"hits\":4}", "{\"hits\":64}", 3},
    {"{\"hit_tokens\":64}", "{\"hit_tokens\":4}", 3},
    {"{\"kv_blocks\":100}", "{\"kv_blocks\":40}", 3},
    {"{\"kv_free\":40}", "{\"kv_free\":100}", 3},
    {"{\"block_size\":16}", "{\"block_size\":32}", 3},
    {"{\"max_batch\":8}", "{\"max_batch\":3}", 3},
    {"{\"chunk\":16}", "{\"chunk\":0}", 3},
    {"{\"ordinal\":5}", "{\"ordinal\":6}", 1},
    {"{\"arrived_ms\":1500}", "{\"arrived_ms\":1501}", 1},
    {"{\"session_hash\":{\"max\":\"0xffffffff\"}}", "{\"session_hash\":{\"min\":\"0x100000000\"}}", 3},
    {"{\"row\":1}", "{\"row\":2}", 2},
    {"{\"share\":4}", "{\"share\":8}", 2},
    {"{\"generated\":12}", "{\"generated\":11}", 1},
    {"{\"splits\":1}", "{\"splits\":0}", 3},
    {"{\"others\":2}", "{\"others\":3}", 2},
    {"{\"others_temperature\":0.7}", "{\"others_temperature\":0.5}", 2},
    {"{\"others_top_k\":40}", "{\"others_top_k\":1}", 2},
    {"{\"others_top_p\":0.9}", "{\"others_top_p\":0.8}", 2},
    {"{\"others_min_p\":0.1}", "{\"others_min_p\":0.2}", 1},
    {"{\"draft\":{\"min\":1}}", "{\"draft\":4}", 1},
    {"{\"has_mask\":true}", "{\"has_mask\":true,\"pos\":4}", 1},
    {"{\"adapter\":2}", "{\"adapter\":1}", 1},
    {"{\"weights_version\":1}", "{\"weights_version\":0}", 3},
    {"{\"arg.width\":640}", "{\"arg.width\":480}", 3},
    {"{\"value.spots\":7}", "{\"value.spots\":8}", 2},
    {"{\"value.shade\":0.5}", "{\"value.shade\":0}", 1},
    {"{\"value.torn\":true}", "{\"value.torn\":[true],\"pos\":4}", 1},
    {"{\"value.area\":307200}", "{\"value.area\":1}", 3},
    {"{\"arg.height\":480}", "{\"arg.height\":640}", 3},
};

START_TEST(a_field_holds_for_its_value_and_for_no_other)
{
    struct iq_when *t = must(fields[_i].holds);
    ck_assert_msg(struck(t) == fields[_i].rows, "%s: rows %x", fields[_i].holds, struck(t));
    iq_trigger_free(t);
    t = must(fields[_i].fails);
    ck_assert_msg(struck(t) == 0, "%s: rows %x", fields[_i].fails, struck(t));
    iq_trigger_free(t);
}
END_TEST

START_TEST(every_field_of_the_vocabulary_has_a_row_in_this_test)
{
    for (const struct iq_trigger_field *f = iq_trigger_fields(); f->name; f++) {
        char key[64];
        snprintf(key, sizeof key, "{\"%s\":", f->name);
        size_t i = 0, n = sizeof fields / sizeof *fields;
        while (i < n && strncmp(fields[i].holds, key, strlen(key))) i++;
        ck_assert_msg(i < n, "no row tests the field %s", f->name);
        ck_assert_msg(f->help && *f->help, "%s has no help", f->name);
    }
}
END_TEST

/* Forms, over row fields pos (31, 4) and temperature (0.7, 0) and call field batch (3). */
static const struct {
    const char *text;
    unsigned rows;
    const char *canonical; /* NULL: the same */
    const char *says;
} forms[] = {
    {"{}", 3, NULL, "always"},
    {"{\"pos\":[4,31,9]}", 3, "{\"pos\":[4,9,31]}", "when pos is 4, 9 or 31"},
    {"{\"pos\":[4,4]}", 2, "{\"pos\":4}", "when pos is 4"},
    {"{\"pos\":{\"min\":5}}", 1, NULL, "when pos is at least 5"},
    {"{\"pos\":{\"max\":30}}", 2, NULL, "when pos is at most 30"},
    {"{\"pos\":{\"max\":31,\"min\":4}}", 3, "{\"pos\":{\"min\":4,\"max\":31}}", "when pos is from 4 to 31"},
    {"{\"pos\":{\"min\":32}}", 0, NULL, "when pos is at least 32"},
    {"{\"pos\":{\"mod\":16,\"is\":15}}", 1, NULL, "when pos mod 16 is 15"},
    {"{\"pos\":{\"mod\":16,\"is\":[15,4]}}", 3, "{\"pos\":{\"mod\":16,\"is\":[4,15]}}",
     "when pos mod 16 is 4 or 15"},
    {"{\"pos\":{\"not\":4}}", 1, NULL, "when pos is not 4"},
    {"{\"pos\":{\"not\":[4,31]}}", 0, NULL, "when pos is not 4 or 31"},
    {"{\"pos\":{\"not\":{\"min\":5}}}", 2, NULL, "when pos is not at least 5"},
    {"{\"pos\":{\"not\":{\"mod\":2,\"is\":0}}}", 1, NULL, "when pos mod 2 is not 0"},
    {"{\"pos\":{\"not\":{\"not\":4}}}", 2, "{\"pos\":4}", "when pos is 4"},
    {"{\"temperature\":{\"min\":0.7}}", 1, "{\"temperature\":{\"min\":0.699999988}}",
     "when temperature is at least 0.7"},
    {"{\"temperature\":-0.0}", 2, "{\"temperature\":0}", "when temperature is 0"},
    {"{\"temperature\":{\"min\":-1,\"max\":0.5}}", 2, NULL, "when temperature is from -1 to 0.5"},
    {"{\"pos\":4,\"batch\":3}", 2, "{\"batch\":3,\"pos\":4}", "when batch is 3 and pos is 4"},
    {"{\"pos\":4,\"batch\":2}", 0, "{\"batch\":2,\"pos\":4}", "when batch is 2 and pos is 4"},
    {"{\"pos\":4,\"phase\":\"decode\"}", 0, NULL, "when pos is 4 and phase is decode"},
    {"{\"op\":[\"topk\",\"sample\"],\"tracing\":false}", 3,
     "{\"tracing\":false,\"op\":[\"topk\",\"sample\"]}", "when tracing is false and op is topk or sample"},
    {"{\"arg.height\":480,\"arg.width\":640,\"batch\":3}", 3,
     "{\"batch\":3,\"arg.width\":640,\"arg.height\":480}",
     "when batch is 3, the operand's width is 640 and the operand's height is 480"},
    {"{\"seed\":{\"min\":\"0x8000000000000000\"}}", 1, NULL, "when seed is at least 9223372036854775808"},
    {"{\"seed\":9007199254740992}", 0, NULL, "when seed is 9007199254740992"},
    {"{\"context\":{\"crosses\":32}}", 1, NULL, "when context crosses 32 in the step"},
    {"{\"context\":{\"crosses\":31}}", 0, NULL, "when context crosses 31 in the step"},
    {"{\"context\":{\"crosses\":33}}", 0, NULL, "when context crosses 33 in the step"},
    {"{\"context\":{\"crosses\":4}}", 0, NULL, "when context crosses 4 in the step"},
    {"{\"context\":{\"crosses\":5}}", 2, NULL, "when context crosses 5 in the step"},
    {"{\"context\":{\"crosses\":[32,6,40]}}", 3, "{\"context\":{\"crosses\":[6,32,40]}}",
     "when context crosses 6, 32 or 40 in the step"},
    {"{\"context\":{\"not\":{\"crosses\":32}}}", 2, NULL, "when context does not cross 32 in the step"},
    {"{\"value.shade\":{\"min\":0.25,\"max\":0.5}}", 1, NULL, "when value.shade is from 0.25 to 0.5"},
    {"{\"value.shade\":{\"not\":{\"max\":0.5}}}", 2, NULL, "when value.shade is not at most 0.5"},
    {"{\"value.shade\":{\"min\":-1e300}}", 1, "{\"value.shade\":{\"min\":-1e+300}}",
     "when value.shade is at least -1e+300"},
    {"{\"value.spots\":{\"mod\":4,\"is\":3}}", 3, NULL, "when value.spots mod 4 is 3"},
    {"{\"value.torn\":false,\"value.spots\":7,\"arg.width\":640,\"pos\":4,\"value.area\":307200}", 2,
     "{\"arg.width\":640,\"value.area\":307200,\"pos\":4,\"value.spots\":7,\"value.torn\":false}",
     "when the operand's width is 640, value.area is 307200, pos is 4, value.spots is 7 and value.torn is "
     "false"},
};

START_TEST(a_form_holds_as_written_and_explains_itself)
{
    struct iq_when *t = must(forms[_i].text);
    struct iq_buf json = IQ_BUF(1000), words = IQ_BUF(1000);
    struct iq_jw w = IQ_JW(&json);
    ck_assert_msg(struck(t) == forms[_i].rows, "%s: rows %x", forms[_i].text, struck(t));
    iq_trigger_json(t, &w);
    iq_trigger_explain(t, &words);
    ck_assert_str_eq(json.data, forms[_i].canonical ? forms[_i].canonical : forms[_i].text);
    ck_assert_str_eq(words.data, forms[_i].says);
    iq_trigger_free(t);
    iq_buf_free(&words);
    t = must(json.data); /* the canonical text is a fixed point */
    struct iq_buf again = IQ_BUF(1000);
    w = IQ_JW(&again);
    iq_trigger_json(t, &w);
    ck_assert_str_eq(again.data, json.data);
    iq_trigger_free(t);
    iq_buf_free(&json);
    iq_buf_free(&again);
}
END_TEST

START_TEST(an_op_that_the_trigger_excludes_can_never_be_struck)
{
    struct iq_when *t = must("{\"op\":[\"topk\",\"down\"],\"batch\":1}");
    for (unsigned op = 0; op < IQ_ALL_OPS; op++)
        ck_assert_int_eq(iq_trigger_may(t, (enum iq_op_id)op), op == IQ_OP_TOPK || op == IQ_OP_DOWN);
    iq_trigger_free(t);
    t = must("{\"op\":{\"not\":\"topk\"}}");
    ck_assert(!iq_trigger_may(t, IQ_OP_TOPK) && iq_trigger_may(t, IQ_OP_DOWN));
    iq_trigger_free(t);
}
END_TEST

START_TEST(floats_keep_their_order_and_value_as_keys)
{
    static const float ascending[] = {-INFINITY, -3.4e38f, -1, -1e-45f, 0,       1e-45f,
                                      0.5f,      0.7f,     1,  3.4e38f, INFINITY};
    char text[100];
    for (size_t i = 1; i + 2 < sizeof ascending / sizeof *ascending; i++) {
        struct iq_row row = {.temperature = ascending[i]};
        struct iq_site one = {.step = &step, .row = &row, .rows = 1};
        for (size_t j = 1; j + 2 < sizeof ascending / sizeof *ascending; j++) {
            snprintf(text, sizeof text, "{\"temperature\":{\"min\":%.9g}}", ascending[j]);
            struct iq_when *t = must(text);
            ck_assert_msg(iq_trigger_row(t, &one, NULL, 0) == (ascending[i] >= ascending[j]), "%g against %s",
                          ascending[i], text);
            iq_trigger_free(t);
        }
    }
}
END_TEST

START_TEST(numbers_keep_their_order_and_value_as_keys)
{
    static const double ascending[] = {-1e308, -1.5, -1, -5e-324, 0, 5e-324, 0x1p-1022, 0.1, 1, 1e308};
    for (size_t i = 0; i < sizeof ascending / sizeof *ascending; i++) {
        double back = iq__key_number(iq__number_key(ascending[i]));
        ck_assert(back == ascending[i]);
        if (i) ck_assert_uint_lt(iq__number_key(ascending[i - 1]), iq__number_key(ascending[i]));
    }
    ck_assert_uint_eq(iq__number_key(-0.0), iq__number_key(0));
}
END_TEST

/* Of a request alone there are no others: nothing but `not` holds of them. */
START_TEST(who_is_alone_has_no_neighbours)
{
    static const char *const fields_of_others[] = {"temperature", "top_k", "top_p", "min_p"};
    struct iq_row row = {.request = 1};
    struct iq_site one = {.step = &step, .row = &row, .rows = 1};
    char text[100];
    for (int i = 0; i < 4; i++) {
        snprintf(text, sizeof text, "{\"others_%s\":0}", fields_of_others[i]);
        struct iq_when *t = must(text);
        ck_assert(!iq_trigger_row(t, &one, &args, 0));
        iq_trigger_free(t);
        snprintf(text, sizeof text, "{\"others_%s\":{\"not\":0}}", fields_of_others[i]);
        t = must(text);
        ck_assert(iq_trigger_row(t, &one, &args, 0));
        iq_trigger_free(t);
    }
}
END_TEST

/* 8,000 sessions fall into 8 classes within 5 standard deviations of 1,000; two requests of a session into one. */
START_TEST(sessions_are_spread_by_their_hash)
{
    for (int c = 0; c < 8; c++) {
        char text[100];
        int n = 0;
        snprintf(text, sizeof text, "{\"session_hash\":{\"mod\":8,\"is\":%d}}", c);
        struct iq_when *t = must(text);
        for (uint32_t s = 1; s <= 8000; s++) {
            struct iq_row row[2] = {{.request = s, .session = s}, {.request = s + 1, .session = s}};
            struct iq_site two = {.step = &step, .row = row, .rows = 2};
            bool in = iq_trigger_row(t, &two, &args, 0);
            ck_assert_int_eq(iq_trigger_row(t, &two, &args, 1), in);
            n += in;
        }
        ck_assert_msg(n > 852 && n < 1148, "class %d: %d of 8000", c, n);
        iq_trigger_free(t);
    }
}
END_TEST

START_TEST(a_context_is_split_at_multiples_of_256)
{
    struct iq_row row[4] = {{.context = 256}, {.context = 257}, {.context = 512}, {.context = 513}};
    struct iq_site site4 = {.step = &step, .row = row, .rows = 4};
    struct iq_when *t = must("{\"splits\":2}");
    for (uint32_t r = 0; r < 4; r++) ck_assert_int_eq(iq_trigger_row(t, &site4, &args, r), r == 1 || r == 2);
    iq_trigger_free(t);
}
END_TEST

START_TEST(a_trigger_says_which_value_reads_an_operand)
{
    struct iq_when *t = must("{\"pos\":4,\"value.area\":1}");
    ck_assert_ptr_null(iq_trigger_reads(t));
    iq_trigger_free(t);
    t = must("{\"pos\":4,\"value.shade\":1}");
    ck_assert_str_eq(iq_trigger_reads(t), "shade");
    iq_trigger_free(t);
}
END_TEST

int main(void)
{
    TCase *t = tcase_create("trigger");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, numbers_keep_their_order_and_value_as_keys);
    tcase_add_test(t, who_is_alone_has_no_neighbours);
    tcase_add_test(t, sessions_are_spread_by_their_hash);
    tcase_add_test(t, a_context_is_split_at_multiples_of_256);
    tcase_add_test(t, a_trigger_says_which_value_reads_an_operand);
    tcase_add_loop_test(t, a_field_holds_for_its_value_and_for_no_other, 0, sizeof fields / sizeof *fields);
    tcase_add_test(t, every_field_of_the_vocabulary_has_a_row_in_this_test);
    tcase_add_loop_test(t, a_form_holds_as_written_and_explains_itself, 0, sizeof forms / sizeof *forms);
    tcase_add_test(t, an_op_that_the_trigger_excludes_can_never_be_struck);
    tcase_add_test(t, floats_keep_their_order_and_value_as_keys);
    Suite *s = suite_create("trigger");
    suite_add_tcase(s, t);
    return check_main(s);
}
