/* How a test binary ends: `return check_main(suite)` from main runs the suite, frees it, and gives 0 where all passed. */
#ifndef IQ_TESTS_CHECK_MAIN_H
#define IQ_TESTS_CHECK_MAIN_H

#include <check.h>

static inline int check_main(Suite *suite)
{
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}

#endif
