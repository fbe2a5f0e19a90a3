/* Campaigns in a store: a plan's trials, a row each. Tables of their own, beside the runs (store_env.h).
 *
 * A campaign has an id (iq_digest_bytes of its manifest, a JSON text that holds the plan and all that decides a trial's
 * bits, no path and no time), a number of trials, and a row for each trial that has ended, under the trial's index in the
 * plan's canonical order. A row is a pure function of the manifest and its index: it holds no time and no machine, so
 * shards, a broken-off run that went on, and a run in one piece hold the same bytes.
 *
 * One process writes at a time, as with runs (store.h). Rows are committed in small batches: kill -9 loses at most those
 * that are not put yet. A campaign needs no "finish": it is whole when it has all rows.
 * Errors as in store.h; IQ_MISMATCH: a row is there already and says otherwise.
 */
#ifndef IQ_GOLDEN_CAMPAIGN_H
#define IQ_GOLDEN_CAMPAIGN_H

#include "golden/finding.h"
#include "golden/store.h"

enum { IQ_CAMPAIGN_VERSION = 1, IQ_TRIAL_REASON = 200 };

/* What became of one trial. */
struct iq_trial_row {
    struct iq_digest id;   /* of the trial: hash of the campaign's id and of what the trial is */
    struct iq_digest bits; /* over all positions that are not golden's, in the subject's order; zero: none */
    uint32_t index, cell;  /* in the plan's canonical order; the line of the report that it belongs to */
    uint16_t label, numerics, effect;   /* enums of finding.h */
    uint16_t caught;                    /* the guilty op is one whose fault fired */
    uint64_t fired, rows, rows_changed; /* firings; rows that they computed; rows in which a bit changed */
    uint32_t requests, requests_changed, tokens, tokens_changed; /* generated, by golden; that are others */
    uint32_t request, pos; /* the first position that differs; UINT32_MAX: none */
    uint32_t guilty_step;  /* of the guilty cell */
    uint16_t guilty_layer, guilty_rank;
    char guilty_op[20];           /* "": none */
    char reason[IQ_TRIAL_REASON]; /* crashed: why; else "" */
};

struct iq_campaign_info {
    char id[IQ_DIGEST_HEX];
    uint32_t trials, done; /* planned; that have a row */
};

/* ---- writing ---- */

struct iq_campaign;
/* Begins a campaign, or goes on with it where `resume` is set (IQ_EXISTS where it is not and rows are there). Takes the
 * store's writer lock. The store must outlive it. */
int iq_campaign_begin(struct iq_store *, const char *manifest, uint32_t trials, bool resume,
                      struct iq_campaign **out, struct iq_err *);
const char *iq_campaign_id(const struct iq_campaign *);
bool iq_campaign_has(const struct iq_campaign *, uint32_t index);
/* Adds rows (n) in one transaction. A row that is there with the same bytes is left as it is. */
int iq_campaign_put(struct iq_campaign *, const struct iq_trial_row *, size_t n, struct iq_err *);
void iq_campaign_end(struct iq_campaign *); /* NULL is fine */

/* ---- reading ---- */

/* All campaigns, in order of ids; free *out. */
int iq_campaign_list(struct iq_store *, struct iq_campaign_info **out, size_t *n, struct iq_err *);
/* `id`: an id, or the first digits of one that fit one campaign (at least 4); NULL: the only one. */
int iq_campaign_find(struct iq_store *, const char *id, struct iq_campaign_info *out, struct iq_err *);
/* Its manifest (free *out) and its rows in order of index. */
int iq_campaign_manifest(struct iq_store *, const char *id, char **out, struct iq_err *);
int iq_campaign_rows(struct iq_store *, const char *id, int (*row)(void *self, const struct iq_trial_row *),
                     void *self, struct iq_err *);

/* ---- moving ---- */

/* Writes a campaign and the rows that it has to a new file; the bytes follow from them alone. */
int iq_campaign_export(struct iq_store *, const char *id, const char *file, struct iq_err *);
/* Is this a file that iq_campaign_export wrote? Only its first bytes are read. */
bool iq_campaign_is_export(const char *file);
/* Its SHA-256 and form, without a store. */
int iq_campaign_import_check(const char *file, struct iq_err *);
/* Adds the rows of a file to the campaign of this id; *added: how many were new. */
int iq_campaign_import(struct iq_store *, const char *file, struct iq_campaign_info *out, uint32_t *added,
                       struct iq_err *);

#endif
