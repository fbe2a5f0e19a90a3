#include "kernels/cublas/handle.h"

#include <stdlib.h>

static struct iq_cublas *all; /* one entry a device; few */

static int start(struct iq_cublas *b, struct iq_err *err)
{
    const struct iq_cublas_api *api = b->api;
    IQ_TRY(iq_cublas_check(api, api->version(NULL, &b->version), "asking for the version", err));
    b->lt_version = api->lt_version();
    IQ_TRY(iq_cublas_version_check("cuBLAS", (uint64_t)b->version, err));
    IQ_TRY(iq_cublas_version_check("cuBLASLt", b->lt_version, err));
    IQ_TRY(iq_cublas_check(api, api->create(&b->handle), "creating a handle (cublasCreate)", err));
    IQ_TRY(iq_cublas_check(api, api->lt_create(&b->lt), "creating a handle (cublasLtCreate)", err));
    if (iq_cuda_alloc(b->cuda, IQ_CUBLAS_WORKSPACE, &b->workspace)) {
        if (err && err != &b->cuda->err) *err = b->cuda->err;
        return iq_err_prefix(err ? err : &b->cuda->err, "the workspace of cuBLAS (32 MiB): ");
    }
    IQ_TRY(iq_cublas_check(api, api->set_stream(b->handle, b->cuda->stream), "setting the stream", err));
    /* After the stream, which resets it. Its own would be allocated behind a graph capture's back. */
    IQ_TRY(iq_cublas_check(api, api->set_workspace(b->handle, b->workspace, IQ_CUBLAS_WORKSPACE),
                           "setting the workspace", err));
    return iq_cublas_check(api, api->set_math_mode(b->handle, IQ_CUBLAS_MATH_DEFAULT),
                           "setting the math mode", err);
}

static void finish(struct iq_cublas *b)
{
    if (b->lt) b->api->lt_destroy(b->lt);
    if (b->handle) b->api->destroy(b->handle);
    if (b->workspace) b->cuda->api->free(b->workspace);
    free(b->use);
    free(b);
}

static const struct iq_cuda_library library = {
    .close = iq_cublas_close, .name = "cublas", .report = iq_cublas_uses_json};

int iq_cublas_of(struct iq_cuda *cuda, struct iq_cublas **out, struct iq_err *err)
{
    const struct iq_cublas_api *api;
    *out = NULL;
    for (struct iq_cublas *b = all; b; b = b->next)
        if (b->cuda == cuda) {
            *out = b;
            return IQ_OK;
        }
    IQ_TRY(iq_cublas_api(&api, err));
    if (cuda->shim && !api->shim)
        return iq_fail(
            err, IQ_UNSUPPORTED,
            "cuBLAS can't reach the memory of the CUDA shim, which is the CPU's; use --device cuda on a "
            "machine with a GPU");
    struct iq_cublas *b = calloc(1, sizeof *b);
    if (!b) return iq_fail(err, IQ_MEMORY, "no memory for the handles of cuBLAS");
    b->api = api, b->cuda = cuda;
    int status = start(b, err);
    if (status) {
        finish(b);
        return status;
    }
    b->next = all;
    *out = all = b;
    iq_cuda_attach(cuda, &library);
    return IQ_OK;
}

void iq_cublas_close(struct iq_cuda *cuda)
{
    for (struct iq_cublas **at = &all; *at; at = &(*at)->next) {
        struct iq_cublas *b = *at;
        if (b->cuda != cuda) continue;
        *at = b->next;
        finish(b);
        return;
    }
}

/* ---- what ran ---- */

const struct iq_cublas_use *iq_cublas_uses(struct iq_cuda *cuda, size_t *n)
{
    for (struct iq_cublas *b = all; b; b = b->next)
        if (b->cuda == cuda) {
            *n = b->uses;
            return b->use;
        }
    *n = 0;
    return NULL;
}

static void use_json(const struct iq_cublas_use *u, struct iq_jw *jw)
{
    char id[IQ_CUBLAS_ID];
    iq_jw_begin(jw, '{');
    iq_jw_key(jw, "variant"), iq_jw_str(jw, u->variant);
    iq_jw_key(jw, "type"), iq_jw_str(jw, iq_cublas_types[u->shape.type].name);
    iq_jw_key(jw, "n"), iq_jw_u64(jw, u->shape.n);
    iq_jw_key(jw, "k"), iq_jw_u64(jw, u->shape.k);
    iq_jw_key(jw, "rows"), iq_jw_u64(jw, u->shape.rows);
    if (u->bucket) {
        iq_cublas_algo_print(&u->choice.id, id);
        iq_jw_key(jw, "bucket"), iq_jw_u64(jw, u->bucket);
        iq_jw_key(jw, "choice"), iq_jw_u64(jw, u->place);
        iq_jw_key(jw, "pinned"), iq_jw_bool(jw, u->pinned);
        iq_jw_key(jw, "id"), iq_jw_str(jw, id);
        iq_jw_key(jw, "pin"), iq_cublas_algo_json(&u->choice.id, jw);
        iq_jw_key(jw, "workspace"), iq_jw_u64(jw, u->choice.workspace);
    }
    iq_jw_key(jw, "calls"), iq_jw_u64(jw, u->calls);
    iq_jw_end(jw, '}');
}

void iq_cublas_uses_json(struct iq_cuda *cuda, struct iq_jw *jw)
{
    size_t n;
    const struct iq_cublas_use *u = iq_cublas_uses(cuda, &n);
    iq_jw_begin(jw, '[');
    for (size_t i = 0; i < n; i++) use_json(u + i, jw);
    iq_jw_end(jw, ']');
}
