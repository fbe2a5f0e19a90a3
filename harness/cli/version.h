/* What this binary is, as the build says it. */
#ifndef IQ_HARNESS_VERSION_H
#define IQ_HARNESS_VERSION_H

#ifndef IQ_VERSION
#error "IQ_VERSION comes from CMake's project()"
#endif
#ifndef IQ_BUILD_FLAGS
#error "IQ_BUILD_FLAGS comes from harness/CMakeLists.txt"
#endif

#endif
