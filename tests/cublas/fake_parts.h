/* The parts of the fake, for each other: what the record holds, objects, algorithms in the library's form. */
#ifndef IQ_TESTS_CUBLAS_FAKE_PARTS_H
#define IQ_TESTS_CUBLAS_FAKE_PARTS_H

#include "tests/cublas/fake.h"
#include "tests/cublas/fake_record.h"

extern struct fake_record fake_record;

/* The table's functions. */
#define X(library, result, field, symbol, params, args) result lib_##field params;
IQ_CUBLAS_API_MAP(X)
#undef X

/* Counts a call; not 0: it is to fail. Each function that may fail begins with it. */
enum fake_call {
#define X(library, result, field, symbol, params, args) CALL_##field,
    IQ_CUBLAS_API_MAP(X)
#undef X
        CALLS
};
int fake_enter(enum fake_call);
#define ENTER(field)                                                                                         \
    do {                                                                                                     \
        int enter_ = fake_enter(CALL_##field);                                                               \
        if (enter_) return enter_;                                                                           \
    } while (0)

struct object {
    enum { HANDLE, LT, DESC, LAYOUT, PREF } what;
    int compute, type, transpose;
    uint64_t rows, cols, workspace;
    int64_t ld;
    void *stream;
};
/* The object, if it is one of these; else NULL. */
const struct object *fake_is(void *object, int what);

/* IQ_CUBLAS_FP32 .., or -1. */
int fake_type(int compute, int data);

struct blob_form {
    struct iq_cublas_algo algo;
    uint32_t type;
    uint64_t mark;
};
struct iq_cublas_blob fake_blob(unsigned type, const struct iq_cublas_algo *);
bool fake_blob_read(const struct iq_cublas_blob *, struct blob_form *);
/* Whether the record's algorithm can be set like that. */
int fake_settings_check(unsigned type, const struct iq_cublas_algo *);

#endif
