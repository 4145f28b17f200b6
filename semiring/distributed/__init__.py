"""One closure by several ranks, each of which holds tiles of the matrix: GPUs of a host, processes of MPI, or threads.

`grid` deals the tiles out, `closing` is the algorithm, `links` are the ways on which tiles travel while others are
worked on, `threads` and `mpi` are ranks that talk to each other, `model` says what time and bytes it takes.
"""
