"""Benchmarks of the GPU: each prints a table, and needs one."""
