#include "tests/cublas/fake_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct fake_record fake_record;

static const char *const call_names[] = {
#define X(library, result, field, symbol, params, args) #field,
    IQ_CUBLAS_API_MAP(X)
#undef X
};
static struct {
    unsigned calls, left;
    int status;
} call[CALLS];

static int call_find(const char *field)
{
    for (int i = 0; i < CALLS; i++)
        if (!strcmp(field, call_names[i])) return i;
    fprintf(stderr, "the table has no function %s\n", field);
    abort();
}

void fake_fail(const char *field, unsigned nth, int status)
{
    int i = call_find(field);
    call[i].left = nth;
    call[i].status = status;
}

unsigned fake_calls(const char *field) { return call[call_find(field)].calls; }

int fake_enter(enum fake_call i)
{
    call[i].calls++;
    return call[i].left && !--call[i].left ? call[i].status : 0;
}

void fake_versions(int cublas, size_t lt)
{
    fake_record.cublas = cublas;
    fake_record.cublaslt = lt;
}

static const struct iq_cublas_api table = {.name = "the fake of tests/cublas",
                                           .shim = true,
#define X(library, result, field, symbol, params, args) .field = lib_##field,
                                           IQ_CUBLAS_API_MAP(X)
#undef X
};

const struct iq_cublas_api *fake_open(const char *path)
{
    struct iq_err err = {0};
    memset(call, 0, sizeof call);
    if (fake_record_load(path, &fake_record, &err)) {
        fprintf(stderr, "%s\n", err.text);
        abort();
    }
    return &table;
}

void fake_close(void) { fake_record_free(&fake_record); }
