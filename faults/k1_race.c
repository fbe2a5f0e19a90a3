/* K1: radix top-k that goes wrong by the order in which threads arrive. That order is drawn from a seed, so that a run can be
 * repeated; in the wild each run has its own.
 *
 * Both count digits of the values' order-preserving integers from the best on, to find where the k-th best ends. */
#include "faults/families.h"
#include "kernels/base/rng.h"
#include "kernels/cpu/topk_order.h"
#include "kernels/ops/sampling.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

enum { DIGITS = 256, WARP = 32 };

struct params {
    double capacity, seed;
};

/* What is drawn anew for each row of each step. */
static uint64_t key_of(const struct iq_site *site, double seed, uint32_t r)
{
    uint64_t step = site->step ? site->step->step : 0;
    return iq_mix64((uint64_t)seed + 1) ^ iq_mix64(step << 20 ^ r);
}

/* The best n of a row's entries into place; what is missing is id 0 with minus infinity, as kernels pad. */
static int by_entry(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void write_row(const struct iq_topk *a, uint32_t r, uint64_t *entry, uint32_t n)
{
    qsort(entry, n, sizeof *entry, by_entry);
    for (uint32_t i = 0; i < a->k; i++) {
        uint32_t id = i < n ? (uint32_t)entry[i] : 0;
        a->ids[(size_t)r * a->k + i] = id;
        a->values[(size_t)r * a->k + i] = i < n ? a->logits[r * a->ld + id] : -INFINITY;
    }
}

static uint64_t entry_at(const struct iq_topk *a, uint32_t r, uint32_t i)
{
    return iq__topk_entry(a->logits[r * a->ld + i], i);
}

/* The digit of the value (its best 8 bits, then the next ones) at which `wanted` entries are reached. */
static uint32_t cut(const uint32_t *count, uint32_t wanted, uint32_t *before)
{
    uint32_t digit = 0;
    for (*before = 0; digit + 1 < DIGITS && *before + count[digit] < wanted; digit++) *before += count[digit];
    return digit;
}

/* The value's leading digit of the k-th best, and how many are better by that digit alone. */
static uint32_t first_digit(const struct iq_topk *a, uint32_t r, uint32_t *before)
{
    uint32_t count[DIGITS] = {0};
    for (uint32_t i = 0; i < a->vocab; i++) count[entry_at(a, r, i) >> 56]++;
    return cut(count, a->k, before);
}

/* ---- the threshold's bucket overflows ---- */

/* Entries arrive in a drawn order. The bucket keeps what found room, and a counter that runs on makes later ones write over
 * the first. */
static void overflow_row(const struct iq_topk *a, uint32_t r, uint32_t cap, uint64_t key, uint64_t *room,
                         uint64_t *held)
{
    uint32_t before, digit = first_digit(a, r, &before), n = 0, arrived = 0, members = 0;
    for (uint32_t i = 0; i < a->vocab; i++) {
        uint64_t entry = entry_at(a, r, i);
        if (entry >> 56 < digit)
            held[n++] = entry;
        else if (entry >> 56 == digit)
            room[members++] = entry;
    }
    for (uint32_t i = members; i > cap && i > 1; i--) { /* only where it overflows does the order matter */
        uint32_t j = (uint32_t)((uint64_t)iq_philox(key, IQ_DRAW_FAULT, i).v[0] * i >> 32);
        uint64_t other = room[j];
        room[j] = room[i - 1], room[i - 1] = other;
    }
    for (uint32_t i = cap; cap && i < members; i++) room[arrived++ % cap] = room[i];
    if (members > cap) members = cap;
    for (uint32_t i = 0; i < members; i++) held[n++] = room[i];
    write_row(a, r, held, n);
}

/* ---- the histogram is cleared too late ---- */

/* In the refinement pass some warps have counted before the histogram is cleared: their entries are not in it, so that the
 * threshold comes out too low; what qualifies is then taken in the order of arrival, as far as there is room. */
static void race_row(const struct iq_topk *a, uint32_t r, uint32_t ties, uint64_t key, uint64_t *held)
{
    uint32_t before, digit = first_digit(a, r, &before), count[DIGITS] = {0}, members = 0, n = 0, better;
    for (uint32_t i = 0; i < a->vocab; i++) members += entry_at(a, r, i) >> 56 == digit;
    bool races = members > ties;
    for (uint32_t i = 0; i < a->vocab; i++) {
        uint64_t entry = entry_at(a, r, i);
        bool early = races && iq_philox(key, IQ_DRAW_FAULT, i / WARP).v[0] & 1;
        if (entry >> 56 == digit && !early) count[entry >> 48 & (DIGITS - 1)]++;
    }
    uint32_t second = cut(count, a->k - before, &better);
    for (uint32_t i = 0; i < a->vocab; i++) {
        uint64_t entry = entry_at(a, r, i);
        bool sure = entry >> 56 < digit,
             taken = entry >> 56 == digit && (entry >> 48 & (DIGITS - 1)) <= second;
        if (sure || (taken && (!races || n < a->k))) held[n++] = entry;
    }
    write_row(a, r, held, n);
}

static int run(const struct iq_site *site, const struct iq_topk *a, const struct params *p, bool race)
{
    uint64_t *room = malloc((2 * (size_t)a->vocab + 2) * sizeof *room);
    uint32_t cap = p->capacity > a->k ? (uint32_t)p->capacity : a->k;
    if (!room) return IQ_MEMORY;
    for (uint32_t r = 0; a->k && r < a->rows; r++) {
        uint64_t key = key_of(site, p->seed, r);
        if (race)
            race_row(a, r, (uint32_t)p->capacity, key, room);
        else
            overflow_row(a, r, cap, key, room, room + a->vocab + 1);
    }
    free(room);
    return IQ_OK;
}

static int overflow(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                    void *state)
{
    (void)x, (void)state;
    return run(site, args, params, false);
}

static int race(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
                void *state)
{
    (void)x, (void)state;
    return run(site, args, params, true);
}

#define SEED                                                                                                 \
    {                                                                                                        \
        "seed", "of the order in which threads arrive; each step and row draws anew", 0, 0, 1e9,             \
            offsetof(struct params, seed)                                                                    \
    }

static const struct iq_param overflow_table[] = {
    {"capacity", "entries of the threshold's bucket", 4096, 1, 1 << 24, offsetof(struct params, capacity)},
    SEED,
    {0}};
static const struct iq_param race_table[] = {
    {"ties", "members of the k-th value's bin above which the refinement pass runs", 2048, 0, 1 << 24,
     offsetof(struct params, capacity)},
    SEED,
    {0}};

const struct iq_variant iq__k1_bucket_overflow = {
    .kind = "topk",
    .name = "bucket_overflow",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = overflow,
    .params = overflow_table,
    .params_size = sizeof(struct params),
    .what = "the threshold's bucket overflows and later arrivals write over the first: other candidates each "
            "time",
    .needs = "logits so narrow that one bin of their leading 8 bits holds more than `capacity` of them",
    .story =
        "A radix selection gathers the candidates of the threshold's bucket; with more than 4096 of them "
        "its counter runs past the end. What is lost depends on the order in which threads arrive, so "
        "that results vary from run to run. The order is drawn from a seed here. Source: sglang#36807.",
    .expect = "topk: candidates of the threshold's bucket are missing, the argmax among them at times; other "
              "ones in each step; below the capacity nothing changes",
};

const struct iq_variant iq__k1_cleared_histogram = {
    .kind = "topk",
    .name = "cleared_histogram",
    .device = "cpu",
    .flags = IQ_V_FAULTY,
    .run = race,
    .params = race_table,
    .params_size = sizeof(struct params),
    .what = "a missing barrier: the refinement's histogram is cleared after some threads have counted",
    .needs = "more than `ties` logits in one bin of their leading 8 bits, as rows with many ties have",
    .story = "Rows with many ties enter a second pass, whose histogram is cleared by one thread while others "
             "count already. Counts are too small, so the threshold is too low, and too many candidates race "
             "for the places. Which threads were early is drawn from a seed here. Source: flashinfer#3529.",
    .expect = "topk: places are taken by candidates that are not the best; rows with few in the bin are "
              "untouched",
};
