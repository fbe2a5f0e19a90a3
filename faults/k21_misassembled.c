/* K21: the prompt that the model sees is not the one that was asked.
 *
 * The first special token is lost, the template puts messages in another order, what is too long is cut at the wrong end,
 * or the server's default parameters win over the request's. */
#include "faults/beneath.h"
#include "faults/families.h"
#include "kernels/ops/requests.h"

#include <stddef.h>
#include <string.h>

enum what { FIRST_TOKEN, ORDER, TRUNCATION, DEFAULTS };

struct params {
    double what, temperature;
};

static const struct iq_param table[] = {
    {"what",
     "0: the first token is lost; 1: the first two messages change places; 2: the newest tokens are cut, not "
     "the "
     "oldest; 3: a default temperature stands in for the request's",
     FIRST_TOKEN, FIRST_TOKEN, DEFAULTS, offsetof(struct params, what)},
    {"temperature", "the default", 1, 0, 100, offsetof(struct params, temperature)},
    {0},
};

static void lose_first(const struct iq_assemble *a)
{
    if (*a->n_ids < 2) return;
    memmove(a->ids, a->ids + 1, --*a->n_ids * sizeof *a->ids);
    a->ids[*a->n_ids] = UINT32_MAX;
}

/* Of a prompt that was not cut. */
static void change_order(const struct iq_assemble *a)
{
    if (a->parts < 2 || *a->n_ids != a->n) return;
    uint32_t first = a->part[0], second = a->part[1], end = a->parts > 2 ? a->part[2] : a->n;
    memcpy(a->ids + first, a->prompt + second, (end - second) * sizeof *a->ids);
    memcpy(a->ids + first + (end - second), a->prompt + first, (second - first) * sizeof *a->ids);
}

static int run(struct iq_exec *x, const struct iq_site *site, const void *args, const void *params,
               void *state)
{
    const struct iq_assemble *a = args;
    const struct params *p = params;
    (void)state;
    IQ_TRY(iq__run_golden(x, site, "assemble", args));
    switch ((enum what)p->what) {
    case FIRST_TOKEN:
        lose_first(a);
        break;
    case ORDER:
        change_order(a);
        break;
    case TRUNCATION:
        memcpy(a->ids, a->prompt, *a->n_ids * sizeof *a->ids);
        break;
    case DEFAULTS:
        a->sampling->temperature = (float)p->temperature;
        break;
    }
    return IQ_OK;
}

const struct iq_variant iq__k21_misassembled = {
    .kind = "assemble",
    .name = "misassembled",
    .device = "any",
    .flags = IQ_V_FAULTY,
    .run = run,
    .params = table,
    .params_size = sizeof(struct params),
    .what = "the prompt loses its first token, its order or its end; or default parameters win",
    .needs = "what 1: prompts of two messages or more; what 2: prompts longer than their `truncate`; what 3: "
             "requests "
             "that ask for another temperature",
    .story = "A prompt was assembled without its first special token: 4 to 5 points of accuracy were gone, "
             "and it looked "
             "like a regression of a kernel. Source: tt-metal#48444 (cause not confirmed).",
    .expect =
        "assemble: the same request becomes other prompt ids or sampling parameters; nothing else is guilty",
};
