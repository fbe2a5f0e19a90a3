iq_test(test_sampling test_sampling.c LIBS iq_kernels)
