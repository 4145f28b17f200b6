"""Measure the library on a GPU; each benchmark prints a table, and needs a GPU."""
