/* Put in front of each file by tidy.sh: what clang's analyzer cannot see from one file. iq_fail returns the status that
 * it was given, which is never IQ_OK, so what IQ_TRY lets pass is a success. */
#include "kernels/base/status.h"

#define iq_fail(err, status, ...) ((iq_fail)(err, status, __VA_ARGS__), (status))
