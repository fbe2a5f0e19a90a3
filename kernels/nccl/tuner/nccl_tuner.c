/* libinquest_nccl_tuner.so: pins NCCL's algorithm and protocol by collective and message size.
 *
 *     NCCL_TUNER_PLUGIN=/path/libinquest_nccl_tuner.so INQUEST_NCCL_TUNER='allreduce 0-64K tree/ll; any all ring/simple'
 *     NCCL_TUNER_PLUGIN=/path/libinquest_nccl_tuner.so INQUEST_NCCL_TUNER=/path/rules.txt
 *
 * A value that begins with / or . names a file of rules, any other is the rules themselves (rules.h has their form), `help`
 * shows it. Every process of a communicator needs the same rules: NCCL hangs where ranks choose differently. What is not
 * understood is one warning in NCCL's log (NCCL_DEBUG=WARN), and NCCL decides as without a tuner. With NCCL_DEBUG=INFO and
 * NCCL_DEBUG_SUBSYS=TUNING each rule says when it first decides, or that its combination is not to be had.
 *
 * It stands here rather than under probes, for it changes what it is loaded into. It links nothing but the C library. */
#include "kernels/nccl/tuner/rules.h"
#include "kernels/nccl/tuner/tuner_abi.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define VARIABLE "INQUEST_NCCL_TUNER"

static const char *const help[] = {
    "INQUEST_NCCL_TUNER: rules, or a file of them (/path or ./path). A rule a line, or between semicolons; # "
    "is a comment:",
    "    COLLECTIVE BYTES ALGORITHM/PROTOCOL [channels=N] [ranks=A-B]",
    "    COLLECTIVE  broadcast reduce allgather reducescatter allreduce any",
    "    BYTES       A-B (fewer than B), A-, or all; K M G",
    "    ALGORITHM   tree ring collnetdirect collnetchain nvls nvlstree pat; PROTOCOL  ll ll128 simple",
    "    as in: allreduce 0-64K tree/ll; allreduce 64K- ring/ll128 channels=8; any all ring/simple",
    "    The first rule that fits wins; calls that none fits are NCCL's own.",
};

/* Of one communicator. */
struct context {
    tuner_log_fn *log;
    size_t ranks;
    bool said[IQ_TUNER_RULES][2]; /* by rule: that it decided, that it could not */
    struct iq_tuner_rules rules;
};

#define SAY(c, level, ...)                                                                                   \
    do {                                                                                                     \
        if ((c)->log) (c)->log(level, TUNER_LOG_INIT | TUNER_LOG_TUNING, __FILE__, __LINE__, __VA_ARGS__);   \
    } while (0)

/* ---- reading the rules ---- */

/* What a file may hold and one byte more, so that one that is longer is refused. */
static bool file_read(const char *path, char *text, size_t size, size_t *bytes, char *why, size_t why_size)
{
    FILE *f = fopen(path, "re");
    if (f) {
        *bytes = fread(text, 1, size, f);
        bool failed = ferror(f) != 0;
        fclose(f);
        if (!failed) return true;
    }
    snprintf(why, why_size, "%s", strerror(errno));
    return false;
}

static bool rules_read(struct context *c, const char *value, char *why, size_t why_size)
{
    if (*value != '/' && *value != '.') return iq_tuner_parse(value, strlen(value), &c->rules, why, why_size);
    size_t bytes = 0, size = IQ_TUNER_BYTES + 1;
    char *text = malloc(size);
    if (!text) return false;
    bool ok = file_read(value, text, size, &bytes, why, why_size) &&
              iq_tuner_parse(text, bytes, &c->rules, why, why_size);
    free(text);
    return ok;
}

/* How much of a text to show: of one line, and not too long. */
static size_t printing(const char *text)
{
    size_t n = 0;
    while (n < 200 && text[n] >= 0x20 && text[n] < 0x7f) n++;
    return n;
}

static void configure(struct context *c)
{
    char why[400] = "no memory";
    const char *value = getenv(VARIABLE);
    if (!value || !*value) {
        SAY(c, TUNER_LOG_WARN,
            "inquest tuner: " VARIABLE " is not set, so NCCL decides; " VARIABLE "=help says more");
        return;
    }
    if (!strcmp(value, "help")) {
        for (size_t i = 0; i < sizeof help / sizeof help[0]; i++) SAY(c, TUNER_LOG_WARN, "%s", help[i]);
        return;
    }
    if (rules_read(c, value, why, sizeof why))
        SAY(c, TUNER_LOG_INFO, "inquest tuner: %zu rules for %zu ranks", c->rules.n, c->ranks);
    else
        SAY(c, TUNER_LOG_WARN, "inquest tuner: " VARIABLE "=%.*s: %s; NCCL decides as without it",
            (int)printing(value), value, why);
}

/* ---- what NCCL calls ---- */

static int init(size_t ranks, size_t nodes, tuner_log_fn *log, void **context)
{
    struct context *c = calloc(1, sizeof *c);
    (void)nodes;
    *context = c;
    if (!c) return 0; /* no rules, no harm */
    c->log = log;
    c->ranks = ranks;
    configure(c);
    return 0;
}

static int init_v5(void **context, uint64_t communicator, size_t ranks, size_t nodes, tuner_log_fn *log,
                   void *domains, void *constants)
{
    (void)communicator, (void)domains, (void)constants;
    return init(ranks, nodes, log, context);
}

static void say_once(struct context *c, const struct iq_tuner_rule *r, bool decided, size_t bytes)
{
    size_t i = (size_t)(r - c->rules.rule);
    if (c->said[i][decided]) return;
    c->said[i][decided] = true;
    SAY(c, TUNER_LOG_INFO, "inquest tuner: rule %zu, %s/%s: %s, first at %zu bytes", i + 1,
        iq_tuner_algorithm(r->algorithm), iq_tuner_protocol(r->protocol),
        decided ? "decides" : "not to be had here, NCCL decides", bytes);
}

/* NCCL takes the first of the lowest costs. So the rule's becomes 0, and whatever else was 0 costs something. */
static void pin(float *costs, int algorithms, int protocols, int at)
{
    for (int i = 0; i < algorithms * protocols; i++)
        if (costs[i] == 0) costs[i] = 1;
    costs[at] = 0;
}

static int get_info(void *context, int collective, size_t bytes, int pipelined, float **costs, int algorithms,
                    int protocols, int registered, int *channels)
{
    struct context *c = context;
    (void)pipelined, (void)registered;
    const struct iq_tuner_rule *r = c ? iq_tuner_find(&c->rules, collective, bytes, c->ranks) : NULL;
    if (!r) return 0;
    int at = r->algorithm * protocols + r->protocol;
    float *cost = (float *)costs; /* declared as it is, it is an array of floats */
    bool decides = r->algorithm < algorithms && r->protocol < protocols && !(cost[at] < 0);
    say_once(c, r, decides, bytes);
    if (!decides) return 0;
    pin(cost, algorithms, protocols, at);
    if (r->channels) *channels = r->channels;
    return 0;
}

static int get_info_v3(void *context, int collective, size_t bytes, int pipelined, float **costs,
                       int algorithms, int protocols, int *channels)
{
    return get_info(context, collective, bytes, pipelined, costs, algorithms, protocols, 0, channels);
}

static int finish(void *context)
{
    free(context);
    return 0;
}

#define EXPORT extern __attribute__((visibility("default")))
#define NAME   "inquest"
EXPORT const struct tuner_v3 ncclTunerPlugin_v3;
EXPORT const struct tuner_v4 ncclTunerPlugin_v4;
EXPORT const struct tuner_v5 ncclTunerPlugin_v5;
const struct tuner_v3 ncclTunerPlugin_v3 = {NAME, init, get_info_v3, finish};
const struct tuner_v4 ncclTunerPlugin_v4 = {NAME, init, get_info, finish};
const struct tuner_v5 ncclTunerPlugin_v5 = {NAME, init_v5, get_info, finish};
