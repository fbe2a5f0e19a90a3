#include "tests/nccl/fake_nccl.h"
#include "kernels/cuda/runtime.h"
#include "tests/nccl/fake_sum.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGE = FAKE_FLOATS * 4 }; /* bytes */

struct clique {
    int ranks, left; /* left: that are open */
    bool ring;
    struct comm *comm[IQ_NCCL_RANKS];
};
struct comm {
    struct clique *clique;
    int rank, device;
    void *event;
    char *stage, *all; /* own message; rank 0's: all messages, and behind them the sum */
};

/* What a group holds. */
enum kind { ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER, SEND, RECV };
struct op {
    enum kind kind;
    const char *from;
    char *to;
    size_t count;
    int type, peer;
    struct comm *comm;
    void *stream;
    bool done;
};
static struct op ops[1024];
static int ops_n, depth;

static struct fake_facts facts;
static char fail_function[40];
static int fail_n, fail_code, async_code;

static const struct iq_cuda_api *api(void) { return iq_cuda_shim_api(); }
struct fake_facts fake_facts(void) { return facts; }
void fake_async(int code) { async_code = code; }

void fake_fail(const char *function, int n, int code)
{
    snprintf(fail_function, sizeof fail_function, "%s", function);
    fail_n = n, fail_code = code;
}

void fake_forget(void)
{
    facts = (struct fake_facts){.max_channels = IQ_NCCL_UNSET};
    fail_n = async_code = ops_n = depth = 0;
}

static int planned(const char *function)
{
    return fail_n && !strcmp(function, fail_function) && !--fail_n ? fail_code : 0;
}
#define PLANNED(function)                                                                                    \
    do {                                                                                                     \
        int code_ = planned(function);                                                                       \
        if (code_) return code_;                                                                             \
    } while (0)

/* ---- communicators ---- */

/* The caller's device is put back whatever fails. */
static int back_to(int device, int code)
{
    if (!api()->device_use(device)) return code;
    api()->device_use(device);
    return code ? code : IQ_NCCL_CUDA_ERROR;
}

static struct clique *clique_open(int ranks)
{
    const char *algorithm = getenv("NCCL_ALGO"), *protocol = getenv("NCCL_PROTO");
    struct clique *q = calloc(1, sizeof *q);
    q->ranks = ranks;
    q->ring = !algorithm || strcmp(algorithm, "Tree") != 0;
    snprintf(facts.algorithm, sizeof facts.algorithm, "%s", algorithm ? algorithm : "");
    snprintf(facts.protocol, sizeof facts.protocol, "%s", protocol ? protocol : "");
    return q;
}

static int comm_open(struct clique *q, int rank, int device, void **out)
{
    struct comm *c = calloc(1, sizeof *c);
    c->clique = q, c->rank = rank, c->device = device;
    q->comm[rank] = c;
    q->left++;
    *out = c;
    facts.open++, facts.opened++;
    if (api()->device_use(device) || api()->event_create(&c->event)) return IQ_NCCL_CUDA_ERROR;
    if (api()->malloc((void **)&c->stage, STAGE)) return IQ_NCCL_CUDA_ERROR;
    if (!rank && api()->malloc((void **)&c->all, (size_t)STAGE * (size_t)(q->ranks + 1)))
        return IQ_NCCL_CUDA_ERROR;
    return IQ_NCCL_OK;
}

static int comm_close(void *comm)
{
    struct comm *c = comm;
    int before;
    api()->device_current(&before);
    api()->device_use(c->device);
    api()->free(c->stage);
    api()->free(c->all);
    if (c->event) api()->event_destroy(c->event);
    api()->device_use(before);
    if (!--c->clique->left) free(c->clique);
    free(c);
    facts.open--;
    return IQ_NCCL_OK;
}

static int comm_destroy(void *comm) { return comm_close(comm); }

static int comm_abort(void *comm)
{
    facts.aborted++;
    return comm_close(comm);
}

static int comm_init_all(void **comm, int ranks, const int *device)
{
    int before, code = 0;
    PLANNED("comm_init_all");
    for (int r = 0; r < ranks; r++)
        for (int s = 0; s < r; s++)
            if (device[s] == device[r]) return IQ_NCCL_INVALID_USAGE;
    api()->device_current(&before);
    struct clique *q = clique_open(ranks);
    for (int r = 0; r < ranks && !code; r++) code = comm_open(q, r, device[r], &comm[r]);
    return back_to(before, code);
}

static int unique_id(struct iq_nccl_id *id)
{
    PLANNED("unique_id");
    memset(id, 7, sizeof *id);
    return IQ_NCCL_OK;
}

/* In a group: the last rank's call opens. */
static int comm_init_rank(void **comm, int ranks, struct iq_nccl_id id, int rank,
                          struct iq_nccl_config *config)
{
    static struct clique *q;
    int device;
    PLANNED("comm_init_rank");
    if (id.bytes[100] != 7 || config->magic != 0xcafebeefu || !depth) return IQ_NCCL_INVALID_ARGUMENT;
    if (!rank) q = clique_open(ranks);
    facts.max_channels = config->max_ctas;
    api()->device_current(&device);
    for (int r = 0; r < rank; r++)
        if (q->comm[r]->device == device) return IQ_NCCL_INVALID_USAGE;
    return comm_open(q, rank, device, comm);
}

static int comm_async_error(void *comm, int *code)
{
    (void)comm;
    PLANNED("comm_async_error");
    *code = async_code;
    return IQ_NCCL_OK;
}

/* ---- groups ---- */

static size_t type_bytes(int type) { return type == IQ_NCCL_BFLOAT16 ? 2 : 4; }
static size_t op_bytes(const struct op *o) { return o->count * type_bytes(o->type); }

/* Between a rank's buffer and its stage, by a kernel of its own device. */
static void stage(struct op *o, bool out, size_t bytes)
{
    api()->device_use(o->comm->device);
    if (out)
        fake_copy(o->to, o->comm->stage, bytes / 2, o->stream);
    else
        fake_copy(o->comm->stage, o->from, bytes / 2, o->stream);
}

static void wait_for(struct op *waits, struct op *other)
{
    api()->device_use(other->comm->device);
    api()->event_record(other->comm->event, other->stream);
    api()->stream_wait(waits->stream, other->comm->event);
}

static void move(void *to, const void *from, size_t bytes, void *stream)
{
    api()->memcpy_async(to, from, bytes, IQ_CUDA_ON_DEVICE, stream);
}

static void run_collective(struct op *rank[], int ranks)
{
    struct op *root = rank[0];
    size_t bytes = op_bytes(root), n = (size_t)ranks, in = bytes, out = bytes;
    char *all = root->comm->all, *sum = all + (size_t)STAGE * n;
    if (root->kind == REDUCE_SCATTER) in *= n;
    if (root->kind == ALL_GATHER) out *= n;
    for (int r = 0; r < ranks; r++) {
        stage(rank[r], false, in);
        if (r) wait_for(root, rank[r]);
        size_t at = (size_t)r * (root->kind == ALL_GATHER ? bytes : STAGE);
        move(all + at, rank[r]->comm->stage, in, root->stream);
    }
    api()->device_use(root->comm->device);
    if (root->kind != ALL_GATHER)
        fake_sum(sum, all, STAGE, in / type_bytes(root->type), ranks, root->comm->clique->ring,
                 root->type == IQ_NCCL_BFLOAT16, root->stream);
    for (int r = 0; r < ranks; r++) {
        if (r) wait_for(rank[r], root);
        const char *from =
            root->kind == ALL_GATHER ? all : sum + (root->kind == REDUCE_SCATTER ? (size_t)r * bytes : 0);
        move(rank[r]->comm->stage, from, out, rank[r]->stream);
        stage(rank[r], true, out);
    }
    for (int r = 1; r < ranks; r++) wait_for(root, rank[r]); /* before the root's memory is used again */
}

static int collective(struct op *o)
{
    struct op *rank[IQ_NCCL_RANKS] = {0};
    int ranks = o->comm->clique->ranks;
    for (struct op *p = o; p < ops + ops_n; p++)
        if (!p->done && p->comm->clique == o->comm->clique && p->kind < SEND && !rank[p->comm->rank])
            rank[p->comm->rank] = p;
    for (int r = 0; r < ranks; r++) {
        if (!rank[r] || rank[r]->kind != o->kind || rank[r]->count != o->count || rank[r]->type != o->type)
            return IQ_NCCL_INVALID_USAGE;
        rank[r]->done = true;
    }
    if (op_bytes(o) * (o->kind == ALL_REDUCE ? 1 : (size_t)ranks) > STAGE) return IQ_NCCL_INVALID_ARGUMENT;
    run_collective(rank, ranks);
    return IQ_NCCL_OK;
}

static int point_to_point(struct op *send)
{
    struct op *recv = NULL;
    if (send->kind != SEND) return IQ_NCCL_INVALID_USAGE;
    for (struct op *p = ops; p < ops + ops_n && !recv; p++)
        if (!p->done && p->kind == RECV && p->comm->clique == send->comm->clique &&
            p->comm->rank == send->peer && p->peer == send->comm->rank)
            recv = p;
    if (!recv || recv->count != send->count || recv->type != send->type || op_bytes(send) > STAGE)
        return IQ_NCCL_INVALID_USAGE;
    send->done = recv->done = true;
    stage(send, false, op_bytes(send));
    wait_for(recv, send);
    move(recv->comm->stage, send->comm->stage, op_bytes(send), recv->stream);
    stage(recv, true, op_bytes(send));
    wait_for(send, recv);
    return IQ_NCCL_OK;
}

static int group_start(void)
{
    PLANNED("group_start");
    depth++;
    return IQ_NCCL_OK;
}

static int group_end(void)
{
    int before, code = planned("group_end");
    if (--depth) return code;
    api()->device_current(&before);
    for (struct op *o = ops; o < ops + ops_n && !code; o++)
        if (!o->done && o->kind < SEND) code = collective(o);
    for (struct op *o = ops; o < ops + ops_n && !code; o++)
        if (!o->done && o->kind == SEND) code = point_to_point(o);
    for (struct op *o = ops; o < ops + ops_n && !code; o++)
        if (!o->done) code = IQ_NCCL_INVALID_USAGE;
    ops_n = 0;
    if (!code && api()->last_error()) code = IQ_NCCL_CUDA_ERROR;
    return back_to(before, code);
}

static int put(struct op o)
{
    if (!depth) return IQ_NCCL_INVALID_USAGE;
    ops[ops_n++] = o;
    return IQ_NCCL_OK;
}

static int all_reduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream)
{
    PLANNED("all_reduce");
    if (op != IQ_NCCL_SUM) return IQ_NCCL_INVALID_ARGUMENT;
    return put((struct op){ALL_REDUCE, from, to, count, type, 0, comm, stream, false});
}

static int reduce_scatter(const void *from, void *to, size_t count, int type, int op, void *comm,
                          void *stream)
{
    PLANNED("reduce_scatter");
    if (op != IQ_NCCL_SUM) return IQ_NCCL_INVALID_ARGUMENT;
    return put((struct op){REDUCE_SCATTER, from, to, count, type, 0, comm, stream, false});
}

static int all_gather(const void *from, void *to, size_t count, int type, void *comm, void *stream)
{
    PLANNED("all_gather");
    return put((struct op){ALL_GATHER, from, to, count, type, 0, comm, stream, false});
}

static int send(const void *from, size_t count, int type, int peer, void *comm, void *stream)
{
    PLANNED("send");
    return put((struct op){SEND, from, NULL, count, type, peer, comm, stream, false});
}

static int recv(void *to, size_t count, int type, int peer, void *comm, void *stream)
{
    PLANNED("recv");
    return put((struct op){RECV, NULL, to, count, type, peer, comm, stream, false});
}

static int version(int *v)
{
    *v = 22809;
    PLANNED("version");
    return IQ_NCCL_OK;
}

static const char *error_text(int code)
{
    return code == IQ_NCCL_INVALID_USAGE ? "invalid usage" : "an error";
}
static const char *last_error(void *comm) { return comm ? "what the rank said\n" : "what NCCL said\n"; }

const struct iq_nccl_api fake_nccl = {
    .name = "fake",
    .shim = true,
    .version = version,
    .unique_id = unique_id,
    .comm_init_all = comm_init_all,
    .comm_init_rank = comm_init_rank,
    .comm_destroy = comm_destroy,
    .comm_abort = comm_abort,
    .comm_async_error = comm_async_error,
    .group_start = group_start,
    .group_end = group_end,
    .all_reduce = all_reduce,
    .reduce_scatter = reduce_scatter,
    .all_gather = all_gather,
    .send = send,
    .recv = recv,
    .error_text = error_text,
    .last_error = last_error,
};
