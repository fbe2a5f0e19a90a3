# topk and sample.
target_sources(iq_kernels PRIVATE kind/topk.c kind/sample.c ref/topk.c ref/sample.c
  cpu/sampling_scalar.c cpu/sampling_table.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(iq_kernels PRIVATE cpu/sampling_avx2.c cpu/sampling_avx512.c)
  set_source_files_properties(cpu/sampling_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(cpu/sampling_avx512.c PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c")
endif()
