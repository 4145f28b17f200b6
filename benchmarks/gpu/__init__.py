"""Measure the library on a GPU. Each benchmark prints a table, and needs a GPU."""
