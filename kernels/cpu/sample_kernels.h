/* sample, written once: loops over integers that the compiler vectorises for the instruction set of the
 * file that includes it. A token is dropped by setting its weight to 0: weight 0 is never drawn. */
#include "kernels/cpu/sample_rules.h"
#include "kernels/cpu/sort_entries.h"
#include "kernels/cpu/vec_compare.h"
#include "kernels/exec.h"
#include "kernels/op.h"

/* A row's set by ascending id. */
struct draw {
    const float *logit;
    const uint32_t *id; /* NULL: the index is the id */
    double *e;          /* (n) E of each; its memory serves again once the weights are made */
    int64_t *weight;    /* (n) at most 2^40; signed, for which AVX2 has a comparison */
    uint32_t n;
};

/* A thread's memory; all arrays are as long as the largest set. */
struct sample_room {
    int status; /* of the first row that failed */
    double *e;
    int64_t *weight;
    uint64_t *entry, *other;
    float *logit;
    uint32_t *id;
};

/* Further than this under the maximum a token weighs 0: E(-28) * 2^40 < 1. */
#define WEIGHTLESS -28.0f

/* The largest logit; false where all are NaN. */
static bool largest(const struct draw *d, float *max)
{
    enum { STEP = 4 };
    vf greatest[STEP];
    float lane[VL];
    uint32_t i = 0;
    *max = -INFINITY;
    for (int v = 0; v < STEP; v++) greatest[v] = v_set1(-INFINITY);
    for (; i + STEP * VL <= d->n; i += STEP * VL)
        for (int v = 0; v < STEP; v++) greatest[v] = v_raise(v_load(d->logit + i + v * VL), greatest[v]);
    for (; i < d->n; i++) *max = d->logit[i] > *max ? d->logit[i] : *max;
    for (int v = 0; v < STEP; v++) {
        v_store(lane, greatest[v]);
        for (int l = 0; l < VL; l++) *max = lane[l] > *max ? lane[l] : *max;
    }
    if (*max > -INFINITY) return true;
    for (i = 0; i < d->n; i++)
        if (d->logit[i] == d->logit[i]) return true;
    return false;
}

static void weigh(const struct draw *d, float max)
{
    for (uint32_t i = 0; i < d->n; i++) {
        double x = (double)d->logit[i] - (double)max;
        double e = iq__exp(x >= WEIGHTLESS ? x : 0.0);
        d->e[i] = d->logit[i] == max ? 1.0 : x >= WEIGHTLESS ? e : 0.0;
    }
    for (uint32_t i = 0; i < d->n; i++) d->weight[i] = (int64_t)(d->e[i] * IQ_SAMPLE_ONE);
}

/* The sum of the weights above `least`. */
static uint64_t sum_above(const int64_t *weight, uint32_t n, int64_t least)
{
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) sum += weight[i] > least ? weight[i] : 0;
    return (uint64_t)sum;
}

/* top-p below 1, so that limit < sum << 32. A token stays if the weights above its own do not reach the
 * limit; of the tokens with the least weight that stays only the first few do. That weight is looked for by
 * its length in bits first, then bit by bit among the tokens with that length: `edge` is the largest weight
 * above which the limit is reached, so all tokens of that weight go. */
static void cut_top_p(const struct draw *d, iq_u128 limit)
{
    int length = 0, most = 40;
    while (length < most) {
        int middle = (length + most + 1) / 2;
        bool reached = (iq_u128)sum_above(d->weight, d->n, ((int64_t)1 << middle) - 1) << 32 >= limit;
        length = reached ? middle : length;
        most = reached ? most : middle - 1;
    }
    int64_t edge = ((int64_t)1 << length) - 1, next = 2 * edge + 1, *same = (int64_t *)d->e;
    uint64_t above = sum_above(d->weight, d->n, next);
    uint32_t n = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        same[n] = d->weight[i];
        n += d->weight[i] > edge && d->weight[i] <= next;
    }
    for (int64_t bit = (int64_t)1 << length >> 1; bit; bit >>= 1)
        if ((iq_u128)(above + sum_above(same, n, edge + bit)) << 32 >= limit) edge += bit;
    int64_t weight = edge + 1;
    above += sum_above(same, n, weight);
    iq_u128 left = limit - ((iq_u128)above << 32), one = (iq_u128)weight << 32;
    uint64_t stay = (uint64_t)((left + one - 1) / one), ties = 0;
    for (uint32_t i = 0; i < n; i++) ties += same[i] == weight;
    for (uint32_t i = 0; i < d->n; i++) d->weight[i] = d->weight[i] > edge ? d->weight[i] : 0;
    for (uint32_t i = d->n; ties > stay; i--) /* the last ones go */
        if (d->weight[i - 1] == weight) d->weight[i - 1] = 0, ties--;
}

static int draw_row(const struct iq_sample *a, uint32_t r, const struct draw *d, uint32_t *token)
{
    enum { RUN = 256 };
    float max;
    if (!largest(d, &max)) return IQ_NOT_FOUND;
    weigh(d, max);
    int64_t least = (int64_t)iq__sample_least(a->min_p[r]);
    for (uint32_t i = 0; least > 0 && i < d->n; i++) d->weight[i] = d->weight[i] >= least ? d->weight[i] : 0;
    if (a->top_p[r] < 1.0f) cut_top_p(d, iq__sample_limit(a->top_p[r], sum_above(d->weight, d->n, 0)));
    uint64_t point = iq__sample_point(a->seed[r], a->pos[r], sum_above(d->weight, d->n, 0));
    uint32_t at = 0;
    for (; at + RUN <= d->n; at += RUN) { /* whole runs first: their sums vectorise */
        uint64_t sum = 0;
        for (uint32_t i = 0; i < RUN; i++) sum += (uint64_t)d->weight[at + i];
        if (point < sum) break;
        point -= sum;
    }
    for (; at < d->n; at++) {
        if (point < (uint64_t)d->weight[at]) {
            *token = d->id ? d->id[at] : at;
            return IQ_OK;
        }
        point -= (uint64_t)d->weight[at];
    }
    return IQ_INTERNAL;
}

static int sample_row(const struct iq_sample *a, uint32_t r, const struct sample_room *room)
{
    bool greedy;
    IQ_TRY(iq__sample_begin(a, r, &greedy));
    if (greedy) return IQ_OK;
    struct draw d = {.e = room->e, .weight = room->weight, .n = a->top_k[r]};
    if (d.n == 0) {
        d.n = a->vocab;
        d.logit = a->logits + r * a->ld;
        return draw_row(a, r, &d, &a->token[r]);
    }
    size_t first = (size_t)r * a->k;
    for (uint32_t i = 0; i < d.n; i++) room->entry[i] = (uint64_t)a->ids[first + i] << 32 | i;
    const uint64_t *sorted = sort_entries(room->entry, room->other, d.n);
    for (uint32_t i = 0; i < d.n; i++) {
        room->id[i] = (uint32_t)(sorted[i] >> 32);
        room->logit[i] = a->values[first + (uint32_t)sorted[i]];
    }
    d.id = room->id, d.logit = room->logit;
    return draw_row(a, r, &d, &a->token[r]);
}

struct sample_job {
    const struct iq_sample *a;
    char *memory;
    size_t stride; /* bytes of one part's memory */
    size_t most;   /* tokens in a set */
};

static struct sample_room *room_of(const struct sample_job *j, int part)
{
    char *at = j->memory + (size_t)part * j->stride;
    struct sample_room *room = (struct sample_room *)at;
    room->e = (double *)(room + 1);
    room->weight = (int64_t *)(room->e + j->most);
    room->entry = (uint64_t *)(room->weight + j->most);
    room->other = room->entry + j->most;
    room->logit = (float *)(room->other + j->most);
    room->id = (uint32_t *)(room->logit + j->most);
    return room;
}

static void sample_part(void *ctx, int part, int parts)
{
    const struct sample_job *j = ctx;
    struct sample_room *room = room_of(j, part);
    int begin, end;
    room->status = IQ_OK;
    iq_slice((int)j->a->rows, part, parts, &begin, &end);
    for (int r = begin; r < end; r++) {
        int status = sample_row(j->a, (uint32_t)r, room);
        if (status == IQ_OK) continue;
        j->a->token[r] = UINT32_MAX;
        if (room->status == IQ_OK) room->status = status;
    }
}

static int sample_run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                      void *state)
{
    struct sample_job j = {.a = args};
    (void)site, (void)params, (void)state;
    if (j.a->rows == 0) return IQ_OK;
    struct iq_pool *pool = j.a->rows > 1 ? x->pool : NULL;
    j.most = j.a->vocab > j.a->k ? j.a->vocab : j.a->k;
    j.stride = (sizeof(struct sample_room) + j.most * 40 + 63) / 64 * 64;
    j.memory = iq_exec_scratch(x, (size_t)iq_pool_threads(pool) * j.stride);
    if (!j.memory) return IQ_MEMORY;
    iq_pool_run(pool, sample_part, &j);
    for (int part = 0; part < iq_pool_threads(pool); part++) {
        int status = ((struct sample_room *)(j.memory + (size_t)part * j.stride))->status;
        if (status != IQ_OK) return status;
    }
    return IQ_OK;
}
