/* Campaigns: their records, beginning, putting and reading. */
#include "golden/store_campaign.h"
#include "kernels/base/grow.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

enum { MANIFEST_MAX = 32 << 20 };
static const uint64_t ROOM = 16ull << 20;

struct iq_campaign {
    struct iq_store *store;
    struct iq_digest digest;
    char id[IQ_DIGEST_HEX];
    uint32_t trials;
    uint8_t *has; /* bit per trial */
};

/* ---- records ---- */

struct iq__key iq__campaign_key(struct iq_digest id)
{
    struct iq__key k = {.n = 0};
    iq__key_digest(&k, id);
    return k;
}

struct iq__key iq__trial_key(struct iq_digest id, uint32_t index)
{
    struct iq__key k = iq__campaign_key(id);
    iq__key_u32(&k, index);
    return k;
}

bool iq__campaign_tables(const struct iq_store *s)
{
    return s->env->db[IQ__DB_CAMPAIGNS] != IQ__NO_TABLE && s->env->db[IQ__DB_TRIALS] != IQ__NO_TABLE;
}

int iq__campaign_tables_make(struct iq_store *s, struct iq_err *err)
{
    static const enum iq__db table[] = {IQ__DB_CAMPAIGNS, IQ__DB_TRIALS};
    MDB_dbi made[2];
    MDB_txn *txn;
    int rc = 0;
    if (iq__campaign_tables(s)) return IQ_OK;
    IQ_TRY(iq__write_begin(s, ROOM, &txn, err));
    for (int i = 0; i < 2 && !rc; i++) rc = mdb_dbi_open(txn, iq__db_name(table[i]), MDB_CREATE, &made[i]);
    if (rc) {
        iq__write_abort(s, txn);
        return iq__mdb_fail(s, rc, "making the tables of campaigns", err);
    }
    IQ_TRY(iq__write_commit(s, txn, err));
    for (int i = 0; i < 2; i++) s->env->db[table[i]] = made[i];
    return IQ_OK;
}

int iq__campaign_get(struct iq_store *s, MDB_txn *txn, struct iq_digest id, struct iq__campaign_rec *out,
                     MDB_val *manifest, struct iq_err *err)
{
    struct iq__key k = iq__campaign_key(id);
    MDB_val v;
    char hex[IQ_DIGEST_HEX];
    if (!iq__campaign_tables(s)) return IQ_NOT_FOUND;
    IQ_TRY(iq__get(s, txn, IQ__DB_CAMPAIGNS, &k, &v, err));
    iq_digest_hex(id, hex);
    if (v.mv_size < sizeof *out)
        return iq_fail(err, IQ_FORMAT, "%s: campaign %s: a record of %zu bytes", s->path, hex, v.mv_size);
    memcpy(out, v.mv_data, sizeof *out);
    if (out->version != IQ_CAMPAIGN_VERSION)
        return iq_fail(err, IQ_ABI, "%s: campaign %s has format %u, this build reads format %d", s->path, hex,
                       out->version, IQ_CAMPAIGN_VERSION);
    *manifest = (MDB_val){v.mv_size - sizeof *out, (char *)v.mv_data + sizeof *out};
    return IQ_OK;
}

int iq__campaign_put(struct iq_store *s, MDB_txn *txn, struct iq_digest id, const char *manifest, size_t n,
                     uint32_t trials, struct iq_err *err)
{
    struct iq__key k = iq__campaign_key(id);
    struct iq__campaign_rec rec = {IQ_CAMPAIGN_VERSION, trials}, old;
    MDB_val there;
    int rc = iq__campaign_get(s, txn, id, &old, &there, err);
    if (rc == IQ_OK && (old.trials != trials || there.mv_size != n || memcmp(there.mv_data, manifest, n)))
        return iq_fail(err, IQ_MISMATCH, "%s: a campaign of this id is there with another plan", s->path);
    if (rc != IQ_NOT_FOUND) return rc;
    char *bytes = malloc(sizeof rec + n);
    if (!bytes) return iq_fail(err, IQ_MEMORY, "no memory for the campaign's manifest");
    memcpy(bytes, &rec, sizeof rec);
    memcpy(bytes + sizeof rec, manifest, n);
    rc = iq__put(s, txn, IQ__DB_CAMPAIGNS, &k, bytes, sizeof rec + n, err);
    free(bytes);
    return rc;
}

size_t iq__trial_write(const struct iq_trial_row *r, char out[sizeof(struct iq__trial_rec) + IQ_TRIAL_REASON])
{
    struct iq__trial_rec rec = {.id = r->id,
                                .bits = r->bits,
                                .fired = r->fired,
                                .rows = r->rows,
                                .rows_changed = r->rows_changed,
                                .index = r->index,
                                .cell = r->cell,
                                .requests = r->requests,
                                .requests_changed = r->requests_changed,
                                .tokens = r->tokens,
                                .tokens_changed = r->tokens_changed,
                                .request = r->request,
                                .pos = r->pos,
                                .guilty_step = r->guilty_step,
                                .label = r->label,
                                .numerics = r->numerics,
                                .effect = r->effect,
                                .caught = r->caught,
                                .guilty_layer = r->guilty_layer,
                                .guilty_rank = r->guilty_rank,
                                .reason = (uint32_t)strnlen(r->reason, IQ_TRIAL_REASON - 1)};
    memcpy(rec.guilty_op, r->guilty_op, strnlen(r->guilty_op, sizeof rec.guilty_op - 1));
    memcpy(out, &rec, sizeof rec);
    memcpy(out + sizeof rec, r->reason, rec.reason);
    return sizeof rec + rec.reason;
}

static bool is_text(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((unsigned char)s[i] < 0x20 || s[i] == 0x7f) return false;
    return true;
}

int iq__trial_read(const char *where, uint32_t trials, uint32_t index, const void *bytes, size_t n,
                   struct iq_trial_row *out, struct iq_err *err)
{
    struct iq__trial_rec rec;
    if (n < sizeof rec)
        return iq_fail(err, IQ_FORMAT, "%s: trial %u: a row of %zu bytes, expected at least %zu", where,
                       index, n, sizeof rec);
    memcpy(&rec, bytes, sizeof rec);
    size_t op = strnlen(rec.guilty_op, sizeof rec.guilty_op);
    const char *reason = (const char *)bytes + sizeof rec;
    if (rec.index != index || index >= trials || rec.label >= IQ_LABELS || rec.caught > 1 ||
        rec.numerics > IQ_NUMERICS_VIOLATES || rec.effect > IQ_EFFECT_UNDETERMINED ||
        op == sizeof rec.guilty_op || !is_text(rec.guilty_op, op) || rec.reason >= IQ_TRIAL_REASON ||
        n != sizeof rec + rec.reason || !is_text(reason, rec.reason))
        return iq_fail(err, IQ_FORMAT, "%s: trial %u: its row has a field that no row has", where, index);
    *out = (struct iq_trial_row){.id = rec.id,
                                 .bits = rec.bits,
                                 .index = rec.index,
                                 .cell = rec.cell,
                                 .label = rec.label,
                                 .numerics = rec.numerics,
                                 .effect = rec.effect,
                                 .caught = rec.caught,
                                 .fired = rec.fired,
                                 .rows = rec.rows,
                                 .rows_changed = rec.rows_changed,
                                 .requests = rec.requests,
                                 .requests_changed = rec.requests_changed,
                                 .tokens = rec.tokens,
                                 .tokens_changed = rec.tokens_changed,
                                 .request = rec.request,
                                 .pos = rec.pos,
                                 .guilty_step = rec.guilty_step,
                                 .guilty_layer = rec.guilty_layer,
                                 .guilty_rank = rec.guilty_rank};
    memcpy(out->guilty_op, rec.guilty_op, op);
    memcpy(out->reason, reason, rec.reason);
    return IQ_OK;
}

int iq__trial_put(struct iq_store *s, MDB_txn *txn, struct iq_digest campaign, uint32_t index,
                  const void *bytes, size_t n, bool *added, struct iq_err *err)
{
    struct iq__key k = iq__trial_key(campaign, index);
    MDB_val old;
    int rc = iq__get(s, txn, IQ__DB_TRIALS, &k, &old, err);
    *added = rc == IQ_NOT_FOUND;
    if (rc == IQ_OK && (old.mv_size != n || memcmp(old.mv_data, bytes, n)))
        return iq_fail(err, IQ_MISMATCH,
                       "%s: trial %u has a row already, and it says otherwise: the two were not made by the "
                       "same program",
                       s->path, index);
    return rc == IQ_NOT_FOUND ? iq__put(s, txn, IQ__DB_TRIALS, &k, bytes, n, err) : rc;
}

/* ---- writing ---- */

static int mark(void *self, const struct iq_trial_row *r)
{
    struct iq_campaign *c = self;
    c->has[r->index / 8] |= (uint8_t)(1u << r->index % 8);
    return IQ_OK;
}

static int begin(struct iq_campaign *c, const char *manifest, bool resume, struct iq_err *err)
{
    MDB_txn *txn;
    IQ_TRY(iq__campaign_tables_make(c->store, err));
    IQ_TRY(iq__write_begin(c->store, ROOM + strlen(manifest), &txn, err));
    int rc = iq__campaign_put(c->store, txn, c->digest, manifest, strlen(manifest), c->trials, err);
    if (rc) {
        iq__write_abort(c->store, txn);
        return rc;
    }
    IQ_TRY(iq__write_commit(c->store, txn, err));
    IQ_TRY(iq_campaign_rows(c->store, c->id, mark, c, err));
    for (uint32_t i = 0; !resume && i < c->trials; i++)
        if (iq_campaign_has(c, i))
            return iq_fail(err, IQ_EXISTS,
                           "%s: campaign %s has rows already; --resume goes on with it, another store begins "
                           "anew",
                           c->store->path, c->id);
    return IQ_OK;
}

int iq_campaign_begin(struct iq_store *s, const char *manifest, uint32_t trials, bool resume,
                      struct iq_campaign **out, struct iq_err *err)
{
    *out = NULL;
    if (strlen(manifest) > MANIFEST_MAX)
        return iq_fail(err, IQ_LIMIT, "a campaign's manifest of %zu bytes; at most %d", strlen(manifest),
                       MANIFEST_MAX);
    struct iq_campaign *c = calloc(1, sizeof *c);
    if (c) c->has = calloc(trials / 8 + 1, 1);
    if (!c || !c->has) {
        free(c);
        return iq_fail(err, IQ_MEMORY, "no memory for a campaign of %u trials", trials);
    }
    c->store = s;
    c->trials = trials;
    c->digest = iq_digest_bytes(manifest, strlen(manifest));
    iq_digest_hex(c->digest, c->id);
    int rc = iq__lock(s, err);
    if (!rc && (rc = begin(c, manifest, resume, err))) iq__unlock(s);
    if (rc) {
        free(c->has);
        free(c);
        return rc;
    }
    *out = c;
    return IQ_OK;
}

const char *iq_campaign_id(const struct iq_campaign *c) { return c->id; }

bool iq_campaign_has(const struct iq_campaign *c, uint32_t index)
{
    return index < c->trials && c->has[index / 8] >> index % 8 & 1;
}

int iq_campaign_put(struct iq_campaign *c, const struct iq_trial_row *r, size_t n, struct iq_err *err)
{
    char bytes[sizeof(struct iq__trial_rec) + IQ_TRIAL_REASON];
    MDB_txn *txn;
    bool added;
    int rc = IQ_OK;
    IQ_TRY(iq__write_begin(c->store, ROOM + n * 4096, &txn, err));
    for (size_t i = 0; i < n && !rc; i++) {
        size_t len = iq__trial_write(&r[i], bytes);
        struct iq_trial_row back;
        rc = iq__trial_read("a row that is to be put", c->trials, r[i].index, bytes, len, &back, err);
        if (!rc) rc = iq__trial_put(c->store, txn, c->digest, r[i].index, bytes, len, &added, err);
    }
    if (rc) {
        iq__write_abort(c->store, txn);
        return rc;
    }
    IQ_TRY(iq__write_commit(c->store, txn, err));
    for (size_t i = 0; i < n; i++) mark(c, &r[i]);
    return IQ_OK;
}

void iq_campaign_end(struct iq_campaign *c)
{
    if (!c) return;
    iq__unlock(c->store);
    free(c->has);
    free(c);
}

/* ---- reading ---- */

static int rows_of(struct iq_store *s, MDB_txn *txn, struct iq_digest id, uint32_t trials,
                   int (*row)(void *self, const struct iq_trial_row *), void *self, struct iq_err *err)
{
    struct iq__scan scan;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_TRIALS, iq__campaign_key(id), &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        struct iq_trial_row r;
        if (scan.key.mv_size != 20)
            rc = iq_fail(err, IQ_FORMAT, "%s: trials: a key of %zu bytes", s->path, scan.key.mv_size);
        if (!rc)
            rc = iq__trial_read(s->path, trials, iq__u32_at(scan.key.mv_data, 16), scan.value.mv_data,
                                scan.value.mv_size, &r, err);
        if (!rc && row) rc = row(self, &r);
        if (rc) break;
    }
    iq__scan_close(&scan);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

static int count(void *self, const struct iq_trial_row *r)
{
    (void)r;
    ++*(uint32_t *)self;
    return IQ_OK;
}

static int info_of(struct iq_store *s, MDB_txn *txn, struct iq_digest id, struct iq_campaign_info *out,
                   struct iq_err *err)
{
    struct iq__campaign_rec rec;
    MDB_val manifest;
    *out = (struct iq_campaign_info){.trials = 0};
    IQ_TRY(iq__campaign_get(s, txn, id, &rec, &manifest, err));
    iq_digest_hex(id, out->id);
    out->trials = rec.trials;
    return rows_of(s, txn, id, rec.trials, count, &out->done, err);
}

static int list_in(struct iq_store *s, MDB_txn *txn, struct iq_campaign_info **out, size_t *n,
                   struct iq_err *err)
{
    struct iq__scan scan;
    size_t cap = 0;
    if (!iq__campaign_tables(s)) return IQ_OK;
    IQ_TRY(iq__scan_open(s, txn, IQ__DB_CAMPAIGNS, (struct iq__key){.n = 0}, &scan, err));
    int rc;
    while ((rc = iq__scan_next(s, &scan, err)) == IQ_OK) {
        if (scan.key.mv_size != 16) {
            rc = iq_fail(err, IQ_FORMAT, "%s: campaigns: a key of %zu bytes", s->path, scan.key.mv_size);
            break;
        }
        if ((rc = iq_grow(out, &cap, *n + 1, sizeof **out, err))) break;
        if ((rc = info_of(s, txn, iq__digest_at(scan.key.mv_data), &(*out)[*n], err))) break;
        ++*n;
    }
    iq__scan_close(&scan);
    return rc == IQ_NOT_FOUND ? IQ_OK : rc;
}

int iq_campaign_list(struct iq_store *s, struct iq_campaign_info **out, size_t *n, struct iq_err *err)
{
    MDB_txn *txn;
    *out = NULL;
    *n = 0;
    IQ_TRY(iq__read_begin(s, &txn, err));
    int rc = list_in(s, txn, out, n, err);
    iq__read_end(s, txn);
    if (rc) {
        free(*out);
        *out = NULL;
        *n = 0;
    }
    return rc;
}

static bool begins(const char *hex, const char *id)
{
    size_t i = 0;
    while (id[i] && tolower((unsigned char)id[i]) == hex[i]) i++;
    return !id[i] && i >= 4;
}

int iq_campaign_find(struct iq_store *s, const char *id, struct iq_campaign_info *out, struct iq_err *err)
{
    struct iq_campaign_info *all;
    size_t n, fit = 0;
    *out = (struct iq_campaign_info){.trials = 0};
    IQ_TRY(iq_campaign_list(s, &all, &n, err));
    for (size_t i = 0; i < n; i++)
        if (!id || begins(all[i].id, id)) {
            *out = all[i];
            fit++;
        }
    free(all);
    if (fit == 1) return IQ_OK;
    *out = (struct iq_campaign_info){.trials = 0};
    if (fit)
        return iq_fail(err, IQ_USAGE, "%s: %zu campaigns %s%s; name one: `store ls` lists them", s->path, fit,
                       id ? "have ids that begin with " : "are there", id ? id : "");
    return iq_fail(err, IQ_NOT_FOUND, "%s: no campaign%s%s%s", s->path, id ? " '" : " in it", id ? id : "",
                   id ? "' (the start of an id); `store ls` lists them" : "");
}

/* A transaction and the campaign's id as a digest. */
static int open_read(struct iq_store *s, const char *id, struct iq_digest *out, MDB_txn **txn,
                     struct iq_err *err)
{
    struct iq_campaign_info info;
    IQ_TRY(iq_campaign_find(s, id, &info, err));
    iq_digest_parse(info.id, out);
    return iq__read_begin(s, txn, err);
}

int iq_campaign_manifest(struct iq_store *s, const char *id, char **out, struct iq_err *err)
{
    struct iq_digest digest;
    struct iq__campaign_rec rec;
    MDB_val v;
    MDB_txn *txn;
    *out = NULL;
    IQ_TRY(open_read(s, id, &digest, &txn, err));
    int rc = iq__campaign_get(s, txn, digest, &rec, &v, err);
    if (!rc && !(*out = strndup(v.mv_data, v.mv_size)))
        rc = iq_fail(err, IQ_MEMORY, "no memory for a manifest");
    iq__read_end(s, txn);
    return rc;
}

int iq_campaign_rows(struct iq_store *s, const char *id, int (*row)(void *self, const struct iq_trial_row *),
                     void *self, struct iq_err *err)
{
    struct iq_digest digest;
    struct iq__campaign_rec rec;
    MDB_val v;
    MDB_txn *txn;
    IQ_TRY(open_read(s, id, &digest, &txn, err));
    int rc = iq__campaign_get(s, txn, digest, &rec, &v, err);
    if (!rc) rc = rows_of(s, txn, digest, rec.trials, row, self, err);
    iq__read_end(s, txn);
    return rc;
}

int iq__campaigns_check(struct iq_store *s, MDB_txn *txn, struct iq_err *err)
{
    struct iq_campaign_info *all = NULL;
    size_t n = 0;
    int rc = list_in(s, txn, &all, &n, err);
    for (size_t i = 0; i < n && !rc; i++) {
        struct iq__campaign_rec rec;
        struct iq_digest id;
        MDB_val v;
        iq_digest_parse(all[i].id, &id);
        rc = iq__campaign_get(s, txn, id, &rec, &v, err);
        if (!rc && !iq_digest_equal(id, iq_digest_bytes(v.mv_data, v.mv_size)))
            rc = iq_fail(err, IQ_MISMATCH, "%s: campaign %s: its manifest has another digest", s->path,
                         all[i].id);
    }
    free(all);
    return rc;
}
