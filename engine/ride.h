/* Riders: many continuations of one golden request, side by side as rows of one forward pass, each with faults of its own.
 *
 * Golden runs first, on an engine whose configuration makes room for `riders`; what it computed (KV, residuals before each layer)
 * stays. A rider joins where its first fault can fire: at a row of a golden step, before a layer of it. It reads golden's KV up
 * to there (blocks are shared, the one that it goes on in is copied) and computes nothing that golden has computed. Its steps,
 * rows and sites are those of a run by itself (one request, one thread), and so are its bits: a row's golden bits don't depend
 * on its neighbours, and its faults run on its rows alone (iq_slots_ride).
 *
 * Not thread-safe; the engine's thread. After riding the engine takes no more steps.
 */
#ifndef IQ_ENGINE_RIDE_H
#define IQ_ENGINE_RIDE_H

#include "engine/engine.h"

struct iq_ride;

/* Whether a request that runs alone under this configuration can be ridden: its prompt is one step, nothing is scored, the
 * cache has room. */
bool iq_ride_can(const struct iq_engine_config *, const struct iq_request *, uint32_t requests);
/* Before the engine's first step. The engine and what it borrows must outlive the ride. */
int iq_ride_open(struct iq_engine *, struct iq_ride **out, struct iq_err *err);
void iq_ride_close(struct iq_ride *);

struct iq_ride_start {
    struct iq_step step; /* golden's, in which the rider begins */
    uint32_t pos;        /* its first row: those before it in the step are golden's */
    uint32_t
        layer; /* the first that it computes; IQ_RIDE_EMBED: from the token on; the model's layers: the head */
    bool last; /* it is not ridden beyond this step */
};
#define IQ_RIDE_EMBED UINT32_MAX

/* Golden has ended. Takes rider i (which is free) aboard. The selector and the tap (only `fired` is called) are borrowed
 * until it leaves. */
int iq_ride_board(struct iq_ride *, uint32_t i, const struct iq_ride_start *, const struct iq_selector *,
                  const struct iq_tap *, struct iq_err *err);
void iq_ride_leave(struct iq_ride *, uint32_t i);

/* What a pass tells of: every computed position, with its cells (nodes). */
struct iq_ride_watch {
    void *self;
    const struct iq_digest
        *golden; /* (positions, nodes): golden's cells, which stand for what a rider did not compute */
    void (*position)(void *self, uint32_t rider, const struct iq_position *, const struct iq_digest *cells);
};
/* One step of every rider that is aboard and has not ended, at most `rows` rows in a forward pass. On an error, which one of
 * the faults may have made, all riders are lost. */
int iq_ride_pass(struct iq_ride *, uint32_t rows, const struct iq_ride_watch *, struct iq_err *err);
/* The step that rider i takes next. */
uint64_t iq_ride_step(const struct iq_ride *, uint32_t i);
/* True once rider i has its last token: ids are its prompt and answer. */
bool iq_ride_ended(const struct iq_ride *, uint32_t i, const uint32_t **ids, uint32_t *n);

#endif
