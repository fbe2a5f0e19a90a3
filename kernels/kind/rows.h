/* For kinds whose points are rows of words as they stand in the output: row_bytes, get and put all follow from where a
 * point's rows lie. Internal to kernels/kind. */
#ifndef IQ_KIND_ROWS_H
#define IQ_KIND_ROWS_H

#include "kernels/op.h"

#include <string.h>

/* Defines row_bytes, get, put and runs of struct iq_kind, each name behind `prefix`, from `struct iq_run at(const void *args,
 * unsigned point)`, whose elements have 4 bytes. */
#define IQ__ROWS(prefix, at)                                                                                 \
    static size_t prefix##row_bytes(const void *args, unsigned point)                                        \
    {                                                                                                        \
        return at(args, point).n * sizeof(uint32_t);                                                         \
    }                                                                                                        \
    static const void *prefix##get(const void *args, unsigned point, uint32_t r, void *scratch)              \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        struct iq_run run_ = at(args, point);                                                                \
        return (uint32_t *)run_.x + r * run_.ld;                                                             \
    }                                                                                                        \
    static void prefix##put(const void *args, unsigned point, uint32_t r, const void *bytes)                 \
    {                                                                                                        \
        struct iq_run run_ = at(args, point);                                                                \
        memcpy((uint32_t *)run_.x + r * run_.ld, bytes, run_.n * sizeof(uint32_t));                          \
    }                                                                                                        \
    static unsigned prefix##runs(const void *args, unsigned point, struct iq_run run[IQ_RUNS])               \
    {                                                                                                        \
        run[0] = at(args, point);                                                                            \
        return run[0].n != 0;                                                                                \
    }
#define IQ__FLOAT_ROWS(at) IQ__ROWS(, at)

#endif
