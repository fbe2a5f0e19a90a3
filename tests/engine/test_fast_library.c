/* A library linked with fast-math is loaded while an engine runs: the engine says so at its next step, and goes on once the mode
 * is put back, to the same answers. */
#define _GNU_SOURCE
#include "tests/check_main.h"
#include "tests/engine/rig.h"
#include "tests/engine/small_models.h"
#include "tests/files/scratch.h"

#include <dlfcn.h>
#include <fenv.h>
#include <stdlib.h>
#include <string.h>

static float quarter_of_the_smallest(void)
{
    volatile float x = 0x1p-126f, y = x / 4; /* a subnormal, made while the program runs */
    return y;
}

START_TEST(the_engine_notices_and_goes_on_once_it_is_put_back)
{
    const char *path = getenv("IQ_TEST_LIBRARY");
    struct iq_engine_config c = IQ_ENGINE_CONFIG;
    struct iq_model *m = iq_rig_model(iq_small_write(&iq_small_tiny), 1);
    struct iq_rig_set set = iq_rig_set_make(5, &(struct iq_rig_shape){4, m->config.vocab, 20, 6, 8, false});
    struct iq_rig golden, g;
    struct iq_err err = {0};
    bool more;
    fenv_t before;
    iq_rig_run(&golden, m, &c, set.request, set.n, NULL, false);
    iq_rig_open(&g, m, &c, set.request, set.n, NULL, false);
    ck_assert_int_eq(iq_engine_step(g.engine, &more, &err), IQ_OK);
    ck_assert(more && path);
    fegetenv(&before);
    ck_assert(quarter_of_the_smallest() > 0);
    void *library = dlopen(path, RTLD_NOW);
    ck_assert_msg(library != NULL, "%s", dlerror());
    if (quarter_of_the_smallest() == 0) {
        ck_assert_int_eq(iq_engine_step(g.engine, &more, &err), IQ_MISMATCH);
        ck_assert_msg(strstr(err.text, "the floating-point mode changed") && strstr(err.text, "-ffast-math"),
                      "%s", err.text);
        fesetenv(&before);
    } else {
#if defined __x86_64__ && defined __GNUC__ && !defined __clang__
        ck_abort_msg("the library left subnormals as they were; this compiler's fast-math takes them away");
#endif
    }
    iq_rig_go(&g);
    ck_assert_uint_eq(iq_rig_differing(&golden, &g), 0);
    dlclose(library);
    iq_rig_close(&g), iq_rig_close(&golden);
    iq_rig_set_free(&set);
    iq_model_close(m);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("a library linked with fast-math");
    TCase *c = tcase_create("library");
    tcase_set_timeout(c, 120);
    tcase_add_checked_fixture(c, iq_scratch_make, iq_scratch_remove);
    tcase_add_test(c, the_engine_notices_and_goes_on_once_it_is_put_back);
    suite_add_tcase(s, c);
    return check_main(s);
}
