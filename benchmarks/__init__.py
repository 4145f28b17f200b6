"""Measure the library. Each benchmark prints a table with the machine's limit and the peers, from the same run."""
