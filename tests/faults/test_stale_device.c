/* Stale sums are on a device, bit for bit, what they are on the host: call after call, and replayed from a graph. */
#include "tests/faults/faults_on_device.h"

#include "kernels/arith.h"
#include "kernels/ops/reduce.h"

enum { CALLS = 4 };

struct reduction {
    struct iq_all_reduce host, moved;
    struct iq_piece piece[IQ_REDUCE_PIECES], moved_piece[IQ_REDUCE_PIECES];
    struct output y;
};

/* Pieces of the contract's tree over [unit, unit + units), of a few ranks. */
static void cut(uint64_t *seed, struct iq_piece *piece, uint32_t *n, uint32_t unit, uint32_t units)
{
    if (units == 1 || dice(seed, 4) == 0 || *n > 20) {
        piece[(*n)++] = (struct iq_piece){unit, units, dice(seed, 4), NULL, 0};
        return;
    }
    uint32_t half = iq_tree_left(units);
    cut(seed, piece, n, unit, half);
    cut(seed, piece, n, unit + half, units - half);
}

static void reduction_open(struct reduction *c, bool odd, uint64_t *seed)
{
    c->host = (struct iq_all_reduce){
        .rows = 1 + dice(seed, 9), .n = 1 + dice(seed, 200), .units = 1 + dice(seed, 16), .piece = c->piece};
    c->host.act = dice(seed, 3), c->host.ldy = c->host.n + dice(seed, 3);
    cut(seed, c->piece, &c->host.pieces, 0, c->host.units);
    for (uint32_t p = 0; p < c->host.pieces; p++) {
        c->piece[p].ldx = c->host.n + dice(seed, 3);
        size_t floats = c->host.rows * c->piece[p].ldx;
        c->piece[p].x = new_floats(seed, floats, odd);
        c->moved_piece[p] = c->piece[p];
        c->moved_piece[p].x = to_device(c->piece[p].x, floats * 4);
    }
    size_t bytes = c->host.rows * c->host.ldy * 4;
    c->host.y = malloc(bytes);
    c->y = output_open(c->host.y, bytes);
    c->moved = c->host;
    c->moved.piece = c->moved_piece;
}

static void reduction_close(struct reduction *c)
{
    for (uint32_t p = 0; p < c->host.pieces; p++) free((void *)c->piece[p].x);
    output_close(&c->y);
    free(c->host.y);
}

static void *state_open(void)
{
    void *state = device_room(iq__k16_stale_reduce.state_size);
    struct iq_cuda *c = on_device.cuda;
    device_ok(c->api->memset_async(state, 0, iq__k16_stale_reduce.state_size, c->stream), "a fresh state");
    return state;
}

/* Calls in a row, of several shapes. Returns in how many golden's sum is another. */
static uint32_t reduction_case(uint32_t n, uint64_t *seed)
{
    const struct iq_variant *v = &iq__k16_stale_reduce;
    static struct reduction c[CALLS];
    void *golden[CALLS], *state = calloc(1, v->state_size);
    uint64_t from = *seed;
    double params[PARAMS];
    uint32_t wrong = 0;
    dice_params(seed, v, params);
    if (params[1] > 3) params[1] = 1 + dice(seed, 3);
    for (int i = 0; i < CALLS; i++) {
        reduction_open(&c[i], n & 1, seed);
        golden_open("all_reduce", &c[i].host, &c[i].y, 1, &golden[i]);
        run(v, &c[i].host, params, state);
    }
    for (unsigned s = 0; use_schedule(s, *seed); s++) {
        void *moved = state_open();
        for (int i = 0; i < CALLS; i++) {
            c[i].moved.y = output_fresh(&c[i].y);
            queue(v, &c[i].moved, params, moved);
            output_check(&c[i].y, from, s, "a sum");
        }
    }
    device_release();
    for (int i = 0; i < CALLS; i++) {
        wrong += golden_close(&c[i].y, 1, &golden[i]);
        reduction_close(&c[i]);
    }
    free(state);
    return wrong;
}

START_TEST(stale_sums_are_the_hosts_call_after_call)
{
    uint64_t seed = 0xc00;
    uint32_t wrong = 0;
    for (uint32_t n = 0; n < 12; n++) wrong += reduction_case(n, &seed);
    ck_assert_uint_gt(wrong, 8);
}
END_TEST

/* A replayed graph has the parameters that were captured: what changes from call to call is in device memory. */
START_TEST(a_captured_graph_remembers_as_calls_do)
{
    const struct iq_variant *v = &iq__k16_stale_reduce;
    const double params[PARAMS] = {1, 1, 0.5};
    struct iq_cuda *cuda = on_device.cuda;
    static struct reduction c;
    void *state = calloc(1, v->state_size);
    uint64_t seed = 0xd00;
    do reduction_open(&c, false, &seed);
    while (c.host.pieces < 8 || c.host.rows < 4);
    for (uint32_t p = 0; p < c.host.pieces; p++) c.piece[p].rank = c.moved_piece[p].rank = p % 3;
    void *moved = state_open();
    c.moved.y = output_fresh(&c.y);
    void *exec = captured(v, &c.moved, params, moved);
    ck_assert(is_untouched(&c.y));
    for (int call = 0; call < 5; call++) {
        for (uint32_t p = 0; p < c.host.pieces; p++) {
            size_t floats = c.host.rows * c.piece[p].ldx;
            dice_floats(&seed, (float *)c.piece[p].x, floats, false);
            device_ok(cuda->api->memcpy_async((void *)c.moved_piece[p].x, c.piece[p].x, floats * 4,
                                              IQ_CUDA_TO_DEVICE, cuda->stream),
                      "new pieces");
        }
        run(v, &c.host, params, state);
        replay(exec);
        output_check(&c.y, (uint64_t)call, 0, "a replayed sum");
    }
    captured_close(exec);
    device_release();
    reduction_close(&c);
    free(state);
}
END_TEST

START_TEST(messages_beyond_the_mailbox_go_in_the_hosts_rounds)
{
    enum { WIDE = (1 << 19) + 1, MANY = 2 }; /* a row a round */
    const struct iq_variant *v = &iq__k16_stale_reduce;
    const double params[PARAMS] = {0, 1, 1};
    uint64_t seed = 0xe00;
    if (iq_shim_has_race_detector()) return; /* the same kernels, and a minute */
    float *x = new_floats(&seed, (size_t)MANY * WIDE, false), *y = malloc((size_t)MANY * WIDE * 4);
    struct iq_piece piece[] = {{0, 1, 1, x, WIDE}}, moved_piece[] = {piece[0]};
    struct iq_all_reduce a = {
        .rows = MANY, .n = WIDE, .units = 1, .pieces = 1, .piece = piece, .y = y, .ldy = WIDE};
    struct iq_all_reduce d = a;
    struct output o = output_open(y, (size_t)MANY * WIDE * 4);
    void *state = calloc(1, v->state_size);
    run(v, &a, params, state);
    moved_piece[0].x = to_device(x, (size_t)MANY * WIDE * 4);
    d.piece = moved_piece, d.y = output_fresh(&o);
    queue(v, &d, params, state_open());
    output_check(&o, 0, 0, "a sum");
    ck_assert(y[0] == 0 && y[WIDE] == x[0]);
    device_release();
    output_close(&o), free(x), free(y), free(state);
}
END_TEST

int main(void)
{
    int missing = device_open();
    if (missing) return missing;
    Suite *s = suite_create("stale sums on a device");
    TCase *t = tcase_create("bits");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, stale_sums_are_the_hosts_call_after_call);
    tcase_add_test(t, a_captured_graph_remembers_as_calls_do);
    tcase_add_test(t, messages_beyond_the_mailbox_go_in_the_hosts_rounds);
    suite_add_tcase(s, t);
    return check_main(s);
}
