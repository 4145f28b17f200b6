"""Predecessors on a GPU: the search for them in CUDA C++, and its launches."""
