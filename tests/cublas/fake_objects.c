/* Handles, descriptors, layouts, preferences; versions and statuses. */
#include "tests/cublas/fake_parts.h"

#include <stdlib.h>
#include <string.h>

static int live;

int fake_live(void) { return live; }

static int object_make(void **out, struct object o)
{
    *out = malloc(sizeof o);
    memcpy(*out, &o, sizeof o);
    live++;
    return IQ_CUBLAS_OK;
}

static int object_free(void *object)
{
    if (!object) return IQ_CUBLAS_INVALID_VALUE;
    free(object);
    live--;
    return IQ_CUBLAS_OK;
}

const struct object *fake_is(void *object, int what)
{
    const struct object *o = object;
    return o && (int)o->what == what ? o : NULL;
}

#define MAKE(field, ...)                                                                                     \
    ENTER(field);                                                                                            \
    return object_make(out, (struct object){__VA_ARGS__})

int lib_create(void **out) { MAKE(create, .what = HANDLE); }
int lib_lt_create(void **out) { MAKE(lt_create, .what = LT); }
int lib_pref_create(void **out) { MAKE(pref_create, .what = PREF); }
int lib_desc_create(void **out, int compute, int scale)
{
    if (scale != IQ_CUBLAS_R_32F) return IQ_CUBLAS_NOT_SUPPORTED;
    MAKE(desc_create, .what = DESC, .compute = compute);
}
int lib_layout_create(void **out, int type, uint64_t rows, uint64_t cols, int64_t ld)
{
    MAKE(layout_create, .what = LAYOUT, .type = type, .rows = rows, .cols = cols, .ld = ld);
}
int lib_destroy(void *handle) { return object_free(handle); }
int lib_lt_destroy(void *handle) { return object_free(handle); }
int lib_desc_destroy(void *desc) { return object_free(desc); }
int lib_layout_destroy(void *layout) { return object_free(layout); }
int lib_pref_destroy(void *pref) { return object_free(pref); }

int lib_desc_set(void *desc, int attr, const void *value, size_t bytes)
{
    ENTER(desc_set);
    if (!fake_is(desc, DESC) || attr != IQ_CUBLAS_DESC_TRANSA || bytes != 4) return IQ_CUBLAS_INVALID_VALUE;
    memcpy(&((struct object *)desc)->transpose, value, bytes);
    return IQ_CUBLAS_OK;
}

int lib_pref_set(void *pref, int attr, const void *value, size_t bytes)
{
    ENTER(pref_set);
    if (!fake_is(pref, PREF) || attr != IQ_CUBLAS_PREF_WORKSPACE || bytes != 8)
        return IQ_CUBLAS_INVALID_VALUE;
    memcpy(&((struct object *)pref)->workspace, value, bytes);
    return IQ_CUBLAS_OK;
}

int lib_version(void *handle, int *out)
{
    (void)handle;
    ENTER(version);
    *out = fake_record.cublas;
    return IQ_CUBLAS_OK;
}
size_t lib_lt_version(void) { return fake_record.cublaslt; }

int lib_set_stream(void *handle, void *stream)
{
    ENTER(set_stream);
    if (!fake_is(handle, HANDLE)) return IQ_CUBLAS_NOT_INITIALIZED;
    ((struct object *)handle)->stream = stream;
    return IQ_CUBLAS_OK;
}

int lib_set_workspace(void *handle, void *at, size_t bytes)
{
    ENTER(set_workspace);
    return fake_is(handle, HANDLE) && at && bytes ? IQ_CUBLAS_OK : IQ_CUBLAS_INVALID_VALUE;
}

int lib_set_math_mode(void *handle, int mode)
{
    ENTER(set_math_mode);
    return fake_is(handle, HANDLE) && mode == IQ_CUBLAS_MATH_DEFAULT ? IQ_CUBLAS_OK : IQ_CUBLAS_INVALID_VALUE;
}

static const struct {
    int status;
    const char *name, *text;
} statuses[] = {
    {0, "CUBLAS_STATUS_SUCCESS", "success"},
    {1, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {3, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {7, "CUBLAS_STATUS_INVALID_VALUE", "an unsupported value or parameter was passed to the function"},
    {13, "CUBLAS_STATUS_EXECUTION_FAILED", "the function failed to launch on the GPU"},
    {14, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {15, "CUBLAS_STATUS_NOT_SUPPORTED", "the requested functionality is not supported"}};

const char *lib_status_name(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status) return statuses[i].name;
    return "unrecognized status";
}
const char *lib_status_text(int status)
{
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        if (statuses[i].status == status) return statuses[i].text;
    return "unrecognized status";
}
