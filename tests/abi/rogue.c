/* Kernels that misbehave, each in its own way, in layer 1 and from step 1 on: everywhere else they are right. */
#include <inquest/kernel.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void norm(const struct inquest_call *c, uint64_t rows)
{
    const struct inquest_tensor *x = &c->in[INQUEST_RMSNORM_X], *y = &c->out[INQUEST_RMSNORM_Y];
    const float *w = c->in[INQUEST_RMSNORM_WEIGHT].data;
    for (uint64_t r = 0; r < rows; r++)
        for (uint64_t g = 0; g < x->dim[1]; g++) {
            const float *in = (const float *)x->data + r * x->stride[0] + g * x->stride[1];
            float *out = (float *)y->data + r * y->stride[0] + g * y->stride[1];
            double sum = 0;
            for (uint64_t i = 0; i < x->dim[2]; i++) sum += (double)in[i] * (double)in[i];
            float scale = (float)(1 / sqrt(sum / (double)x->dim[2] + c->scalar[INQUEST_RMSNORM_EPS]));
            for (uint64_t i = 0; i < x->dim[2]; i++) out[i] = in[i] * scale * w[i];
        }
}

static char *end_of_y(const struct inquest_call *c)
{
    const struct inquest_tensor *y = &c->out[INQUEST_RMSNORM_Y];
    return (char *)((float *)y->data + (y->dim[0] - 1) * y->stride[0] + y->dim[1] * y->dim[2]);
}

static int *volatile nowhere = (int *)64;
static void dereference(const struct inquest_call *c) { *nowhere = (int)c->layer; }
static void past_end(const struct inquest_call *c) { memset(end_of_y(c), 0, 12); }
static void before_start(const struct inquest_call *c) { memset((char *)c->out[0].data - 8, 0, 8); }
static void far_past_end(const struct inquest_call *c) { memset(end_of_y(c), 0, 1 << 22); }
static void writes_input(const struct inquest_call *c)
{
    *(volatile float *)c->in[INQUEST_RMSNORM_X].data = 1;
}
static void aborts(const struct inquest_call *c) { (void)c, abort(); }
static void leaves(const struct inquest_call *c) { (void)c, exit(3); }
static void hangs(const struct inquest_call *c)
{
    (void)c;
    for (;;) pause();
}
static void spins(const struct inquest_call *c)
{
    for (volatile int on = c->abi != 0; on;) {}
}
static void eats(const struct inquest_call *c)
{
    enum { PIECE = 1 << 22 };
    (void)c;
    for (int i = 0; i < 4096; i++) {
        char *p = malloc(PIECE);
        if (!p) break;
        for (int at = 0; at < PIECE; at += 4096) ((volatile char *)p)[at] = 1;
    }
}
static int deep(volatile int *n)
{
    volatile int here[256] = {*n + 1};
    return *n < 0 ? 0 : deep(here) + here[1];
}
static void recurses(const struct inquest_call *c)
{
    volatile int n = (int)c->step;
    if (deep(&n) == 42) leaves(c);
}
static void answers(const struct inquest_call *c)
{
    (void)c;
    (void)!send(3, "42", 2, 0);
}
static void hangs_up(const struct inquest_call *c)
{
    close(3);
    hangs(c);
}
static int run(const struct inquest_call *c, void (*deed)(const struct inquest_call *))
{
    norm(c, c->in[INQUEST_RMSNORM_X].dim[0]);
    if (c->layer == 1 && c->step >= 1) deed(c);
    return INQUEST_OK;
}

static int refuses(const struct inquest_call *c)
{
    norm(c, c->in[INQUEST_RMSNORM_X].dim[0]);
    return c->layer == 1 && c->step >= 1 ? 7 : INQUEST_OK;
}
/* What it has not written is not golden's by luck. */
static int leaves_out(const struct inquest_call *c)
{
    norm(c, c->in[INQUEST_RMSNORM_X].dim[0] - (c->layer == 1 && c->step >= 1));
    return INQUEST_OK;
}
/* Standard output is inquest's own. */
static int talks(const struct inquest_call *c)
{
    printf("a kernel says that layer %u is on\n", c->layer);
    fflush(stdout);
    return INQUEST_DECLINED;
}
static int declines(const struct inquest_call *c) { return c ? INQUEST_DECLINED : INQUEST_OK; }

#define DEEDS(X)                                                                                             \
    X(dereference)                                                                                           \
    X(past_end)                                                                                              \
    X(before_start)                                                                                          \
    X(far_past_end)                                                                                          \
    X(writes_input) X(aborts) X(leaves) X(hangs) X(spins) X(eats) X(recurses) X(answers) X(hangs_up)

#define RUN(deed)                                                                                            \
    static int run_##deed(const struct inquest_call *c) { return run(c, deed); }
DEEDS(RUN)

static const struct inquest_kernel kernels[] = {
#define ROW(deed) {"rmsnorm", #deed, NULL, INQUEST_FAULTY, 0, NULL, run_##deed},
    DEEDS(ROW){"rmsnorm", "refuses", NULL, INQUEST_FAULTY, 0, NULL, refuses},
    {"rmsnorm", "leaves_out", NULL, INQUEST_FAULTY, 0, NULL, leaves_out},
    {"rmsnorm", "talks", NULL, INQUEST_GOLDEN, 0, NULL, talks},
    {"rmsnorm", "declines", NULL, INQUEST_GOLDEN, 0, NULL, declines},
};

static const struct inquest_kernel_library library = {INQUEST_ABI, sizeof(struct inquest_kernel),
                                                      sizeof kernels / sizeof *kernels, 0, kernels};

const struct inquest_kernel_library *inquest_kernels(uint32_t abi)
{
    return abi == INQUEST_ABI ? &library : NULL;
}
