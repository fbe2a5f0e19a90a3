/* A library whose table is broken as the environment's ABI_CASE says. */
#include <inquest/kernel.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static int run(const struct inquest_call *c)
{
    (void)c;
    return INQUEST_DECLINED;
}

static struct inquest_param params[2] = {{"p", "help", 1, 0, 2}, {"q", NULL, 1, 0, 2}};
static char long_name[1000];
static struct inquest_kernel kernels[2] = {{"rmsnorm", "first", "what", 0, 2, params, run},
                                           {"rmsnorm", "second", NULL, 0, 0, NULL, run}};
static struct inquest_kernel_library library = {INQUEST_ABI, sizeof *kernels, 2, 0, kernels};

static int is(const char *name)
{
    const char *wanted = getenv("ABI_CASE");
    return wanted && !strcmp(wanted, name);
}

static int *volatile nowhere = (int *)64;

__attribute__((constructor)) static void loaded(void)
{
    if (is("dies-in-constructor")) *nowhere = 1;
    if (is("exits-in-constructor")) exit(0);
#if defined(__x86_64__)
    if (is("flushes")) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

const struct inquest_kernel_library *inquest_kernels(uint32_t abi)
{
    memset(long_name, 'a', sizeof long_name - 1);
    if (is("null-table") || abi != INQUEST_ABI) return NULL;
    if (is("dies-in-listing")) abort();
    if (is("wrong-abi")) library.abi = 99;
    if (is("wrong-size")) library.kernel_size = 8;
    if (is("no-kernels")) library.n_kernels = 0;
    if (is("many-kernels")) library.n_kernels = 4000000000u;
    if (is("null-kernels")) library.kernels = NULL;
    if (is("wild-kernels")) library.kernels = (const struct inquest_kernel *)16;
    if (is("null-name")) kernels[1].name = NULL;
    if (is("null-kind")) kernels[1].kind = NULL;
    if (is("empty-name")) kernels[1].name = "";
    if (is("odd-name")) kernels[1].name = "a b\n\"\033[31m";
    if (is("latin-name")) kernels[1].name = "n\xf6rm";
    if (is("long-name")) kernels[1].name = long_name;
    if (is("same-name")) kernels[1].name = "first";
    if (is("taken-name")) kernels[1].name = "reference";
    if (is("odd-kind")) kernels[1].kind = "rmsnrom";
    if (is("other-kind")) kernels[1].kind = "sample";
    if (is("null-run")) kernels[1].run = NULL;
    if (is("odd-flags")) kernels[1].flags = 0x80;
    if (is("both-flags")) kernels[1].flags = INQUEST_FAULTY | INQUEST_GOLDEN;
    if (is("nan-param")) params[1].hi = NAN;
    if (is("inf-param")) params[1].hi = INFINITY;
    if (is("param-range")) params[1].def = 3;
    if (is("same-param")) params[1].name = "p";
    if (is("null-param")) params[1].name = NULL;
    if (is("many-params")) kernels[0].n_params = 1000000;
    return &library;
}
