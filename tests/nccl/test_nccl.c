/* Collectives by NCCL, on the shim's devices with a fake of the library. */
#include "tests/check_main.h"
#include "tests/nccl/nccl_rig.h"

static void setup(void) { rig_devices(8); }

static const uint32_t worlds[] = {1, 2, 3, 4, 8};
enum { WORLDS = sizeof worlds / sizeof worlds[0] };
static const uint32_t acts[] = {IQ_ACT_F32, IQ_ACT_BF16, IQ_ACT_F16};

START_TEST(a_gather_gives_goldens_bits_for_every_number_of_ranks)
{
    for (unsigned i = 0; use_schedule(i, 1); i++)
        for (uint64_t round = 0; round < 4 * WORLDS; round++) {
            uint64_t seed = iq_mix64(round + 100 * i), from = seed;
            struct call *c = call_open(&seed, worlds[round % WORLDS], acts[round % 3], false);
            call_output(c);
            OK(iq_nccl_gather(&exec, &c->a, false));
            call_expect_golden(c, from, "nccl_gather");
            call_close(c);
            device_release();
        }
    rig_close();
}
END_TEST

/* Small integers: every order of adding, and bf16, gives the one exact sum. */
START_TEST(each_form_of_the_sum_is_the_sum)
{
    static const struct iq_nccl_options forms[] = {
        {0},
        {.algorithm = IQ_NCCL_RING},
        {.algorithm = IQ_NCCL_TREE, .protocol = IQ_NCCL_LL128},
        {.bf16 = true},
        {.scatter = true},
        {.bf16 = true, .scatter = true, .algorithm = IQ_NCCL_TREE},
        {.channels = 4},
    };
    for (unsigned i = 0; use_schedule(i, 2); i++)
        for (unsigned f = 0; f < sizeof forms / sizeof forms[0]; f++)
            for (unsigned w = 0; w < WORLDS; w++) {
                uint64_t seed = iq_mix64(f + 10 * w + 100 * i), from = seed;
                struct call *c = call_open(&seed, worlds[w], acts[(f + w) % 3], true);
                call_output(c);
                OK(iq_nccl_all_reduce(&exec, &c->a, &forms[f], NULL));
                call_expect_golden(c, from, "nccl");
                call_close(c);
                device_release();
            }
    rig_close();
}
END_TEST

/* The same real numbers, in another order. */
START_TEST(ring_and_tree_are_reorderings_of_each_other)
{
    static const struct iq_nccl_options ring = {.algorithm = IQ_NCCL_RING},
                                        tree = {.algorithm = IQ_NCCL_TREE};
    uint64_t seed = 77;
    unsigned differ = 0;
    for (int round = 0; round < 8; round++) {
        struct call *c = call_open(&seed, 4, IQ_ACT_F32, false);
        const struct iq_kind *kind = iq_kind_find("all_reduce");
        struct iq_err err = {0};
        call_output(c);
        OK(iq_nccl_all_reduce(&exec, &c->a, &ring, NULL));
        float *by_ring = call_result(c);
        call_output(c);
        OK(iq_nccl_all_reduce(&exec, &c->a, &tree, NULL));
        float *by_tree = call_result(c);
        differ += memcmp(by_ring, by_tree, c->bytes) != 0;
        c->host.y = by_ring;
        ck_assert_msg(!kind->check(&c->host, &err), "ring: %s", err.text);
        c->host.y = by_tree;
        ck_assert_msg(!kind->check(&c->host, &err), "tree: %s", err.text);
        free(by_ring), free(by_tree);
        call_close(c);
        device_release();
    }
    ck_assert_uint_ge(differ, 6);
    rig_close();
}
END_TEST

START_TEST(with_one_rank_nccl_is_golden)
{
    static const struct iq_nccl_options plain = {0}, scatter = {.scatter = true};
    uint64_t seed = 5;
    struct call *c = call_open(&seed, 1, IQ_ACT_BF16, false);
    call_output(c);
    OK(iq_nccl_all_reduce(&exec, &c->a, &plain, NULL));
    call_expect_golden(c, 5, "nccl");
    call_output(c);
    OK(iq_nccl_all_reduce(&exec, &c->a, &scatter, NULL));
    call_expect_golden(c, 5, "nccl by scatter");
    call_close(c);
    rig_close();
}
END_TEST

START_TEST(an_empty_call_opens_nothing)
{
    static const struct iq_nccl_options plain = {0};
    struct iq_all_reduce a = {.rows = 0, .n = 5, .pieces = 1};
    OK(iq_nccl_all_reduce(&exec, &a, &plain, NULL));
    OK(iq_nccl_gather(&exec, &a, false));
    ck_assert_int_eq(fake_facts().opened, 0);
    rig_close();
}
END_TEST

START_TEST(settings_reach_the_communicator_and_leave_the_environment)
{
    static const struct iq_nccl_options tree = {.algorithm = IQ_NCCL_TREE, .protocol = IQ_NCCL_LL128};
    static const struct iq_nccl_options ring = {.algorithm = IQ_NCCL_RING, .channels = 3}, plain = {0};
    uint64_t seed = 6;
    struct call *c = call_open(&seed, 2, IQ_ACT_F32, true);
    call_output(c);
    setenv("NCCL_PROTO", "Simple", 1);
    OK(iq_nccl_all_reduce(&exec, &c->a, &tree, NULL));
    ck_assert_str_eq(fake_facts().algorithm, "Tree");
    ck_assert_str_eq(fake_facts().protocol, "LL128");
    ck_assert_ptr_null(getenv("NCCL_ALGO"));
    ck_assert_str_eq(getenv("NCCL_PROTO"), "Simple");
    OK(iq_nccl_all_reduce(&exec, &c->a, &ring, NULL));
    ck_assert_str_eq(fake_facts().algorithm, "Ring");
    ck_assert_str_eq(fake_facts().protocol, "Simple");
    ck_assert_int_eq(fake_facts().max_channels, 3);
    OK(iq_nccl_all_reduce(&exec, &c->a, &plain, NULL));
    ck_assert_str_eq(fake_facts().algorithm, "");
    ck_assert_int_eq(fake_facts().opened, 6);
    OK(iq_nccl_all_reduce(&exec, &c->a, &tree, NULL)); /* the first set still stands */
    ck_assert_int_eq(fake_facts().opened, 6);
    call_close(c);
    rig_close();
}
END_TEST

/* Another device in use: rank 0 is where the engine is. */
START_TEST(the_engine_may_be_on_any_gpu)
{
    struct iq_err err = {0};
    uint64_t seed = 8;
    iq_cuda_close(cuda);
    ck_assert_msg(!iq_cuda_open(true, 2, &cuda, &err), "%s", err.text);
    exec.cuda = cuda;
    struct call *c = call_open(&seed, 4, IQ_ACT_F32, false);
    call_output(c);
    OK(iq_nccl_gather(&exec, &c->a, false));
    int device;
    ck_assert_int_eq(cuda->api->device_current(&device), 0);
    ck_assert_int_eq(device, 2);
    call_expect_golden(c, 8, "nccl_gather");
    call_close(c);
    rig_close();
}
END_TEST

/* ---- captured batches ---- */

static void *capture(struct call *c, const struct iq_nccl_options *options, bool gather)
{
    void *graph, *run;
    ck_assert_int_eq(cuda->api->capture_begin(cuda->stream), 0);
    if (gather)
        OK(iq_nccl_gather(&exec, &c->a, options->capture));
    else
        OK(iq_nccl_all_reduce(&exec, &c->a, options, NULL));
    ck_assert_int_eq(cuda->api->capture_end(cuda->stream, &graph), 0);
    ck_assert_int_eq(cuda->api->graph_instantiate(&run, graph), 0);
    ck_assert_int_eq(cuda->api->graph_destroy(graph), 0);
    return run;
}

START_TEST(a_captured_collective_replays)
{
    for (unsigned w = 0; w < WORLDS; w++)
        for (int gather = 0; gather < 2; gather++) {
            const struct iq_nccl_options options = {.capture = true, .bf16 = w % 2, .scatter = w == 2};
            uint64_t seed = w + 1;
            struct call *c = call_open(&seed, worlds[w], IQ_ACT_F32, true);
            call_output(c);
            if (gather)
                OK(iq_nccl_gather(&exec, &c->a, true));
            else
                OK(iq_nccl_all_reduce(&exec, &c->a, &options, NULL));
            void *run = capture(c, &options, gather);
            for (int i = 0; i < 2; i++) {
                device_ok(cuda->api->memset_async(c->a.y, 0x5a, c->bytes, cuda->stream), "clearing");
                device_ok(cuda->api->graph_launch(run, cuda->stream), "replay");
                call_expect_golden(c, w + 1, "a replay");
            }
            device_ok(cuda->api->exec_destroy(run), "destroy");
            call_close(c);
            device_release();
        }
    rig_close();
}
END_TEST

START_TEST(a_capture_over_several_gpus_has_to_be_asked_for)
{
    static const struct iq_nccl_options plain = {0};
    uint64_t seed = 3;
    void *graph;
    struct call *c = call_open(&seed, 2, IQ_ACT_F32, true);
    call_output(c);
    OK(iq_nccl_all_reduce(&exec, &c->a, &plain, NULL));
    ck_assert_int_eq(cuda->api->capture_begin(cuda->stream), 0);
    ck_assert_int_eq(iq_nccl_all_reduce(&exec, &c->a, &plain, NULL), IQ_UNSUPPORTED);
    ck_assert_ptr_nonnull(strstr(cuda->err.text, "capture to 1"));
    ck_assert_int_eq(cuda->api->capture_end(cuda->stream, &graph), 0);
    device_ok(cuda->api->graph_destroy(graph), "destroy");
    OK(iq_nccl_all_reduce(&exec, &c->a, &plain, NULL));
    call_expect_golden(c, 3, "after it");
    call_close(c);
    rig_close();
}
END_TEST

/* ---- variants ---- */

START_TEST(the_variants_run_by_their_records)
{
    for (const struct iq_variant *const *v = iq_nccl_variants; *v; v++) {
        struct iq_err err = {0};
        uint64_t seed = 9;
        ck_assert_msg(!iq_variant_register(*v, &err), "%s", err.text);
        struct call *c = call_open(&seed, 4, IQ_ACT_BF16, true);
        call_output(c);
        OK((*v)->run(&exec, NULL, &c->a, NULL, NULL));
        call_expect_golden(c, 9, (*v)->name);
        call_close(c);
        device_release();
        for (const struct iq_param *p = (*v)->params; p && p->name; p++) {
            ck_assert_uint_le(p->offset + sizeof(double), (*v)->params_size);
            ck_assert(p->lo <= p->def && p->def <= p->hi);
        }
    }
    const double params[] = {IQ_NCCL_TREE, IQ_NCCL_SIMPLE, 1, 1, 5, 0};
    uint64_t seed = 10;
    struct call *c = call_open(&seed, 3, IQ_ACT_BF16, true);
    call_output(c);
    OK(iq_nccl_variants[0]->run(&exec, NULL, &c->a, params, NULL));
    ck_assert_str_eq(fake_facts().algorithm, "Tree");
    ck_assert_str_eq(fake_facts().protocol, "Simple");
    ck_assert_int_eq(fake_facts().max_channels, 5);
    call_expect_golden(c, 10, "with parameters");
    call_close(c);
    rig_close();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl");
    TCase *tests = tcase_create("collectives");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, a_gather_gives_goldens_bits_for_every_number_of_ranks);
    tcase_add_test(tests, each_form_of_the_sum_is_the_sum);
    tcase_add_test(tests, ring_and_tree_are_reorderings_of_each_other);
    tcase_add_test(tests, with_one_rank_nccl_is_golden);
    tcase_add_test(tests, an_empty_call_opens_nothing);
    tcase_add_test(tests, settings_reach_the_communicator_and_leave_the_environment);
    tcase_add_test(tests, the_engine_may_be_on_any_gpu);
    tcase_add_test(tests, a_captured_collective_replays);
    tcase_add_test(tests, a_capture_over_several_gpus_has_to_be_asked_for);
    tcase_add_test(tests, the_variants_run_by_their_records);
    suite_add_tcase(suite, tests);
    return check_main(suite);
}
