/* The one dispatch point. A slot per (op, layer, rank) holds golden's variant; with nothing armed or tapped a dispatch
 * is a load, a predicted branch and an indirect call. Nothing else in the engine knows that faults exist.
 *
 * Armed: golden's variant runs first, then each pick's variant on the same arguments; rows outside the pick's mask get
 * golden's bits back, and so does padding (rows of the arguments beyond the site's); the firing log learns in how many
 * rows a bit differs. Tapped: each chosen point of each row is digested into the cell matrix (and handed to `bytes` at
 * level tensors). Where golden's variant queues on a device, kernels/cuda/watch.h does the same after the step.
 */
#ifndef IQ_DISPATCH_H
#define IQ_DISPATCH_H

#include "kernels/base/cell.h"
#include "kernels/exec.h"
#include "kernels/op.h"

enum {
    IQ_WATCH_ARMED = 1,
    IQ_WATCH_TAPPED = 2,
    IQ_WATCH_DEVICE = 4, /* golden's variant queues work on a device */
    IQ_WATCH_RIDDEN = 8  /* a rider is armed here */
};

struct iq_slots;

struct iq_slot {
    iq_run_fn *run;
    uint32_t watched; /* IQ_WATCH_* */
    uint16_t node;    /* node of point 0; the op's points follow */
    uint16_t points;  /* points that exist here */
    uint32_t tapped;  /* bit p: digest point p */
    const struct iq_variant *variant, *reference;
    const struct iq_kind *kind;
    struct iq_slots *set;
};

/* One wrong (or worked-around) variant for one call. */
struct iq_pick {
    const struct iq_variant *variant;
    const void *params;
    const uint64_t *rowmask; /* bit r: strikes row r; NULL: all */
    uint32_t fault; /* index in the plan; one and the same variant for as long as the selector is armed */
};

enum { IQ_PICKS = 8 };

/* Chooses picks for a call; host predicates only. In each row the last pick that covers it wins; a golden variant that
 * wins (a workaround) leaves golden's bits there (over another arithmetic it runs). Returns their number, at most
 * IQ_PICKS, or -(an iq_status). */
struct iq_selector {
    void *self;
    int (*pick)(void *self, const struct iq_site *, const void *args, struct iq_pick out[IQ_PICKS]);
    bool (*may_strike)(void *self, enum iq_op_id op); /* decides which slots are armed */
};

/* Where taps put digests: cells[row.cell * nodes + node]. `bytes` may be NULL. */
struct iq_tap {
    struct iq_digest *cells;
    uint32_t nodes;
    void *self;
    int (*bytes)(void *self, const struct iq_site *, uint32_t r, uint16_t node, struct iq_digest,
                 const void *row, size_t n);
    int (*fired)(void *self, const struct iq_site *, const struct iq_firing *);
};

/* For the ops of an engine that answers. */
int iq_slots_open(uint32_t layers, uint32_t ranks, struct iq_slots **out, struct iq_err *err);
/* For those of training: one rank, which is at hand for all. */
int iq_slots_open_training(uint32_t layers, struct iq_slots **out, struct iq_err *err);
/* For the control ops of an engine that answers. */
int iq_slots_open_control(struct iq_slots **out, struct iq_err *err);
void iq_slots_close(struct iq_slots *);
/* layer IQ_NO_LAYER for ops outside the layers. */
struct iq_slot *iq_slots_at(struct iq_slots *, enum iq_op_id op, uint32_t layer, uint32_t rank);
/* Sets golden's variant of a kind in every slot; IQ_ABI if it is not marked golden or couples rows. */
int iq_slots_golden(struct iq_slots *, const struct iq_variant *, struct iq_err *);
/* The same for another arithmetic, of which the contract id must tell: IQ_ABI if the variant is not benign or couples
 * rows. */
int iq_slots_arithmetic(struct iq_slots *, const struct iq_variant *, struct iq_err *);
/* Between steps. NULL disarms. What variants remember is forgotten. The selector and the tap are borrowed. */
void iq_slots_arm(struct iq_slots *, const struct iq_selector *);
void iq_slots_tap(struct iq_slots *, const struct iq_tap *);
/* Points of a slot that are digested while a tap is set; 0: none. */
void iq_slot_points(struct iq_slot *, uint16_t node, uint16_t points, uint32_t tapped);

/* A rider: consecutive rows of a call that are a run of their own, with faults and memory of their own. After golden's variant
 * has run for all rows, each rider's picks run on a view of its rows alone (view.h), at the site that they would have had by
 * themselves: what a rider's rows hold does not depend on who else rides. */
struct iq_rider {
    struct iq_slots *slots;     /* armed; its tap learns what fired */
    const struct iq_step *step; /* as it would be by itself */
    uint32_t first, rows;       /* of the layers' calls; of the head's one row, the rider's number */
};

/* The same slots, disarmed and untapped, with no state: a rider's. */
int iq_slots_twin(const struct iq_slots *, struct iq_slots **out, struct iq_err *err);
/* Riders (n), ascending by first, until the next call; n 0: none. Borrowed. Those whose rows a call has not got yet sit still.
 * Only where every op that a rider may strike can be viewed, and on the host. */
void iq_slots_ride(struct iq_slots *, const struct iq_rider *, uint32_t n);
/* From here on calls are the head's: a row a rider. */
void iq_slots_ride_head(struct iq_slots *, bool head);

/* Digests whole logical rows that several ranks' slots wrote together: y (rows, n), row stride ld; rows: the site's and any
 * padding behind them. Nothing happens without a tap. */
int iq_tap_whole(struct iq_exec *, const struct iq_site *, uint32_t rows, uint16_t node, const float *y,
                 size_t ld, size_t n);

int iq__dispatch_watched(struct iq_exec *, const struct iq_site *, const void *args);

static inline int iq_dispatch(struct iq_exec *x, const struct iq_site *site, const void *args)
{
    const struct iq_slot *slot = site->slot;
    if (__builtin_expect(!slot->watched, 1)) return slot->run(x, site, args, NULL, NULL);
    return iq__dispatch_watched(x, site, args);
}

#endif
