iq_test(test_attention test_attention.c LIBS iq_kernels)
iq_test(test_reduce test_reduce.c LIBS iq_kernels)
iq_test(test_prefix test_prefix.c LIBS iq_kernels)
