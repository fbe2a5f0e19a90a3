#include "golden/store_pages.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    HEADER = 16, /* page header: pgno, pad, flags, lower, upper | pages */
    NODE = 8,    /* node header: lo, hi, flags, ksize */
    BRANCH = 1,
    LEAF = 2,
    OVERFLOW = 4,
    META = 8,
    BIGDATA = 1,
    SUBDATA = 2,
    INTEGERKEY = 8,
    TREE = 48,  /* MDB_db */
    DEPTH = 32, /* LMDB's cursor stack */
    KEY_MAX = 511,
    TREES = 32,
    SLACK = 1 << 18 /* pages past the file's end that a transaction may have taken and dropped unwritten */
};
static const uint64_t NONE = ~0ull;

struct tree {
    uint32_t pad;
    uint16_t flags, depth;
    uint64_t branch, leaf, overflow, entries, root;
};
_Static_assert(sizeof(struct tree) == TREE, "MDB_db");

struct meta {
    uint32_t magic, version;
    uint64_t address, mapsize;
    struct tree tree[2]; /* free list, main */
    uint64_t last, txnid;
};
_Static_assert(sizeof(struct meta) == 136, "MDB_meta");

struct frame {
    uint32_t at, keys;
};
struct walk {
    int fd;
    const char *path;
    bool full;
    uint64_t psize, last, file_pages;
    uint8_t *seen, *pages;     /* one bit per page of the file; DEPTH pages */
    uint8_t taken[65536 / 16]; /* one bit per two bytes of the page at hand */
    struct tree todo[TREES];
    uint32_t todos;
    /* order of keys: the next key must be greater than (or, after a separator, at least) the last one */
    uint8_t last_key[KEY_MAX];
    size_t last_len;
    bool any, inclusive;
    struct iq__walk sum;
    struct iq_err *err;
};

static uint16_t u16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint64_t u64(const uint8_t *p)
{
    uint64_t v;
    memcpy(&v, p, 8);
    return v;
}

#define DAMAGED(w, ...) damaged((w)->err, (w)->path, __VA_ARGS__)
static int damaged(struct iq_err *err, const char *path, uint64_t page, const char *what)
{
    return iq_fail(err, IQ_FORMAT,
                   "%s: page %llu: %s; the store is damaged: restore it, or import its runs into a new one",
                   path, (unsigned long long)page, what);
}

static int read_at(int fd, const char *path, uint64_t page, uint64_t at, void *out, size_t n,
                   struct iq_err *err)
{
    for (size_t got = 0; got < n;) {
        ssize_t r = pread(fd, (char *)out + got, n - got, (off_t)(at + got));
        if (r < 0 && errno == EINTR) continue;
        if (r < 0)
            return iq_fail(err, IQ_IO, "%s: reading page %llu: %s", path, (unsigned long long)page,
                           strerror(errno));
        if (!r) return damaged(err, path, page, "the file ends before it");
        got += (size_t)r;
    }
    return IQ_OK;
}

static int meta_check(const uint8_t *page, uint64_t index, uint64_t psize, const char *path, struct meta *out,
                      struct iq_err *err)
{
    memcpy(out, page + HEADER, sizeof *out);
    if (out->magic != 0xBEEFC0DEu || !(u16(page + 10) & META))
        return damaged(err, path, index, "no LMDB meta page here");
    if (out->version != 1)
        return iq_fail(err, IQ_ABI, "%s: LMDB data version %u, this build reads 1", path, out->version);
    if (out->tree[0].pad != psize) return damaged(err, path, index, "page sizes disagree");
    if (out->tree[0].flags != INTEGERKEY || out->tree[1].flags || out->last < 1)
        return damaged(err, path, index, "meta flags are none that a store has");
    return IQ_OK;
}

static int metas_read(int fd, const char *path, struct meta out[2], uint64_t *psize, uint64_t *size,
                      struct iq_err *err)
{
    struct stat st;
    uint8_t head[HEADER + sizeof(struct meta)];
    if (fstat(fd, &st)) return iq_fail(err, IQ_IO, "%s: %s", path, strerror(errno));
    *size = (uint64_t)st.st_size;
    IQ_TRY(read_at(fd, path, 0, 0, head, sizeof head, err));
    uint32_t pad;
    memcpy(&pad, head + HEADER + 24, 4);
    if (pad < 512 || pad > 65536 || (pad & (pad - 1))) return damaged(err, path, 0, "no page size of LMDB");
    *psize = pad;
    IQ_TRY(meta_check(head, 0, pad, path, &out[0], err));
    IQ_TRY(read_at(fd, path, 1, pad, head, sizeof head, err));
    IQ_TRY(meta_check(head, 1, pad, path, &out[1], err));
    for (int i = 0; i < 2; i++)
        if (out[i].last >= *size / pad + SLACK)
            return iq_fail(
                err, IQ_FORMAT,
                "%s: the file was cut: it has %llu pages and its meta page names page %llu; restore it, "
                "or import its runs into a new store",
                path, (unsigned long long)(*size / pad), (unsigned long long)out[i].last);
    return IQ_OK;
}

int iq__pages_meta(int fd, const char *path, bool *empty, struct iq_err *err)
{
    struct meta m[2];
    uint64_t psize = 0, size = 0;
    IQ_TRY(metas_read(fd, path, m, &psize, &size, err));
    *empty = m[m[1].txnid > m[0].txnid].tree[1].root == NONE;
    return IQ_OK;
}

/* Takes pages [pgno, pgno + n): inside the file and not taken before, so that no page has two owners or is its own
 * ancestor. */
static int take(struct walk *w, uint64_t pgno, uint64_t n)
{
    if (pgno < 2 || pgno > w->last || n > w->last - pgno + 1)
        return DAMAGED(w, pgno, "a pointer leads out of the store");
    if (pgno + n > w->file_pages) return DAMAGED(w, pgno, "the file ends before it");
    for (uint64_t p = pgno; p < pgno + n; p++) {
        if (w->seen[p / 8] >> p % 8 & 1) return DAMAGED(w, p, "used twice");
        w->seen[p / 8] |= (uint8_t)(1u << p % 8);
    }
    w->sum.pages += n;
    if (w->sum.need_bytes < (pgno + n) * w->psize) w->sum.need_bytes = (pgno + n) * w->psize;
    return IQ_OK;
}

/* The nodes of a page fill the space above `upper` exactly, none over another: LMDB moves them by these sizes. */
static int nodes_tile(struct walk *w, uint64_t pgno, uint16_t kind, const uint8_t *page, uint32_t keys)
{
    uint64_t upper = u16(page + 14), total = 0;
    memset(w->taken, 0, w->psize / 16);
    for (uint32_t i = 0; i < keys; i++) {
        uint64_t at = u16(page + HEADER + 2 * i);
        if (at < upper || (at & 1) || at + NODE > w->psize)
            return DAMAGED(w, pgno, "a key lies outside the page");
        const uint8_t *node = page + at;
        uint64_t size = NODE + (uint64_t)u16(node + 6);
        if (kind == LEAF) size += u16(node + 4) & BIGDATA ? 8 : u16(node) | (uint64_t)u16(node + 2) << 16;
        size += size & 1;
        if (size > w->psize - at) return DAMAGED(w, pgno, "a record reaches past its page");
        total += size;
        for (uint64_t k = at / 2; k < (at + size) / 2; k++) {
            if (w->taken[k / 8] >> k % 8 & 1) return DAMAGED(w, pgno, "two records overlap");
            w->taken[k / 8] |= (uint8_t)(1u << k % 8);
        }
    }
    return total == w->psize - upper ? IQ_OK
                                     : DAMAGED(w, pgno, "its records do not fill the space they claim");
}

static int page_read(struct walk *w, uint64_t pgno, uint16_t kind, uint8_t *page, uint32_t *keys)
{
    IQ_TRY(take(w, pgno, 1));
    IQ_TRY(read_at(w->fd, w->path, pgno, pgno * w->psize, page, w->psize, w->err));
    uint16_t lower = u16(page + 12), upper = u16(page + 14);
    if (u64(page) != pgno) return DAMAGED(w, pgno, "its own number is wrong (zeroed or misplaced)");
    if (u16(page + 10) != kind) return DAMAGED(w, pgno, "not the kind of page that its parent expects");
    if (lower < HEADER || lower > upper || upper > w->psize || (lower & 1))
        return DAMAGED(w, pgno, "its bounds are impossible");
    *keys = (uint32_t)(lower - HEADER) / 2;
    if (*keys < (kind == BRANCH ? 2u : 1u)) return DAMAGED(w, pgno, "too few keys");
    return nodes_tile(w, pgno, kind, page, *keys);
}

static int key_order(const struct walk *w, const uint8_t *key, size_t n, bool integer)
{
    if (integer) {
        uint64_t a = u64(key), b = u64(w->last_key);
        return a < b ? -1 : a > b;
    }
    size_t least = n < w->last_len ? n : w->last_len;
    int c = memcmp(key, w->last_key, least);
    return c ? c : n < w->last_len ? -1 : n > w->last_len;
}

static int key_next(struct walk *w, uint64_t pgno, const uint8_t *key, size_t n, bool integer, bool separator)
{
    if (!n || n > KEY_MAX || (integer && n != 8)) return DAMAGED(w, pgno, "a key of impossible length");
    if (w->any) {
        int c = key_order(w, key, n, integer);
        if (c < 0 || (c == 0 && !w->inclusive)) return DAMAGED(w, pgno, "its keys are out of order");
    }
    memcpy(w->last_key, key, n);
    w->last_len = n;
    w->any = true;
    w->inclusive = separator;
    return IQ_OK;
}

/* The free list's value: a count, then page ids, descending. */
static int idl_check(struct walk *w, uint64_t pgno, const uint8_t *inl, uint64_t big, uint64_t size)
{
    if (size < 8 || size % 8) return DAMAGED(w, pgno, "a free list record of impossible size");
    uint64_t before = w->last + 1, n = size / 8, at = big * w->psize + HEADER, buf[512];
    for (uint64_t i = 0; i < n;) {
        uint64_t part = n - i < 512 ? n - i : 512;
        if (inl)
            memcpy(buf, inl + 8 * i, 8 * part);
        else
            IQ_TRY(read_at(w->fd, w->path, big, at + 8 * i, buf, 8 * part, w->err));
        for (uint64_t j = 0; j < part; j++, i++) {
            if (!i) {
                if (buf[0] > n - 1) return DAMAGED(w, pgno, "a free list record longer than its value");
                n = buf[0] + 1; /* LMDB may reserve more than it uses */
                continue;
            }
            if (i >= n) break;
            uint64_t p = buf[j];
            if (p < 2 || p >= before) return DAMAGED(w, pgno, "a free list record is not descending");
            before = p;
            w->sum.freed++;
            if (p >= w->file_pages) continue; /* taken and dropped before it was ever written */
            if (w->seen[p / 8] >> p % 8 & 1) return DAMAGED(w, p, "both used and free");
            w->seen[p / 8] |= (uint8_t)(1u << p % 8);
        }
    }
    return IQ_OK;
}

static int overflow_check(struct walk *w, uint64_t pgno, uint64_t n)
{
    uint8_t head[HEADER];
    IQ_TRY(take(w, pgno, n));
    w->sum.overflow += n;
    if (!w->full) return IQ_OK;
    IQ_TRY(read_at(w->fd, w->path, pgno, pgno * w->psize, head, HEADER, w->err));
    uint32_t pages = u16(head + 12) | (uint32_t)u16(head + 14) << 16;
    if (u64(head) != pgno || u16(head + 10) != OVERFLOW || pages != n)
        return DAMAGED(w, pgno, "not the overflow page that its record names");
    return IQ_OK;
}

enum role { FREE, MAIN, TABLE };

static int leaf_node(struct walk *w, uint64_t pgno, const uint8_t *node, enum role role, uint64_t *overflow)
{
    uint64_t size = u16(node) | (uint64_t)u16(node + 2) << 16;
    uint16_t flags = u16(node + 4), klen = u16(node + 6);
    const uint8_t *data = node + NODE + klen;
    IQ_TRY(key_next(w, pgno, node + NODE, klen, role == FREE, false));
    if (flags & ~(role == MAIN ? SUBDATA : BIGDATA))
        return DAMAGED(w, pgno, "a record of a kind no store has");
    uint64_t big = 0;
    if (flags & BIGDATA) {
        uint64_t n = (HEADER - 1 + size) / w->psize + 1;
        big = u64(data);
        IQ_TRY(overflow_check(w, big, n));
        *overflow += n;
    }
    if (role == MAIN) {
        if (!(flags & SUBDATA) || size != TREE) return DAMAGED(w, pgno, "not the table of a store");
        if (w->todos == TREES) return DAMAGED(w, pgno, "more tables than a store has");
        memcpy(&w->todo[w->todos++], data, TREE);
    }
    if (role == FREE && w->full) return idl_check(w, pgno, flags & BIGDATA ? NULL : data, big, size);
    return IQ_OK;
}

/* One tree in key order, an explicit stack: depth comes from the file. */
static int tree_walk(struct walk *w, const struct tree *t, enum role role)
{
    struct frame stack[DEPTH];
    uint64_t branch = 0, leaf = 0, overflow = 0, entries = 0;
    if (t->root == NONE) {
        if (t->depth || t->entries) return DAMAGED(w, 0, "a table has records and no root");
        return IQ_OK;
    }
    if (!t->depth || t->depth > DEPTH || (role == TABLE && (t->flags || t->pad)))
        return DAMAGED(w, t->root, "a table of impossible depth or flags");
    int top = -1;
    uint64_t next = t->root;
    w->any = w->inclusive = false;
    for (;;) {
        if (next != NONE) {
            top++;
            bool is_leaf = top + 1 == t->depth;
            uint8_t *page = w->pages + (size_t)top * w->psize;
            IQ_TRY(page_read(w, next, is_leaf ? LEAF : BRANCH, page, &stack[top].keys));
            *(is_leaf ? &leaf : &branch) += 1;
            stack[top].at = 0;
            next = NONE;
        }
        uint8_t *page = w->pages + (size_t)top * w->psize;
        if (stack[top].at == stack[top].keys) {
            if (!top--) break;
            continue;
        }
        uint32_t at = stack[top].at++;
        const uint8_t *node = page + u16(page + HEADER + 2 * at);
        if (top + 1 == t->depth) {
            entries++;
            IQ_TRY(leaf_node(w, u64(page), node, role, &overflow));
        } else {
            /* The first key of a branch page stands for "all below". */
            if (at) IQ_TRY(key_next(w, u64(page), node + NODE, u16(node + 6), role == FREE, true));
            next = u16(node) | (uint64_t)u16(node + 2) << 16 | (uint64_t)u16(node + 4) << 32;
        }
    }
    w->sum.branch += branch;
    w->sum.leaf += leaf;
    if (branch != t->branch || leaf != t->leaf || overflow != t->overflow || entries != t->entries)
        return DAMAGED(w, t->root, "the table's counts are not what its pages hold");
    return IQ_OK;
}

int iq__pages_walk(int fd, const char *path, uint64_t txnid, bool full, struct iq__walk *out,
                   struct iq_err *err)
{
    struct meta m[2];
    uint64_t psize = 0, size = 0;
    *out = (struct iq__walk){0};
    IQ_TRY(metas_read(fd, path, m, &psize, &size, err));
    const struct meta *mine = m[0].txnid == txnid ? &m[0] : m[1].txnid == txnid ? &m[1] : NULL;
    if (!mine) return IQ_NOT_FOUND; /* a writer has moved on twice */
    struct walk w = {.fd = fd, .path = path, .full = full, .psize = psize, .last = mine->last, .err = err};
    w.file_pages = size / psize;
    w.sum.need_bytes = 2 * psize;
    w.seen = calloc(w.file_pages / 8 + 1, 1);
    w.pages = malloc(DEPTH * psize);
    int rc = IQ_OK;
    if (!w.seen || !w.pages) rc = iq_fail(err, IQ_MEMORY, "%s: no memory to check its pages", path);
    if (!rc) rc = tree_walk(&w, &mine->tree[1], MAIN);
    for (uint32_t i = 0; !rc && i < w.todos; i++) rc = tree_walk(&w, &w.todo[i], TABLE);
    if (!rc) rc = tree_walk(&w, &mine->tree[0], FREE);
    free(w.seen);
    free(w.pages);
    *out = w.sum;
    return rc;
}
