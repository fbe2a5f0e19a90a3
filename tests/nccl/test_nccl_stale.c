/* The early message over NCCL: the same wrong sums as the CPU's stale_peer, in the same places. */
#include "faults/families.h"
#include "faults/stale_rules.h"
#include "tests/check_main.h"
#include "tests/nccl/nccl_rig.h"

struct stale_params {
    double mode, peer, fraction, capture;
};
static void *state; /* device memory, as armed */

static void setup(void)
{
    rig_devices(8);
    OK(iq_cuda_alloc(cuda, sizeof(struct iq__stale_state), &state));
}

static void close_all(void)
{
    device_ok(cuda->api->free(state), "free");
    rig_close();
}

static int strike(struct call *c, const struct stale_params *p)
{
    call_output(c);
    return iq__k16_nccl_stale.run(&exec, NULL, &c->a, p, state);
}

/* Ranks that are powers of two hold one piece each, so that both variants see the same message. */
START_TEST(an_early_message_gives_what_stale_peer_gives)
{
    static const uint32_t ranks[] = {2, 4, 8};
    for (unsigned i = 0; use_schedule(i, 3); i++) {
        unsigned differ = 0;
        for (int kind = 0; kind < 6; kind++) {
            struct stale_params p = {kind % 2, 1, kind < 2 ? 1 : 0.5, 0};
            struct iq__stale_state *host = calloc(1, sizeof *host);
            uint64_t seed = iq_mix64((uint64_t)kind + 10 * i);
            device_ok(cuda->api->memset_async(state, 0, sizeof *host, cuda->stream), "arming");
            for (int round = 0; round < 3; round++) {
                struct iq_exec cpu = {0};
                struct call *c = call_open(&seed, ranks[kind / 2], IQ_ACT_F32, true);
                float *golden = malloc(c->bytes);
                memcpy(golden, c->want, c->bytes);
                struct iq_site site = {0};
                ck_assert_int_eq(iq__k16_stale_reduce.run(&cpu, &site, &c->host, &p, host), IQ_OK);
                OK(strike(c, &p));
                call_expect_golden(c, seed, "nccl_stale beside stale_peer");
                differ += memcmp(golden, c->want, c->bytes) != 0;
                free(golden);
                call_close(c);
                device_release();
                iq_exec_close(&cpu);
            }
            free(host);
        }
        ck_assert_uint_ge(differ,
                          9); /* of 18: it is caught on exact data; short messages may have no late line */
    }
    close_all();
}
END_TEST

START_TEST(it_is_harmless_without_a_peer_or_with_nothing_early)
{
    uint64_t seed = 4;
    struct stale_params far = {0, 7, 1, 0}, never = {0, 1, 0, 0}, first = {0, 1, 1, 0};
    struct call *c = call_open(&seed, 3, IQ_ACT_F32, true), *one = call_open(&seed, 1, IQ_ACT_BF16, true);
    OK(strike(c, &far));
    call_expect_golden(c, 4, "a peer that is not there");
    OK(strike(c, &never));
    call_expect_golden(c, 4, "nothing early");
    OK(strike(one, &first));
    call_expect_golden(one, 4, "one rank");
    call_close(c);
    call_close(one);
    close_all();
}
END_TEST

/* A replay sends what the replay before it delivered: the fault advances inside the graph. */
START_TEST(a_captured_strike_advances_with_each_replay)
{
    struct stale_params p = {0, 1, 1, 1};
    uint64_t seed = 12;
    void *graph, *run;
    struct call *c = call_open(&seed, 2, IQ_ACT_F32, true);
    OK(strike(c, &p));
    ck_assert_int_eq(cuda->api->capture_begin(cuda->stream), 0);
    OK(iq__k16_nccl_stale.run(&exec, NULL, &c->a, &p, state));
    ck_assert_int_eq(cuda->api->capture_end(cuda->stream, &graph), 0);
    ck_assert_int_eq(cuda->api->graph_instantiate(&run, graph), 0);
    device_ok(cuda->api->memset_async(state, 0, sizeof(struct iq__stale_state), cuda->stream), "arming");
    device_ok(cuda->api->graph_launch(run, cuda->stream), "replay");
    float *early = call_result(c);
    ck_assert_int_ne(memcmp(early, c->want, c->bytes), 0);
    free(early);
    device_ok(cuda->api->graph_launch(run, cuda->stream), "replay");
    call_expect_golden(c, 12, "the second replay, of the same sums");
    device_ok(cuda->api->graph_destroy(graph), "destroy");
    device_ok(cuda->api->exec_destroy(run), "destroy");
    call_close(c);
    close_all();
}
END_TEST

/* A message larger than the mailbox goes in rounds of whole rows; the fake's messages are small, so the largest is meant. */
START_TEST(a_row_that_no_mailbox_holds_is_left_to_golden)
{
    struct iq_all_reduce a = {.rows = 1, .n = IQ__STALE_MAILBOX};
    ck_assert(!iq__k16_nccl_stale.supports(NULL, &a));
    a.n = 4096;
    ck_assert(iq__k16_nccl_stale.supports(NULL, &a));
    close_all();
}
END_TEST

int main(void)
{
    Suite *suite = suite_create("nccl_stale");
    TCase *tests = tcase_create("stale");
    tcase_set_timeout(tests, 60);
    tcase_add_checked_fixture(tests, setup, NULL);
    tcase_add_test(tests, an_early_message_gives_what_stale_peer_gives);
    tcase_add_test(tests, it_is_harmless_without_a_peer_or_with_nothing_early);
    tcase_add_test(tests, a_captured_strike_advances_with_each_replay);
    tcase_add_test(tests, a_row_that_no_mailbox_holds_is_left_to_golden);
    suite_add_tcase(suite, tests);
    return check_main(suite);
}
