# kv_write, attention, all_reduce, prefix, and the plan of tensor-parallel shards.
target_sources(iq_kernels PRIVATE
  shard.c
  kind/kv_write.c kind/attention.c kind/all_reduce.c kind/prefix.c
  ref/kv_write.c ref/attention.c ref/all_reduce.c ref/prefix.c
  cpu/kv_write.c cpu/all_reduce.c
  cpu/attention.c cpu/attention_scalar.c cpu/attention_table.c)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  target_sources(iq_kernels PRIVATE cpu/attention_avx2.c cpu/attention_avx512.c)
  set_source_files_properties(cpu/attention_avx2.c PROPERTIES COMPILE_OPTIONS "-mavx2;-mfma;-mf16c")
  set_source_files_properties(cpu/attention_avx512.c PROPERTIES COMPILE_OPTIONS
    "-mavx512f;-mavx512bw;-mavx512vl;-mavx512dq;-mfma;-mf16c")
endif()
