"""Find predecessors on a GPU: the search in CUDA C++, and its launches."""
