# Matrix products: packed weights, the sum over K, reference, and one file of kernels per instruction set.
target_sources(iq_kernels PRIVATE matrix.c sum_plan.c matmul_table.c kind/matmul.c kind/embed.c ref/matmul.c
  ref/embed.c cpu/features.c cpu/product.c cpu/product_scalar.c)
# GCC turns the zeroing of accumulators into `rep stos`, which costs more than it saves. -O2 and -g1 (no tracking of
# variables) make these files build in seconds rather than minutes; the kernels say themselves what is unrolled.
set(iq_product_options -O2 -g1 -fno-tree-loop-distribute-patterns)
set_source_files_properties(cpu/product_scalar.c PROPERTIES COMPILE_OPTIONS "${iq_product_options}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(iq_kernels PRIVATE cpu/product_avx2.c cpu/product_avx512.c)
  set_source_files_properties(cpu/product_avx2.c PROPERTIES COMPILE_OPTIONS
    "${iq_product_options};-mavx2;-mfma;-mf16c")
  set_source_files_properties(cpu/product_avx512.c PROPERTIES COMPILE_OPTIONS
    "${iq_product_options};-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c")
endif()
