/* The store: runs in an LMDB environment, a folder with data.mdb, lock.mdb and writer.lock.
 *
 * A run has an id (iq_digest_bytes of its manifest), a node table, a level, a state, and per request its positions,
 * at level ops its cells, at level tensors contents (by digest, stored once), and a firing log.
 *
 * Life cycle: one process writes at a time (writer.lock names it), many read; readers see whole transactions. What a
 * writer has not yet published (a request without its end, a trial without its finish) stays invisible and is removed
 * by the next writer, so kill -9 loses at most the request (IQ_WRITE_GOLDEN) or trial (IQ_WRITE_TRIAL) in flight.
 * Records reach the file in transactions of some 16 MB; a trial is never held in memory. The map grows by itself.
 * Opening one store several times in a process shares one environment. After fork a child must open the store anew:
 * a handle from before the fork is refused.
 *
 * Safety: a store is hostile input. Opening checks the meta pages and walks every branch and leaf page before LMDB
 * follows a pointer (measured: 10 ms of CPU for a store of 470 MB, most of which are overflow pages that it need not
 * read); the first writer of a process also checks the overflow pages and the free list (90 ms). Values are checked
 * where they are read, each against a digest that was written beside it. A damaged store is IQ_FORMAT with the page or
 * record named.
 *
 * Errors: IQ_NOT_FOUND no such store or run; IQ_ABI another format version; IQ_FORMAT damage; IQ_FULL the disk or
 * the size limit (nothing committed is lost); IQ_EXISTS run or name is there; IQ_LIMIT another writer.
 */
#ifndef IQ_GOLDEN_STORE_H
#define IQ_GOLDEN_STORE_H

#include "golden/trace.h"

#include <stdbool.h>

#define IQ_STORE_VERSION 2
enum { IQ_STORE_NAME = 200 }; /* longest name of a run, bytes */

struct iq_store;
struct iq_store_options {
    bool create;            /* make the folder and an empty store where there is none */
    uint64_t max_bytes;     /* size limit of data.mdb; 0: the disk */
    uint64_t map_bytes;     /* first map; 0: 16 GiB of address space, less where that is refused */
    uint32_t writer_wait_s; /* how long a second writer waits for the first; 0: not at all */
};
/* options NULL: an existing store, no limits. */
int iq_store_open(const char *path, const struct iq_store_options *, struct iq_store **out, struct iq_err *);
void iq_store_close(struct iq_store *); /* after its readers and writers */

/* ---- writing ---- */

struct iq_writer;
enum iq_write_mode {
    IQ_WRITE_GOLDEN, /* each finished request is published as it ends; resumable */
    IQ_WRITE_TRIAL   /* published whole by finish */
};
struct iq_write_spec {
    const char *manifest; /* JSON text, borrowed for the call */
    const struct iq_node *nodes;
    uint32_t n_nodes;
    enum iq_level level;
    enum iq_write_mode mode;
    const char *name; /* or NULL */
    bool resume;      /* golden: go on with an unfinished (or finished) run of this id */
    bool move_name;   /* the name may be taken from another run */
    bool replace;     /* a finished run of this id is replaced at finish */
};
int iq_store_begin(struct iq_store *, const struct iq_write_spec *, struct iq_writer **out, struct iq_err *);
/* The sink that feeds the writer. Contract: the rows of a position come before its position(), the positions of a
 * request before its done(); a later attempt of a position replaces the record of the earlier one, but keeps its
 * logits fields when it has none of its own. One thread. After a failure only abort and the error remain. */
struct iq_sink iq_writer_sink(struct iq_writer *);
bool iq_writer_has(struct iq_writer *, uint32_t request); /* committed already? */
const char *iq_writer_run(const struct iq_writer *);      /* run id, 32 hex digits */
const struct iq_err *iq_writer_error(const struct iq_writer *);
/* Trial: it did not end well. From here on the run has another id: its manifest says so, so that a crash never takes the place
 * of the same trial's whole run, nor that of the crash. Finishing as crashed does it too. */
int iq_writer_crashed(struct iq_writer *, struct iq_err *);
/* Publishes the run in `state`: complete, or crashed with the reason in `message` (see iq_trace; NULL: none). Frees the
 * writer when it returns IQ_OK; otherwise call abort. */
int iq_writer_finish(struct iq_writer *, enum iq_run_state state, const char *message, struct iq_err *);
/* Trial: leaves nothing. Golden: leaves the committed requests. Frees the writer; NULL is fine. */
void iq_writer_abort(struct iq_writer *);

/* Removes a run, its names, and tensors that no other run uses. Where `run` is one of several names of a run only the
 * name goes: *left (may be NULL) has its id then, else none (""). */
int iq_store_rm(struct iq_store *, const char *run, char left[IQ_DIGEST_HEX], struct iq_err *);
int iq_store_name(struct iq_store *, const char *run, const char *name, bool move, struct iq_err *);

/* ---- reading ---- */

struct iq_run_info {
    char id[IQ_DIGEST_HEX];
    char name[IQ_STORE_NAME + 1]; /* its first name, or "" */
    uint32_t ordinal;             /* in this store: order of creation */
    uint32_t n_nodes, n_names;
    enum iq_level level;
    enum iq_run_state state;
    enum iq_write_mode mode;
    uint64_t created_ms; /* since 1970 */
    uint64_t requests, positions, firings, tensors;
};
/* All published runs, oldest first; free *out. */
int iq_store_runs(struct iq_store *, struct iq_run_info **out, size_t *n, struct iq_err *);
/* All names of the run with this id (32 hex digits), in order of bytes; free *out. */
int iq_store_names(struct iq_store *, const char *id, char (**out)[IQ_STORE_NAME + 1], size_t *n,
                   struct iq_err *);
/* `run`: a name, an id, or a prefix of an id that fits one run (at least 4 digits). */
int iq_store_find(struct iq_store *, const char *run, struct iq_run_info *out, struct iq_err *);
/* A run as a trace over one snapshot; close with iq_trace_close before the store. */
int iq_store_trace(struct iq_store *, const char *run, struct iq_trace *out, struct iq_err *);

/* What verify and import went through. */
struct iq_store_tally {
    uint64_t pages, free_pages, runs, requests, positions, cells, tensors, firings;
    uint64_t bytes; /* of all keys and values (verify only) */
};
/* Everything: pages and free list, each record's bytes, size and ranges, manifests against run ids, chains from
 * positions, bodies and logits from cells, contents against digests. Stops at the first fault. */
int iq_store_verify(struct iq_store *, struct iq_store_tally *out, struct iq_err *);

/* ---- moving runs ---- */

/* Writes one finished run, verified, to a new file (IQ_EXISTS when it is there); removed again on failure. */
int iq_store_export(struct iq_store *, const char *run, const char *file, struct iq_err *);
/* Is this an exported run, its SHA-256 that of its bytes? For a caller that would make a store for it. */
int iq_store_import_check(const char *file, struct iq_err *err);
/* Takes a run from a file: SHA-256 first, then record by record, then verified, then published. A run that is there
 * already is left as it is (*known true). `name` (or NULL for the exported one) must be free or of the same run. */
int iq_store_import(struct iq_store *, const char *file, const char *name, struct iq_run_info *out,
                    bool *known, struct iq_err *);

#endif
