add_executable(bench_matmul ${CMAKE_SOURCE_DIR}/tests/bench/bench_matmul.c)
target_link_libraries(bench_matmul PRIVATE iq_harness iq_kernels)
