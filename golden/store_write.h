/* Inside the writer: what is in flight. A position's cells gather in an assembly until position() completes them; a
 * request's positions gather in the current chunk. Both go to the open transaction, which is committed whenever it
 * has grown: nothing of it is visible before the request (golden) or the run (trial) is published. */
#ifndef IQ_GOLDEN_STORE_WRITE_H
#define IQ_GOLDEN_STORE_WRITE_H

#include "golden/store_env.h"

/* Pointers by 64-bit key, linear probing. */
struct iq__table {
    uint64_t *key;
    void **value; /* NULL: empty slot */
    size_t cap, n;
};
void iq__table_free(struct iq__table *); /* and the values */

struct iq__assembly {
    uint32_t request, pos;
    uint16_t attempt;
    struct iq_digest *digest; /* (n_nodes), then the states */
    uint8_t *state;           /* (n_nodes) */
};
struct iq__open_request {
    uint32_t chunk, used, length; /* chunk number; entries in use (0: none loaded); positions so far */
    struct iq_position pos[IQ__CHUNK];
};

struct iq_writer {
    struct iq_store *store;
    MDB_txn *txn;
    size_t txn_bytes;
    uint32_t ord;
    struct iq__run_rec rec;
    char id[IQ_DIGEST_HEX], *name;
    uint32_t *width;                              /* (n_nodes) */
    bool move_name, published, crashed, imported; /* imported: the firing log was copied, not gathered */
    struct iq__table requests, cells; /* open_request by request; assembly by request << 32 | pos */
    struct iq__assembly *last;        /* the assembly of the last row */
    struct iq_firing firing[IQ__FIRINGS];
    struct iq_err err; /* the first failure; err.status != 0: the writer is dead */
};

/* A transaction with room for `bytes` more. */
int iq__writer_txn(struct iq_writer *, size_t bytes);
int iq__writer_commit(struct iq_writer *);
int iq__writer_put(struct iq_writer *, enum iq__db, const struct iq__key *, const void *, size_t);

/* The ids entry and the name: the run becomes visible with the next commit. */
int iq__writer_publish(struct iq_writer *);
int iq__writer_ordinal(struct iq_writer *); /* picks the next free one; needs a transaction */

/* store_gather.c */
int iq__gather_row(struct iq_writer *, const struct iq_cell *, struct iq_digest);
int iq__gather_position(struct iq_writer *, const struct iq_position *);
/* Writes what a request still has in flight; *length: its positions. */
int iq__gather_end(struct iq_writer *, uint32_t request, uint32_t *length);

#endif
