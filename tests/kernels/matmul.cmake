iq_test(test_matmul test_matmul.c LIBS iq_kernels)
iq_test(test_pack test_pack.c LIBS iq_kernels)
add_executable(bench_matmul ${CMAKE_SOURCE_DIR}/tests/bench/bench_matmul.c)
target_link_libraries(bench_matmul PRIVATE iq_harness iq_kernels)
