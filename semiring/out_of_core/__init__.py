"""Matrices as strips of rows that live in files: larger than memory.

`stored` says which file holds a matrix, `disk` reads and writes rows of it, `layout` cuts a closure into strips and
rounds that fit a memory, `rooms` is the memory of the host or of a GPU, `rounds` runs the tasks of blocked
Floyd-Warshall there, `last` puts in what takes the whole closed matrix, `journal` lets a run that was stopped go on,
and `run` puts them together.
"""
