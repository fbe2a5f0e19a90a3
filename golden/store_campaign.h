/* Inside the store: records of campaigns. */
#ifndef IQ_GOLDEN_STORE_CAMPAIGN_H
#define IQ_GOLDEN_STORE_CAMPAIGN_H

#include "golden/campaign.h"
#include "golden/store_env.h"

/* Of a campaign: this, then its manifest. */
struct iq__campaign_rec {
    uint32_t version, trials;
};
_Static_assert(sizeof(struct iq__campaign_rec) == 8, "store format");

/* Of a trial: this, then the reason. */
struct iq__trial_rec {
    struct iq_digest id, bits;
    uint64_t fired, rows, rows_changed;
    uint32_t index, cell, requests, requests_changed, tokens, tokens_changed, request, pos, guilty_step;
    uint16_t label, numerics, effect, caught, guilty_layer, guilty_rank;
    char guilty_op[20];
    uint32_t reason; /* bytes of it */
};
_Static_assert(sizeof(struct iq__trial_rec) == 128, "store format");

/* The tables are made by the first campaign of a store. */
bool iq__campaign_tables(const struct iq_store *);
int iq__campaign_tables_make(struct iq_store *, struct iq_err *);

/* The record of a campaign, its manifest borrowed from the transaction. IQ_NOT_FOUND. */
int iq__campaign_get(struct iq_store *, MDB_txn *, struct iq_digest id, struct iq__campaign_rec *,
                     MDB_val *manifest, struct iq_err *);
/* Bytes to row: every field is checked. */
int iq__trial_read(const char *where, uint32_t trials, uint32_t index, const void *bytes, size_t n,
                   struct iq_trial_row *out, struct iq_err *);
size_t iq__trial_write(const struct iq_trial_row *, char out[sizeof(struct iq__trial_rec) + IQ_TRIAL_REASON]);
int iq__trial_put(struct iq_store *, MDB_txn *, struct iq_digest campaign, uint32_t index, const void *bytes,
                  size_t n, bool *added, struct iq_err *);
struct iq__key iq__campaign_key(struct iq_digest id);
struct iq__key iq__trial_key(struct iq_digest id, uint32_t index);
/* Begins it in an open transaction, or finds it there. */
int iq__campaign_put(struct iq_store *, MDB_txn *, struct iq_digest id, const char *manifest, size_t n,
                     uint32_t trials, struct iq_err *);
/* Manifest against id, every row's ranges (store verify). */
int iq__campaigns_check(struct iq_store *, MDB_txn *, struct iq_err *);

#endif
