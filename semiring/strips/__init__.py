"""Matrices as strips of rows that live in files: larger than memory.

`stored` says which file holds a matrix, `disk` reads and writes rows of it, `layout` cuts a closure into strips and
rounds that fit a memory, `rounds` runs the tasks of blocked Floyd-Warshall on them, `journal` lets a run that was
stopped go on, and `run` puts them together.
"""
