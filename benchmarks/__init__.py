"""Benchmarks: each prints a table with the machine's limit and the peers measured in the same run."""
