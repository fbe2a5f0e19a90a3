/* The driver of attention: tiles, buffers, threads. Compiled once, for the baseline: only run_tile knows
 * vectors. */
#include "kernels/cpu/attention_tile.h"
#include "kernels/exec.h"
#include "kernels/op.h"

/* Below this many products a call is over sooner than threads have met. */
enum { PARALLEL_WORK = 1 << 17 };

struct job {
    const struct iq_attention *a;
    void (*run)(const struct tile *);
    uint32_t tile, group; /* most rows of a tile; query heads to a KV head */
    uint64_t total;       /* cost of all tiles */
    char *scratch;
    size_t room; /* scratch of one thread */
};

static size_t pad(size_t floats) { return (floats + 15) / 16 * 16; }

/* Where a thread's buffers lie, in floats from its scratch; row structs come last. */
struct layout {
    size_t q, scores, chunk, sum, row, bytes;
};

static struct layout lay(uint32_t dim, uint32_t tile)
{
    struct layout l = {0};
    size_t chunks = (dim + IQ_CHUNK - 1) / IQ_CHUNK, rows = pad(dim) * tile;
    l.scores = chunks * tile * QUERY_STRIDE;
    l.chunk = l.scores + chunks * tile * SCORE_STRIDE;
    l.sum = l.chunk + rows;
    l.row = l.sum + rows;
    l.bytes = (l.row * sizeof(float) + tile * sizeof(struct tile_row) + 63) / 64 * 64;
    return l;
}

/* Rows of a sequence and KV head are numbered position-major: i = (row of the sequence) * group + head of
 * the group. Tile n of `tiles` is [begin, end) of them, cut evenly. */
static void cut(uint64_t rows, uint64_t tiles, uint64_t n, uint64_t *begin, uint64_t *end)
{
    *begin = rows * n / tiles;
    *end = rows * (n + 1) / tiles;
}

static uint32_t first_key(const struct iq_attention *a, uint32_t pos)
{
    return a->window && pos + 1 > a->window ? pos + 1 - a->window : 0;
}

static uint64_t tile_cost(const struct job *j, const struct iq_seq *s, uint64_t begin, uint64_t end)
{
    uint32_t last = s->pos + (uint32_t)((end - 1) / j->group), first = s->pos + (uint32_t)(begin / j->group);
    return (end - begin) * (last + 1 - first_key(j->a, first));
}

static void fill_tile(const struct job *j, const struct iq_seq *s, uint32_t kv_head, uint64_t begin,
                      uint64_t end, struct tile *t)
{
    const struct iq_attention *a = j->a;
    const struct iq_kv_layer *c = a->cache;
    size_t head_at = iq_kv_k_at(c, 0, a->kv_head0 + kv_head);
    t->keys.k = c->k + head_at;
    t->keys.v = c->v + head_at;
    t->keys.blocks = s->blocks;
    t->rows = (uint32_t)(end - begin);
    for (uint64_t i = begin; i < end; i++) {
        uint32_t at = (uint32_t)(i / j->group), pos = s->pos + at, r = (uint32_t)(i - begin);
        size_t row = s->first + at, column = (kv_head * j->group + i % j->group) * (size_t)c->head_dim;
        const float *q = a->q + row * a->ldq + column;
        for (uint32_t d = 0; d < c->head_dim; d += IQ_CHUNK) {
            uint32_t n = c->head_dim - d < IQ_CHUNK ? c->head_dim - d : IQ_CHUNK;
            memcpy(t->q + ((size_t)d / IQ_CHUNK * t->rows_max + r) * QUERY_STRIDE, q + d, n * sizeof *q);
        }
        t->row[r] =
            (struct tile_row){.lo = first_key(a, pos), .hi = pos + 1, .y = a->y + row * a->ldy + column};
    }
}

/* Runs the tiles whose middle, along the running cost, falls into this part's share. */
static void part(void *ctx, int index, int parts)
{
    const struct job *j = ctx;
    const struct iq_attention *a = j->a;
    const struct iq_kv_layer *c = a->cache;
    struct layout l = lay(c->head_dim, j->tile);
    float *room = (float *)(j->scratch + (size_t)index * j->room);
    struct tile t = {.keys = {.block_stride = iq_kv_k_at(c, 1, 0), .dim = c->head_dim},
                     .rows_max = j->tile,
                     .act = a->act,
                     .scale = a->scale,
                     .stride = pad(c->head_dim),
                     .q = room + l.q,
                     .scores = room + l.scores,
                     .chunk = room + l.chunk,
                     .sum = room + l.sum,
                     .row = (struct tile_row *)(room + l.row)};
    uint64_t from = j->total * (uint64_t)index / (uint64_t)parts,
             to = j->total * (uint64_t)(index + 1) / (uint64_t)parts;
    uint64_t done = 0;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs && done < to; s++) {
        uint64_t rows = (uint64_t)s->rows * j->group, tiles = (rows + j->tile - 1) / j->tile, begin, end;
        for (uint32_t h = 0; h < a->kv_heads; h++)
            for (uint64_t n = 0; n < tiles; n++) {
                cut(rows, tiles, n, &begin, &end);
                uint64_t cost = tile_cost(j, s, begin, end), middle = done + cost / 2;
                done += cost;
                if (middle < from || middle >= to) continue;
                fill_tile(j, s, h, begin, end, &t);
                j->run(&t);
            }
    }
}

int iq__attention_tiles(struct iq_exec *x, const struct iq_attention *a, uint32_t tile,
                        void (*run)(const struct tile *))
{
    struct job j = {.a = a, .run = run, .tile = tile, .group = a->heads / a->kv_heads};
    uint64_t begin, end;
    for (const struct iq_seq *s = a->seq; s < a->seq + a->seqs; s++) {
        uint64_t rows = (uint64_t)s->rows * j.group, tiles = (rows + tile - 1) / tile;
        for (uint64_t n = 0; n < tiles; n++) {
            cut(rows, tiles, n, &begin, &end);
            j.total += tile_cost(&j, s, begin, end) * a->kv_heads;
        }
    }
    if (j.total == 0) return IQ_OK;
    struct iq_pool *pool = j.total * a->cache->head_dim < PARALLEL_WORK ? NULL : x->pool;
    j.room = lay(a->cache->head_dim, tile).bytes;
    j.scratch = iq_exec_scratch(x, j.room * (size_t)iq_pool_threads(pool));
    if (!j.scratch) return IQ_MEMORY;
    iq_pool_run(pool, part, &j);
    return IQ_OK;
}
