/* The kinds draft, accept and rollback: what taps, firing logs and triggers see of them, and their invariants. */
#include "kernels/ops/speculate.h"
#include "kernels/op.h"
#include "kernels/tables.h"

#include <string.h>

/* One decision a call. */
static uint32_t rows(const void *args) { return (void)args, 1; }

/* ---- draft ---- */

static size_t draft_bytes(const void *args, unsigned point)
{
    return point == 0 ? ((const struct iq_draft *)args)->wanted * sizeof(uint32_t) : 0;
}

static const void *draft_get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)point, (void)r, (void)scratch;
    return ((const struct iq_draft *)args)->draft;
}

static void draft_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    const struct iq_draft *a = args;
    (void)r;
    memcpy(a->draft, bytes, draft_bytes(args, point));
    *a->drafts = 0;
    while (*a->drafts < a->wanted && a->draft[*a->drafts] != UINT32_MAX) ++*a->drafts;
}

static const char *const draft_fields[] = {"tokens", "wanted", "drafts", NULL};

static uint64_t draft_field(const void *args, unsigned index)
{
    const struct iq_draft *a = args;
    const uint64_t value[] = {a->tokens, a->wanted, *a->drafts};
    return value[index];
}

/* As many as were asked for at most, all of them tokens of the vocabulary. */
static int draft_check(const void *args, struct iq_err *err)
{
    const struct iq_draft *a = args;
    if (*a->drafts > a->wanted)
        return iq_fail(err, IQ_MISMATCH, "request %u: %u drafts, expected at most %u", a->request, *a->drafts,
                       a->wanted);
    for (uint32_t i = 0; i < *a->drafts; i++)
        if (a->draft[i] >= a->vocab)
            return iq_fail(err, IQ_MISMATCH, "request %u: draft %u is token %u, expected one below %u",
                           a->request, i, a->draft[i], a->vocab);
    return IQ_OK;
}

const struct iq_kind iq__kind_draft = {.name = "draft",
                                       .args_size = sizeof(struct iq_draft),
                                       .rows = rows,
                                       .row_bytes = draft_bytes,
                                       .get = draft_get,
                                       .put = draft_put,
                                       .elem = sizeof(uint32_t),
                                       .fields = draft_fields,
                                       .field = draft_field,
                                       .check = draft_check};

/* ---- accept, rollback: a number each ---- */

static size_t number_bytes(const void *args, unsigned point)
{
    return (void)args, point == 0 ? sizeof(uint32_t) : 0;
}

static const void *accept_get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)point, (void)r, (void)scratch;
    return ((const struct iq_accept *)args)->accepted;
}

static void accept_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    (void)point, (void)r;
    memcpy(((const struct iq_accept *)args)->accepted, bytes, sizeof(uint32_t));
}

static const char *const accept_fields[] = {"drafts", "accepted", NULL};

static uint64_t accept_field(const void *args, unsigned index)
{
    const struct iq_accept *a = args;
    return index == 0 ? a->drafts : *a->accepted;
}

/* Each accepted draft is what the model chose there, and the first rejected one is not. */
static int accept_check(const void *args, struct iq_err *err)
{
    const struct iq_accept *a = args;
    if (*a->accepted > a->drafts)
        return iq_fail(err, IQ_MISMATCH, "request %u: %u drafts accepted of %u", a->request, *a->accepted,
                       a->drafts);
    for (uint32_t i = 0; i < *a->accepted; i++)
        if (a->draft[i] != a->chosen[i])
            return iq_fail(err, IQ_MISMATCH,
                           "request %u: draft %u, token %u, is accepted where the model chose token %u",
                           a->request, i, a->draft[i], a->chosen[i]);
    uint32_t next = *a->accepted;
    if (next < a->drafts && a->draft[next] == a->chosen[next])
        return iq_fail(err, IQ_MISMATCH, "request %u: draft %u is rejected though the model chose it",
                       a->request, next);
    return IQ_OK;
}

const struct iq_kind iq__kind_accept = {.name = "accept",
                                        .args_size = sizeof(struct iq_accept),
                                        .rows = rows,
                                        .row_bytes = number_bytes,
                                        .get = accept_get,
                                        .put = accept_put,
                                        .elem = sizeof(uint32_t),
                                        .fields = accept_fields,
                                        .field = accept_field,
                                        .check = accept_check};

static const void *rollback_get(const void *args, unsigned point, uint32_t r, void *scratch)
{
    (void)point, (void)r, (void)scratch;
    return ((const struct iq_rollback *)args)->valid;
}

static void rollback_put(const void *args, unsigned point, uint32_t r, const void *bytes)
{
    (void)point, (void)r;
    memcpy(((const struct iq_rollback *)args)->valid, bytes, sizeof(uint32_t));
}

static const char *const rollback_fields[] = {"drafts", "accepted", "rejected", NULL};

static uint64_t rollback_field(const void *args, unsigned index)
{
    const struct iq_rollback *a = args;
    const uint64_t value[] = {a->drafts, a->accepted, a->drafts - a->accepted};
    return value[index];
}

/* Nothing behind the last accepted draft is valid, and nothing before it is lost. */
static int rollback_check(const void *args, struct iq_err *err)
{
    const struct iq_rollback *a = args;
    uint32_t want = a->first + 1 + a->accepted;
    if (*a->valid == want) return IQ_OK;
    return iq_fail(
        err, IQ_MISMATCH,
        "request %u: KV of %u positions is kept, expected %u: %u drafts from position %u on, %u of "
        "them accepted",
        a->request, *a->valid, want, a->drafts, a->first + 1, a->accepted);
}

const struct iq_kind iq__kind_rollback = {.name = "rollback",
                                          .args_size = sizeof(struct iq_rollback),
                                          .rows = rows,
                                          .row_bytes = number_bytes,
                                          .get = rollback_get,
                                          .put = rollback_put,
                                          .elem = sizeof(uint32_t),
                                          .fields = rollback_fields,
                                          .field = rollback_field,
                                          .check = rollback_check};
