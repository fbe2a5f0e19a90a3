#include "kernels/nccl/world.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* All devices' worlds; each device's owner is one thread. The lock also keeps two openings from each other's environment. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct iq__nccl_world *worlds;

int iq__nccl_done(struct iq__nccl_world *w, int code, int rank, const char *what)
{
    return iq_nccl_check_code(w->api, code, rank < 0 ? NULL : w->rank[rank].comm, what, &w->cuda->err);
}

/* ---- the environment that a communicator is opened in ---- */

static const char *const algorithm_names[IQ_NCCL_ALGORITHMS] = {NULL, "Ring", "Tree", "NVLS"};
static const char *const protocol_names[IQ_NCCL_PROTOCOLS] = {NULL, "LL", "LL128", "Simple"};

/* Sets a variable where there is a value, and gives a copy of what it was. */
static char *variable_swap(const char *name, const char *value)
{
    const char *was = getenv(name);
    char *copy = was ? strdup(was) : NULL;
    if (value) setenv(name, value, 1);
    return copy;
}

static void variable_restore(const char *name, const char *value, char *was)
{
    if (value && was) setenv(name, was, 1);
    if (value && !was) unsetenv(name);
    free(was);
}

/* ---- opening ---- */

/* These give codes of NCCL. */
static int init_channels(struct iq__nccl_world *w, void **comm)
{
    struct iq_nccl_config config = IQ_NCCL_CONFIG;
    struct iq_nccl_id id;
    config.min_ctas = config.max_ctas = (int)w->options.channels;
    int code = w->api->unique_id(&id), end;
    if (!code) code = w->api->group_start();
    if (code) return code;
    for (int r = 0; r < w->ranks && !code; r++) {
        if (w->cuda->api->device_use(w->rank[r].device))
            code = IQ_NCCL_CUDA_ERROR;
        else
            code = w->api->comm_init_rank(&comm[r], w->ranks, id, r, &config);
    }
    end = w->api->group_end();
    return code ? code : end;
}

static int init(struct iq__nccl_world *w, void **comm)
{
    int device[IQ_NCCL_RANKS];
    if (w->options.channels) return init_channels(w, comm);
    for (int r = 0; r < w->ranks; r++) device[r] = w->rank[r].device;
    return w->api->comm_init_all(comm, w->ranks, device);
}

static int open_comms(struct iq__nccl_world *w)
{
    char what[60];
    void *comm[IQ_NCCL_RANKS] = {0};
    const char *algorithm = algorithm_names[w->options.algorithm];
    const char *protocol = protocol_names[w->options.protocol];
    char *algorithm_was = variable_swap("NCCL_ALGO", algorithm);
    char *protocol_was = variable_swap("NCCL_PROTO", protocol);
    int code = init(w, comm);
    variable_restore("NCCL_ALGO", algorithm, algorithm_was);
    variable_restore("NCCL_PROTO", protocol, protocol_was);
    snprintf(what, sizeof what, "opening %d communicator%s", w->ranks, w->ranks == 1 ? "" : "s");
    for (int r = 0; r < w->ranks; r++) w->rank[r].comm = comm[r]; /* also of a failure: to be aborted */
    IQ_TRY(iq__nccl_done(w, code, -1, what));
    return iq_cuda_done(w->cuda, w->cuda->api->device_use(w->home), "choosing a device");
}

/* Rank 0 where the engine is, the others on the remaining GPUs in order. */
static int place_ranks(struct iq__nccl_world *w)
{
    const struct iq_cuda_api *api = w->cuda->api;
    int devices;
    IQ_TRY(iq_cuda_done(w->cuda, api->device_count(&devices), "counting the devices"));
    IQ_TRY(iq_cuda_done(w->cuda, api->device_current(&w->home), "asking for the device in use"));
    if (w->ranks > devices)
        return iq_fail(
            &w->cuda->err, IQ_UNSUPPORTED,
            "NCCL: %d ranks need %d GPUs and this machine has %d, as NCCL refuses two ranks on one; "
            "use --tp %d, or golden's all_reduce",
            w->ranks, w->ranks, devices, devices);
    w->rank[0].device = w->home;
    for (int r = 1, d = 0; r < w->ranks; d++)
        if (d != w->home) w->rank[r++].device = d;
    return IQ_OK;
}

static int open_streams(struct iq__nccl_world *w)
{
    const struct iq_cuda_api *api = w->cuda->api;
    for (int r = 0; r < w->ranks; r++) {
        struct iq__nccl_rank *k = &w->rank[r];
        IQ_TRY(iq_cuda_done(w->cuda, api->device_use(k->device), "choosing a device"));
        IQ_TRY(iq_cuda_done(w->cuda, api->event_create(&k->event), "creating an event"));
        if (r) IQ_TRY(iq_cuda_done(w->cuda, api->stream_create(&k->stream), "creating a rank's stream"));
    }
    w->rank[0].stream = w->cuda->stream;
    return iq_cuda_done(w->cuda, api->device_use(w->home), "choosing a device");
}

/* ---- closing ---- */

static void world_free(struct iq__nccl_world *w, bool abort)
{
    const struct iq_cuda_api *api = w->cuda->api;
    for (int r = 0; r < w->ranks; r++) {
        struct iq__nccl_rank *k = &w->rank[r];
        if (k->comm) (void)(abort ? w->api->comm_abort : w->api->comm_destroy)(k->comm);
    }
    for (int r = 0; r < w->ranks; r++) {
        struct iq__nccl_rank *k = &w->rank[r];
        (void)api->device_use(k->device);
        iq_cuda_room_close(w->cuda, &k->room);
        if (r && k->stream) (void)api->stream_destroy(k->stream);
        if (k->event) (void)api->event_destroy(k->event);
    }
    (void)api->device_use(w->home);
    free(w);
}

static void drop(struct iq__nccl_world *w)
{
    struct iq__nccl_world **at = &worlds;
    while (*at != w) at = &(*at)->next;
    *at = w->next;
    world_free(w, true);
}

void iq_nccl_close(struct iq_cuda *cuda)
{
    if (!cuda) return;
    int lost = cuda->api->stream_sync(cuda->stream); /* nothing is still to run in them */
    pthread_mutex_lock(&lock);
    for (struct iq__nccl_world **at = &worlds, *w; (w = *at);) {
        if (w->cuda != cuda) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        world_free(w, lost || w->failed);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- finding ---- */

static bool same(const struct iq_nccl_options *a, const struct iq_nccl_options *b)
{
    return a->algorithm == b->algorithm && a->protocol == b->protocol && a->channels == b->channels;
}

static const struct iq_cuda_library library = {
    .check = iq_nccl_check, .close = iq_nccl_close, .name = "nccl"};

static int world_open(struct iq_cuda *cuda, const struct iq_nccl_api *api, int ranks,
                      const struct iq_nccl_options *options, struct iq__nccl_world **out)
{
    struct iq__nccl_world *w = calloc(1, sizeof *w);
    if (!w) return iq_fail(&cuda->err, IQ_MEMORY, "no memory for communicators");
    w->api = api, w->cuda = cuda, w->ranks = ranks, w->options = *options;
    int status = place_ranks(w);
    if (!status) status = open_streams(w);
    if (!status) status = open_comms(w);
    if (status) {
        struct iq_err first = cuda->err;
        world_free(w, true);
        cuda->err = first;
        return status;
    }
    iq_cuda_attach(cuda, &library);
    w->next = worlds;
    *out = worlds = w;
    return IQ_OK;
}

static int check_async(struct iq__nccl_world *w)
{
    int status = IQ_OK;
    for (int r = 0; r < w->ranks && !status; r++) {
        int said = 0, code = w->api->comm_async_error(w->rank[r].comm, &said);
        status = iq__nccl_done(w, code ? code : said, r, "a collective that was queued before");
    }
    w->failed = w->failed || status;
    return status;
}

int iq__nccl_world(struct iq_cuda *cuda, int ranks, const struct iq_nccl_options *options,
                   struct iq__nccl_world **out)
{
    const struct iq_nccl_api *api;
    int status;
    *out = NULL;
    IQ_TRY(iq_nccl_api(&api, &cuda->err));
    if (api->shim != cuda->shim)
        return iq_fail(&cuda->err, IQ_UNSUPPORTED,
                       "NCCL: the library works on GPUs, and this device is %s; use --device cuda",
                       cuda->shim ? "a shim of one" : "none of the table's");
    pthread_mutex_lock(&lock);
    struct iq__nccl_world *w = worlds;
    while (w && (w->cuda != cuda || w->ranks != ranks || w->api != api || !same(&w->options, options)))
        w = w->next;
    if (w && w->failed) {
        drop(w);
        w = NULL;
    }
    status = w ? check_async(w) : world_open(cuda, api, ranks, options, &w);
    pthread_mutex_unlock(&lock);
    if (!status) *out = w;
    return status;
}

int iq_nccl_check(struct iq_cuda *cuda)
{
    int status = IQ_OK;
    pthread_mutex_lock(&lock);
    for (struct iq__nccl_world *w = worlds; w && !status; w = w->next)
        if (w->cuda == cuda && !w->failed) status = check_async(w);
    pthread_mutex_unlock(&lock);
    return status;
}

/* ---- for a call ---- */

int iq__nccl_buffer(struct iq__nccl_world *w, int rank, size_t bytes, void **out)
{
    struct iq__nccl_rank *k = &w->rank[rank];
    bool grows = bytes > k->room.bytes || !k->room.blocks;
    *out = NULL;
    if (grows) IQ_TRY(iq_cuda_done(w->cuda, w->cuda->api->device_use(k->device), "choosing a device"));
    *out = iq_cuda_room_at_least(w->cuda, &k->room, bytes);
    int status = *out ? IQ_OK : w->cuda->err.status;
    if (grows) {
        struct iq_err first = w->cuda->err;
        int back = iq_cuda_done(w->cuda, w->cuda->api->device_use(w->home), "choosing a device");
        if (status)
            w->cuda->err = first;
        else
            status = back;
    }
    return status;
}

int iq__nccl_fork(struct iq__nccl_world *w)
{
    const struct iq_cuda_api *api = w->cuda->api;
    if (w->ranks == 1) return IQ_OK;
    IQ_TRY(iq_cuda_done(w->cuda, api->event_record(w->rank[0].event, w->rank[0].stream), "marking messages"));
    for (int r = 1; r < w->ranks; r++)
        IQ_TRY(iq_cuda_done(w->cuda, api->stream_wait(w->rank[r].stream, w->rank[0].event),
                            "waiting for messages"));
    return IQ_OK;
}

int iq__nccl_join(struct iq__nccl_world *w)
{
    const struct iq_cuda_api *api = w->cuda->api;
    for (int r = 1; r < w->ranks; r++) {
        IQ_TRY(
            iq_cuda_done(w->cuda, api->event_record(w->rank[r].event, w->rank[r].stream), "marking a rank"));
        IQ_TRY(iq_cuda_done(w->cuda, api->stream_wait(w->rank[0].stream, w->rank[r].event),
                            "waiting for a rank"));
    }
    return IQ_OK;
}
