"""The operations a workload is made of, one record per opcode (scheduler_perf 1.36, and the gang options of 1.37)."""
