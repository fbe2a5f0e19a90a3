# rmsnorm, rope, add, swiglu, temper, and the rotary table.
target_sources(iq_kernels PRIVATE
  kind/rmsnorm.c kind/rope.c kind/vector.c
  ref/rmsnorm.c ref/rope.c ref/vector.c
  rotary.c rotary_math.c
  cpu/vector_split.c cpu/vector_scalar.c cpu/vector_table.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(iq_kernels PRIVATE cpu/vector_avx2.c cpu/vector_avx512.c)
  set_source_files_properties(cpu/vector_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(cpu/vector_avx512.c PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c")
endif()
