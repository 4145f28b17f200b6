"""Compute one closure on several ranks, each of which holds tiles of the matrix.

Ranks are GPUs of a host, processes of MPI, or threads. `grid` assigns the tiles, and `closing` is the algorithm.
`transports` defines how panels are sent during the computation; `gpu_transports` are those of GPUs.
`thread_communicator` and `mpi_communicator` implement the ranks, and `cost_model` predicts time and bytes.
"""
