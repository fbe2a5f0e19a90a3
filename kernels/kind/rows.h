/* For kinds whose points are rows of float32 as they stand in the output: row_bytes, get and put all follow from where
 * a point's rows lie. Internal to kernels/kind. */
#ifndef IQ_KIND_ROWS_H
#define IQ_KIND_ROWS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct iq__rows {
    float *y;     /* (rows, n), row stride ld floats */
    size_t ld, n; /* n 0: the call has no such point */
};

/* Defines row_bytes, get and put of struct iq_kind from `struct iq__rows at(const void *args, unsigned point)`. */
#define IQ__FLOAT_ROWS(at)                                                                                   \
    static size_t row_bytes(const void *args, unsigned point) { return at(args, point).n * sizeof(float); }  \
    static const void *get(const void *args, unsigned point, uint32_t r, void *scratch)                      \
    {                                                                                                        \
        (void)scratch;                                                                                       \
        struct iq__rows rows_ = at(args, point);                                                             \
        return rows_.y + r * rows_.ld;                                                                       \
    }                                                                                                        \
    static void put(const void *args, unsigned point, uint32_t r, const void *bytes)                         \
    {                                                                                                        \
        struct iq__rows rows_ = at(args, point);                                                             \
        memcpy(rows_.y + r * rows_.ld, bytes, rows_.n * sizeof(float));                                      \
    }

#endif
