iq_test(test_attention test_attention.c LIBS iq_kernels)
iq_test(test_reduce test_reduce.c LIBS iq_kernels)
iq_test(test_prefix test_prefix.c LIBS iq_kernels)

add_executable(bench_attention ${CMAKE_SOURCE_DIR}/tests/bench/bench_attention.c)
target_link_libraries(bench_attention PRIVATE iq_kernels)
