"""Compute one closure on several ranks, each of which holds tiles of the matrix.

Ranks are GPUs of a host, processes of MPI, or threads. `grid` assigns the tiles, and `closing` is the algorithm.
`transports` defines how panels are sent during the computation; `gpu_transports` are those of GPUs.
`transports` and `mpi_communicator` implement the ranks by threads and by MPI. `cost_model` predicts time and bytes.
"""
