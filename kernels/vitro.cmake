target_sources(iq_kernels PRIVATE vitro.c vitro_data.c)
